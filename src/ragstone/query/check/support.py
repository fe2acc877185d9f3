"""Measure how far a text supports a claim, by words, by meaning, and by its facts.

claim and units of a text → the window (one sentence or two neighbours) that supports it best, a
score from 0 to 1, and the disagreements. No LLM is asked: a quotation takes microseconds, a claim
in other words a few embeddings.
"""

from __future__ import annotations

import itertools
import math
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from ragstone.index.analyze import extract_terms
from ragstone.protocols import Embedder
from ragstone.query.check.facts import Disagreement, find_disagreements
from ragstone.reading.units import Unit
from ragstone.text import measure_support

FEATURES = ("content", "runs", "content_three", "content_all", "cosine", "cosine_three",
            "missing", "contradicting", "length", "weighed", "weighed_two", "terms_missing",
            "share_missing", "sentences", "numbers")  # fmt: skip
# A window that shares this much with a claim is its origin: a disagreement there decides, whatever
# other sentences say.
NEARLY_A_QUOTATION = 0.7
# A contradicted claim cannot score higher than this, which is below what counts as grounded.
MAX_CONTRADICTED_SCORE = 0.25
_WINDOWS_COMPARED = 3
_SENTENCES_EMBEDDED = 6
# From here on the meaning is not compared.
_CERTAIN = 0.9


@dataclass(frozen=True, slots=True)
class Support:
    """Hold the part of a text that supports a claim best, `text[start:end]`."""

    start: int
    end: int
    score: float
    overlap: float
    disagreements: tuple[Disagreement, ...] = ()

    @property
    def is_contradicted(self) -> bool:
        return any(one.contradicts for one in self.disagreements)


@dataclass(frozen=True, slots=True)
class _Window:
    start: int
    end: int
    text: str
    overlap: float
    content: float


@cache
def load_support_weights() -> tuple[NDArray[np.float64], float]:
    text = resources.files(__package__).joinpath("weights.toml").read_text("utf-8")
    table: Mapping[str, float] = tomllib.loads(text)["support"]
    return np.array([table[name] for name in FEATURES]), float(table["bias"])


def find_best_support(
    claim: str, text: str, parts: Sequence[Unit], embedder: Embedder | None
) -> Support:
    """Return the best window of a text for a claim. Without an embedder words alone decide."""
    quoted = next((part for part in parts if _has_same_words(part.sentence, claim)), None)
    if quoted is not None:
        return Support(quoted.start, quoted.end, 1.0, 1.0)
    windows = sorted(
        _build_windows(claim, text, parts),
        key=lambda w: (-(w.overlap + w.content), w.end - w.start),
    )
    if not windows:
        return Support(0, 0, 0.0, 0.0)
    first = windows[0]
    meaning = 0.0
    if embedder is not None and first.overlap < _CERTAIN:
        sentences = [part.sentence for part in parts]
        meaning = estimate_support(compute_support_features(claim, sentences, embedder))
    judged = [_score_window(claim, window, text, meaning) for window in windows[:_WINDOWS_COMPARED]]
    near = [one for one in judged if one.overlap >= NEARLY_A_QUOTATION]
    return max(near or judged, key=_rank_support)


def _has_same_words(one: str, other: str) -> bool:
    return one == other or (one[:1] == other[:1] and one.split() == other.split())


def _rank_support(one: Support) -> tuple[float, float, int, int]:
    """Rank by score; among equals the shortest first, which is easiest to read."""
    return one.score, one.overlap, one.start - one.end, -one.start


def _build_windows(claim: str, text: str, parts: Sequence[Unit]) -> list[_Window]:
    """Build windows of one sentence and of two neighbours: a claim often joins two."""
    wanted = set(extract_terms(claim))
    spans = [(part.start, part.end, part.sentence) for part in parts]
    spans += [(a.start, b.end, f"{a.sentence} {b.sentence}") for a, b in itertools.pairwise(parts)]
    found = []
    for start, end, said in spans:
        content = len(wanted & set(extract_terms(said))) / len(wanted) if wanted else 0.0
        found.append(_Window(start, end, said, measure_support(claim, said), content))
    return found


def _score_window(claim: str, window: _Window, text: str, meaning: float) -> Support:
    against = (
        *find_disagreements(claim, window.text, text),
        *find_exchanged_words(claim, window.text),
    )
    # Meaning is measured on the whole text; it counts only for a window with the claim's words.
    score = max(window.overlap, meaning * min(1.0, window.content * 2))
    if any(one.contradicts for one in against):
        score = min(score, MAX_CONTRADICTED_SCORE)
    return Support(window.start, window.end, score, window.overlap, against)


def compute_support_features(
    claim: str, sentences: Sequence[str], embedder: Embedder
) -> NDArray[np.float64]:
    """Compute one number per name in `FEATURES`."""
    wanted = set(extract_terms(claim))
    held = [set(extract_terms(sentence)) for sentence in sentences]
    shares = np.array([len(wanted & one) / len(wanted) if wanted else 0.0 for one in held])
    order = np.argsort(-shares, kind="stable")[:_SENTENCES_EMBEDDED]
    front = [sentences[place] for place in order]
    vectors = embedder.embed([claim, *front])
    cosine = vectors[1:] @ vectors[0]
    best = int(np.argmax(cosine + shares[order]))
    three = np.argsort(-(cosine + shares[order]), kind="stable")[:3]
    middle = vectors[1:][three].mean(axis=0)
    against = list(find_disagreements(claim, front[best], " ".join(sentences)))
    return np.array(
        [
            shares[order][best],
            measure_support(claim, front[best]),
            _measure_coverage(wanted, [held[order[place]] for place in three]),
            _measure_coverage(wanted, held),
            cosine[best],
            float(middle @ vectors[0] / (np.linalg.norm(middle) or 1.0)),
            min(sum(not one.contradicts for one in against), 3),
            min(sum(one.contradicts for one in against), 3),
            np.log1p(len(wanted)),
            *_compute_weighted_coverage(wanted, held),
        ]
    )


def _compute_weighted_coverage(wanted: set[str], held: Sequence[set[str]]) -> list[float]:
    """Compute the coverage weighted by how rare a term is, and the terms that no sentence holds.

    These raised the AUROC on the fitted half, cross-validated, from 0.712, 0.658 and 0.767 (wice,
    climate-fever, scifact) to 0.742, 0.673 and 0.786.
    """
    count = Counter(term for sentence in held for term in sentence)
    weight = {t: math.log(1 + (len(held) + 1) / (count[t] + 0.5)) for t in wanted}
    total = sum(weight.values()) or 1.0

    def measure(terms_held: set[str]) -> float:
        return sum(weight[term] for term in wanted & terms_held) / total

    best = max(held, key=measure, default=set())
    two = max((measure(best | other) for other in held), default=0.0)
    missing = len(wanted - set(count))
    return [
        measure(best),
        two,
        min(missing, 6),
        missing / max(len(wanted), 1),
        math.log1p(len(held)),
        float(any(term.isdigit() for term in wanted)),
    ]


def _measure_coverage(wanted: set[str], held: Sequence[set[str]]) -> float:
    return len(wanted & set().union(*held)) / len(wanted) if wanted else 0.0


def estimate_support(features: NDArray[np.float64]) -> float:
    """Estimate how probable it is that a reader would call the claim supported."""
    weights, bias = load_support_weights()
    return float(1.0 / (1.0 + np.exp(-(features @ weights + bias))))


_WORDS = re.compile(r"\w+(?:['’]\w+)*")
# Fewer words fit too many places by chance.
_MIN_WORDS = 4


def find_exchanged_words(claim: str, evidence: str) -> Iterator[Disagreement]:
    """Yield the one word that a text has in the place of a word of the claim.

    The two may mean the same, so this is not a contradiction, but not support either.
    """
    said, there = _WORDS.findall(claim), _WORDS.findall(evidence)
    if len(said) < _MIN_WORDS:
        return
    found: tuple[str, str] | None = None
    for at in range(len(there) - len(said) + 1):
        pairs = zip(said, there[at:], strict=False)
        other = [(ours, theirs) for ours, theirs in pairs if not _is_same_word(ours, theirs)]
        if not other:
            return
        if len(other) == 1 and all(map(extract_terms, other[0])):
            found = other[0]
    if found:
        reason = f"The source says “{found[1]}” where this says “{found[0]}”."
        yield Disagreement("word", reason, contradicts=False)


def _is_same_word(one: str, other: str) -> bool:
    return one.casefold() == other.casefold() or (extract_terms(one) == extract_terms(other) != [])


_QUOTED = re.compile(r"“([^“”]{3,})”|„([^“”„]{3,})[“”]|\"([^\"]{3,})\"|«([^«»]{3,})»")


def find_quotations(text: str) -> list[str]:
    """Return the texts of two words or more in quotation marks."""
    found = (next(group for group in match.groups() if group) for match in _QUOTED.finditer(text))
    return [quoted for quoted in found if len(quoted.split()) >= 2]


def find_missing_quotations(claim: str, texts: Iterable[str]) -> list[str]:
    """Return the quotations that no text holds. White space and Unicode form may differ."""
    plain = [_normalize_quotation(text) for text in texts]
    return [
        q
        for q in find_quotations(claim)
        if not any(_normalize_quotation(q) in text for text in plain)
    ]


def _normalize_quotation(text: str) -> str:
    flat = unicodedata.normalize("NFKC", text).translate(_SAME_SIGNS)
    return " ".join(flat.split()).strip(" .,;:!?")


_SAME_SIGNS = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "−": "-", "\xad": None}
)
