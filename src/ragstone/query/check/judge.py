"""Judge the statements of an answer against its sources.

statements and sources → judgements. A statement that stands word for word in a source is supported
without any reading, and one with a quotation that stands in none is not. The others are read by the
verifier in short windows: of the sources that they name, then of others. A value that their
evidence gives nowhere is never supported, whatever the verifier says.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ragstone.index.analyze import detect_languages, extract_terms
from ragstone.query.check.values import find_missing_values, is_computed
from ragstone.query.check.verifier import Verifier, WorkLimit
from ragstone.query.check.windows import Window, find_quotation, find_windows, read_source
from ragstone.query.ground.cite import Statement
from ragstone.types import Source, Verdict

# The design documents' band: above is grounded, below is not, between is doubtful.
GROUNDED, NOT_GROUNDED = 0.8, 0.3
# From here on a source counts as supporting: the usual citation threshold of grounding checks.
SUPPORTED_FROM = 0.6
UNKNOWN_SCORE = 0.5
# The verifier's odds are multiplied so that SUPPORTED_FROM stands for its probability .25: on the
# dev half of bench/packs/claims.jsonl 12 % of the paraphrases have less, and 87 % of the changed
# claims.
_ODDS = 4.5
_DENIED_FROM = 0.5
# A contradicted claim cannot score higher than this, which is below what counts as grounded.
_MAX_CONTRADICTED_SCORE = 0.25
_MAX_READ, _MAX_READ_ELSEWHERE = 4, 2
# A source that a claim does not name is read only if a window holds this share of its terms.
_WORTH_READING = 0.3
_MAX_CITED = 3
# Of several cited sources those stay that hold nearly as much of a claim as the best one.
_AS_GOOD = 0.8
# The share of a claim's terms in an instruction from which the claim may rest on it.
_RESTS_ON = 0.6
OUT_OF_TIME = "The check ran out of time before this sentence."
NO_VERIFIER = "The reading model is not installed: only quotations and values were compared."
_QUOTED = re.compile(r"“([^“”]{3,})”|„([^“”„]{3,})[“”]|\"([^\"]{3,})\"|«([^«»]{3,})»")
_SAME_SIGNS = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "−": "-", "\xad": None}
)


@dataclass(frozen=True, slots=True)
class Support:
    """What one source says of a claim, best at `text[start:end]` of the source."""

    number: int
    start: int
    end: int
    score: float
    coverage: float = 0.0
    is_contradicted: bool = False
    reasons: tuple[str, ...] = ()
    is_final: bool = False
    """True when no model may change it: a value decides."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the sources say of one statement."""

    statement: Statement
    verdict: Verdict
    score: float
    numbers: tuple[int, ...] = ()
    """The sources that it should name."""
    supports: Mapping[int, Support] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    is_final: bool = False
    """True when no model may change it: a value, a quotation or an instruction decides."""

    @property
    def is_repaired(self) -> bool:
        return self.numbers != self.statement.numbers


@dataclass
class StatementJudge:
    """Judges statements against sources. Without a verifier only quotations and values decide."""

    sources: Sequence[Source]
    verifier: Verifier | None = None
    threshold: float = SUPPORTED_FROM
    limit: WorkLimit = field(default_factory=WorkLimit)

    @cached_property
    def _languages(self) -> list[tuple[str, ...]]:
        return [detect_languages(source.text[:4_000]) for source in self.sources]

    def judge_all(self, statements: Sequence[Statement]) -> list[Judgement]:
        whole = detect_languages(" ".join(statement.text for statement in statements)[:4_000])
        return [
            self.judge(statement, detect_languages(statement.text) or whole)
            for statement in statements
        ]

    def judge(self, statement: Statement, languages: tuple[str, ...] = ()) -> Judgement:
        missing = find_missing_quotations(statement.text, self.sources)
        if missing:
            reasons = tuple(f"No source says “{quotation}”." for quotation in missing)
            return Judgement(statement, "unsupported", 0.0, reasons=reasons, is_final=True)
        if time.monotonic() >= self.limit.ends_at:
            return self._leave_unchecked(statement, OUT_OF_TIME)
        supports = self._find_quotations(statement)
        if not supports:
            numbers = [
                source.number
                for source, theirs in zip(self.sources, self._languages, strict=True)
                if _can_compare(languages, theirs)
            ]
            named = [number for number in statement.numbers if number in numbers]
            if not numbers or (statement.numbers and not named):
                return self._leave_unchecked(statement, self._name_languages(languages))
            reason = self._read(statement, numbers, supports, languages)
            suspicious = self._find_suspicious(statement, supports)
            if suspicious is not None:
                return suspicious
            if reason and not any(map(self._is_enough, supports.values())):
                return self._leave_unchecked(statement, reason)
        return self._decide(statement, supports)

    def _find_quotations(self, statement: Statement) -> dict[int, Support]:
        """Find the statement word for word: in the sources that it names, else in the first."""
        found: dict[int, Support] = {}
        others = [s.number for s in self.sources if s.number not in statement.numbers]
        for number in (*statement.numbers, *others):
            if number in others and found:
                break
            span = find_quotation(statement.text, read_source(self.sources[number - 1]))
            if span is not None:
                found[number] = Support(number, *span, 1.0, 1.0)
        return found

    def _read(
        self,
        statement: Statement,
        numbers: Sequence[int],
        supports: dict[int, Support],
        languages: tuple[str, ...],
    ) -> str:
        """Read windows until one supports the statement; return why it could not be read."""
        for window in self._choose_windows(statement, numbers):
            others = window.number not in statement.numbers
            done = supports if others else statement.numbers
            if all(n in supports for n in done) and any(map(self._is_enough, supports.values())):
                break
            support = self._weigh(statement.text, window, languages)
            if isinstance(support, str):
                return support
            best = supports.get(window.number)
            if best is None or (support.score, support.coverage) > (best.score, best.coverage):
                supports[window.number] = support
        return ""

    def _choose_windows(self, statement: Statement, numbers: Sequence[int]) -> list[Window]:
        """Choose the best window of each named source, then the next best, then of others."""
        windows = [find_windows(statement.text, self.sources[number - 1]) for number in numbers]
        named = [found for found in windows if found and found[0].number in statement.numbers]
        others = [w for found in windows if found not in named for w in found]
        others.sort(key=lambda window: -window.coverage)
        first = [found[0] for found in named][:_MAX_CITED]
        if not named:
            return others[:_MAX_READ]
        rest = sorted((w for found in named for w in found[1:]), key=lambda w: -w.coverage)
        others = [window for window in others if window.coverage >= _WORTH_READING]
        return [*first, *rest[: _MAX_READ - len(first)], *others[:_MAX_READ_ELSEWHERE]]

    def _weigh(self, claim: str, window: Window, languages: tuple[str, ...]) -> Support | str:
        """Compare a claim with a window: values exactly, the rest by the verifier."""
        source = self.sources[window.number - 1]
        chunk = source.hit.chunk
        around = (window.text, source.text, chunk.table_header, chunk.context, chunk.document_name)
        missing = find_missing_values(claim, *around, *chunk.heading_path)
        is_readable = not languages or "english" in languages
        if not is_readable and not any(value.text.isascii() for value in missing):
            return f"It is in {_join_names(languages)}, which the check does not read."
        if self.verifier is None and not missing:
            return NO_VERIFIER
        supported = contradicted = 0.0
        if is_readable and self.verifier is not None:
            scores = self.verifier.verify(claim, window.text, self.limit)
            if scores is None:
                return OUT_OF_TIME
            supported, contradicted = scores.supported, scores.contradicted
        odds = _ODDS * supported / max(1 - supported, 1e-6)
        score = odds / (1 + odds)
        reasons = [f"{value.text} isn't in the source." for value in missing]
        is_wrong = bool(missing)
        if is_wrong and all(is_computed(value, source.text) for value in missing):
            score, is_wrong = min(score, SUPPORTED_FROM - 0.01), False
        is_denied = contradicted >= _DENIED_FROM and (is_wrong or score < SUPPORTED_FROM)
        if is_denied:
            reasons.insert(0, "The source says something else.")
        if is_wrong or is_denied:
            score = min(score, _MAX_CONTRADICTED_SCORE)
        if score >= SUPPORTED_FROM:
            reasons = []
        return Support(
            window.number, window.start, window.end, score, window.coverage,
            is_denied, tuple(reasons), is_wrong,
        )  # fmt: skip

    def _find_suspicious(
        self, statement: Statement, supports: Mapping[int, Support]
    ) -> Judgement | None:
        """Refuse a statement that rests on text that reads like an instruction to a model."""
        wanted = frozenset(extract_terms(statement.text))
        held = max((support.coverage for support in supports.values()), default=0.0)
        for source in self.sources:
            shared = [len(wanted & terms) for terms in read_source(source).suspicious]
            if shared and max(shared) >= max(_RESTS_ON, held) * len(wanted) > 0:
                reason = (
                    f"Source {source.number} holds this in text that reads like an instruction to "
                    "a model."
                )
                return Judgement(statement, "suspicious", 0.0, reasons=(reason,), is_final=True)
        return None

    def _name_languages(self, languages: tuple[str, ...]) -> str:
        theirs = next(one for one in self._languages if not _can_compare(languages, one))
        return (
            f"It is in {_join_names(languages)} and the source in {_join_names(theirs)}: "
            "nothing here can compare the two."
        )

    def _leave_unchecked(self, statement: Statement, reason: str) -> Judgement:
        numbers = statement.numbers[:_MAX_CITED]
        supports = {n: Support(n, 0, len(self.sources[n - 1].text), UNKNOWN_SCORE) for n in numbers}
        return Judgement(statement, "unchecked", UNKNOWN_SCORE, numbers, supports, (reason,))

    def _decide(self, statement: Statement, supports: dict[int, Support]) -> Judgement:
        named = [n for n in statement.numbers if n in supports]
        ranked = sorted(supports, key=lambda n: (-supports[n].score, n))
        enough = [n for n in named if self._is_enough(supports[n])]
        if enough:
            held = max(supports[n].coverage for n in enough)
            kept = tuple(n for n in enough if supports[n].coverage >= _AS_GOOD * held)[:_MAX_CITED]
            score = max(supports[n].score for n in kept)
            return Judgement(statement, "supported", score, kept, supports)
        others = [n for n in ranked if self._is_enough(supports[n])]
        if others:
            verdict: Verdict = "misattributed" if statement.numbers else "supported"
            return Judgement(statement, verdict, supports[others[0]].score, (others[0],), supports)
        best = max(
            (supports[n] for n in named or ranked),
            key=lambda one: (one.is_contradicted, one.score, one.coverage),
            default=Support(0, 0, 0, 0.0),
        )
        verdict = give_verdict(best)
        keeps = verdict in ("partial", "contradicted") and bool(best.number)
        numbers = tuple(n for n in named if give_verdict(supports[n]) == verdict) or (best.number,)
        if verdict == "contradicted" and not named:
            numbers = ()
        return Judgement(
            statement,
            verdict,
            best.score,
            numbers[:_MAX_CITED] if keeps else (),
            supports,
            best.reasons,
            best.is_final,
        )

    def _is_enough(self, support: Support) -> bool:
        return support.score >= self.threshold and not support.is_contradicted


def give_verdict(support: Support) -> Verdict:
    """Turn the support of one source into a verdict on one citation."""
    if support.is_contradicted and support.coverage >= _WORTH_READING:
        return "contradicted"
    if support.score >= SUPPORTED_FROM:
        return "supported"
    is_partial = support.score >= NOT_GROUNDED and not support.is_contradicted
    return "partial" if is_partial else "unsupported"


def _can_compare(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return True when two texts may be in the same language."""
    return not one or not other or bool(set(one) & set(other))


def _join_names(languages: Sequence[str]) -> str:
    return " or ".join(name.capitalize() for name in languages[:2])


def find_missing_quotations(claim: str, sources: Sequence[Source]) -> list[str]:
    """Return the quotations of two words or more that no source holds letter for letter."""
    found = [next(filter(None, match.groups())) for match in _QUOTED.finditer(claim)]
    wanted = [quotation for quotation in found if len(quotation.split()) > 1]
    texts = [_normalize(source.text) for source in sources] if wanted else []
    return [q for q in wanted if not any(_normalize(q) in text for text in texts)]


def _normalize(text: str) -> str:
    flat = unicodedata.normalize("NFKC", text).translate(_SAME_SIGNS)
    return " ".join(flat.split()).strip(" .,;:!?")
