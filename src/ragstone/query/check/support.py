"""Weigh two witnesses for a claim: the verifier's reading, and the comparison of exact values.

claim and window of a source → `Support`: a score from 0 to 1, its place, and what speaks against
it. The score joins the verifier's probabilities with the values that the window does not confirm;
`bench/fit_check.py` fits its weights so that 0.6 is the best bar on the dev halves. An exact value
that the source gives otherwise is a contradiction, whatever the verifier says.
"""

from __future__ import annotations

import math
import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from ragstone.index.analyze import extract_terms
from ragstone.query.check.facts import VALUES, Disagreement, find_disagreements
from ragstone.query.check.polarity import find_denials
from ragstone.query.check.windows import Window
from ragstone.reading.model import VerifierScores

# From here on a source counts as supporting: the usual citation threshold of grounding checks.
SUPPORTED_FROM = 0.6
# The verifier gives free wording a low score, but below this it sees no support at all. The fewer
# words a claim shares with its window, the more it needs: the verifier saw few texts about other
# things.
_LEAST_SUPPORTED, _LEAST_WITHOUT_WORDS = 0.05, 0.6
# An amount that its window does not give belongs to something else in most claims, and one that
# stands nowhere is invented: sums and other units were computed before. Of 1,472 claims 19 true
# ones with an invented amount had more than 0.05, and one of them more than 0.5.
_LEAST_WITH_VALUE_ELSEWHERE, _LEAST_WITH_INVENTED_VALUE = 0.8, 0.98
_SAME_SUBJECT = 0.25  # of the claim's words, rare ones counting more
SIGNALS = ("supported", "contradicted", "values_missing", "names_missing", "meaning")
# A contradicted claim cannot score higher than this, which is below what counts as grounded.
MAX_CONTRADICTED_SCORE = 0.25
_MIN_PART_TERMS = 3
_MAX_PARTS = 4
_LEAST_PROBABILITY = 1e-4


@dataclass(frozen=True, slots=True)
class Support:
    """Hold what one source says of a claim, best at `text[start:end]` of the source."""

    number: int
    start: int
    end: int
    score: float
    overlap: float = 0.0
    """The share of the claim's terms that its window holds, rare terms counting more."""
    disagreements: tuple[Disagreement, ...] = ()
    is_denied: bool = False
    """True when the verifier reads the contrary."""

    @property
    def has_other_value(self) -> bool:
        """Return True when the source gives another exact value for the same thing."""
        return any(one.contradicts and one.kind in VALUES for one in self.disagreements)

    @property
    def is_contradicted(self) -> bool:
        return self.is_denied or self.has_other_value

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return what speaks against the claim; where it is contradicted, that alone."""
        against = [one for one in self.disagreements if one.contradicts and one.kind in VALUES]
        found = [one.reason for one in against or self.disagreements]
        if self.is_denied and not against:
            found.insert(0, "The source says something else.")
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class CheckWeights:
    """Hold the fitted numbers of the check."""

    weights: NDArray[np.float64]
    bias: float
    denied_from: float
    """The verifier's probability of "contradicted" from which a claim is denied."""
    usual_meaning: float
    """The middle of the fitted claims; it stands for a meaning that was not measured."""


@cache
def load_check_weights() -> CheckWeights:
    text = resources.files(__package__).joinpath("weights.toml").read_text("utf-8")
    table = tomllib.loads(text)["verifier"]
    weights = np.array([float(table[name]) for name in SIGNALS])
    return CheckWeights(
        weights, float(table["bias"]), float(table["denied_from"]), float(table["usual_meaning"])
    )


def compute_signals(
    scores: VerifierScores, disagreements: Sequence[Disagreement], meaning: float
) -> NDArray[np.float64]:
    """Return one number per name in `SIGNALS`."""
    names = sum(one.kind == "name" and one.contradicts for one in disagreements)
    values = sum(one.kind in VALUES and not one.contradicts for one in disagreements)
    return np.array(
        [
            _compute_log_odds(scores.supported),
            # Below one half it tells nothing: for a claim about something else it is near zero.
            max(_compute_log_odds(scores.contradicted), 0.0),
            min(values, 3),
            min(names, 3),
            meaning,
        ]
    )


def _compute_log_odds(probability: float) -> float:
    bounded = min(max(probability, _LEAST_PROBABILITY), 1 - _LEAST_PROBABILITY)
    return math.log(bounded / (1 - bounded))


def says_support(
    scores: VerifierScores, coverage: float, disagreements: Iterable[Disagreement] = ()
) -> bool:
    """Return True when the verifier gives support the probability that it must have at least."""
    disagreements = tuple(disagreements)
    if any(one.is_invented for one in disagreements):
        return scores.supported >= _LEAST_WITH_INVENTED_VALUE
    if any(one.is_unconfirmed for one in disagreements):
        return scores.supported >= _LEAST_WITH_VALUE_ELSEWHERE
    related = min(coverage / _SAME_SUBJECT, 1.0)
    least = _LEAST_WITHOUT_WORDS + (_LEAST_SUPPORTED - _LEAST_WITHOUT_WORDS) * related
    return scores.supported >= least


def weigh_reading(
    claim: str,
    window: Window,
    scores: VerifierScores,
    around: str,
    measure_meaning: Callable[[], float] | None = None,
) -> Support:
    """Join the verifier's reading of a window, exact values, and how near the meanings are.

    The meaning is measured only for what may pass. The verifier, trained on claims near their
    evidence, is too easily content with a sentence about something else; the embedder tells those.
    """
    weights = load_check_weights()
    found = [
        one
        for one in find_disagreements(claim, window.text, around)
        # The verifier reads negation and opposites better than lists of words do.
        if one.kind in VALUES or (one.kind == "name" and one.contradicts)
    ]
    found += find_denials(claim, window.text)
    may_pass = says_support(scores, window.coverage, found)
    meaning = measure_meaning() if measure_meaning and may_pass else weights.usual_meaning
    signal = float(compute_signals(scores, found, meaning) @ weights.weights) + weights.bias
    score = 1.0 / (1.0 + math.exp(-max(min(signal, 30.0), -30.0)))
    if not may_pass:
        score = min(score, SUPPORTED_FROM - 0.01)
    denied = scores.contradicted >= weights.denied_from
    support = Support(
        window.number, window.start, window.end, score, window.coverage, tuple(found), denied
    )
    if support.is_contradicted:
        return replace(support, score=min(score, MAX_CONTRADICTED_SCORE))
    if score < SUPPORTED_FROM:
        # A window about something else supports no part of the claim.
        return replace(support, score=min(score, window.coverage))
    return support


def refuse_mixture(support: Support) -> Support:
    """Return the support of a claim that says of one subject what the source says of another."""
    reason = "The source says this of something else."
    found = Disagreement("role", reason, contradicts=False)
    return replace(
        support,
        score=min(support.score, MAX_CONTRADICTED_SCORE),
        disagreements=(*support.disagreements, found),
    )


_CLAUSE = re.compile(
    r";\s+|,\s+(?:and|but|while|whereas|although|though|yet)\s+|\s+(?:but|while|whereas)\s+"
    r"|,\s+(?=which\s)",
    re.IGNORECASE,
)
# A clause that begins like this has a subject of its own.
_SUBJECT = re.compile(
    r"(?:the|a|an|this|that|these|those|its|his|her|their|our|it|he|she|they|we|there|all|some|most|"
    r"no|both|each|every|one|two|three|\d[\d.,]*|nobody|everyone|anyone)\b|[A-ZÀ-Þ][\w’'-]+",
)


def split_claim(claim: str) -> list[str]:
    """Return the facts of a claim that can be judged apart; the claim itself if it holds one.

    Only clauses with a subject of their own are split: the others cannot be read alone.
    """
    parts: list[str] = []
    position = 0
    for match in _CLAUSE.finditer(claim):
        before, after = claim[position : match.start()], claim[match.end() :]
        if (
            len(extract_terms(before)) >= _MIN_PART_TERMS
            and len(extract_terms(after)) >= _MIN_PART_TERMS
            and _SUBJECT.match(after)
        ):
            parts.append(before)
            position = match.end()
    parts.append(claim[position:])
    if len(parts) == 1 or len(parts) > _MAX_PARTS:
        return [claim]
    return [f"{part[:1].upper()}{part[1:].rstrip(' .;,')}." for part in parts]


_QUOTED = re.compile(r"“([^“”]{3,})”|„([^“”„]{3,})[“”]|\"([^\"]{3,})\"|«([^«»]{3,})»")


def find_quotations(text: str) -> list[str]:
    """Return the texts of two words or more in quotation marks."""
    found = (next(group for group in match.groups() if group) for match in _QUOTED.finditer(text))
    return [quoted for quoted in found if len(quoted.split()) >= 2]


def find_missing_quotations(claim: str, texts: Iterable[str]) -> list[str]:
    """Return the quotations that no text holds. White space and Unicode form may differ."""
    quotations = find_quotations(claim)
    plain = [_normalize_quotation(text) for text in texts] if quotations else []
    return [q for q in quotations if not any(_normalize_quotation(q) in text for text in plain)]


def _normalize_quotation(text: str) -> str:
    flat = unicodedata.normalize("NFKC", text).translate(_SAME_SIGNS)
    return " ".join(flat.split()).strip(" .,;:!?")


_SAME_SIGNS = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "−": "-", "\xad": None}
)
