"""Judge the statements of an answer against its sources.

statements and sources → judgements. A statement that stands word for word in a source is supported
without any reading, and one with a quotation that stands in none is not. The others are read by the
verifier in short windows: of the sources that they name, then of others. A value that their
evidence gives nowhere is never supported, whatever the verifier says.
"""

from __future__ import annotations

import math
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
# Added to the verifier's log odds, so that SUPPORTED_FROM stands for its probability .105: on the
# dev half of bench/packs/claims.jsonl 12 % of the paraphrases are refused and 85 % of the changed
# claims caught.
_SHIFT = 2.55
_DENIED_FROM = 0.8
_MAX_DENIED_SCORE = 0.25
_MAX_READ, _MAX_READ_ELSEWHERE, _MAX_CITED = 3, 2, 3
# A source that a claim does not name is read only if a window holds this share of its terms; of
# several cited ones those stay that hold nearly as much of it as the best.
_WORTH_READING, _AS_GOOD = 0.3, 0.8
# The share of a claim's terms in an instruction from which the claim may rest on it.
_RESTS_ON = 0.6
OUT_OF_TIME = "The check ran out of time before this sentence."
NO_VERIFIER = "The reading model is not installed: only quotations and values were compared."
_QUOTED = re.compile(r"“([^“”]{3,})”|„([^“”„]{3,})[“”]|\"([^\"]{3,})\"|«([^«»]{3,})»")
_SAME_SIGNS = str.maketrans("’‘“”–−", "''\"\"--", "\xad")


@dataclass(frozen=True, slots=True)
class Support:
    """What one source says of a claim, best at `text[start:end]` of the source."""

    number: int
    start: int
    end: int
    score: float
    coverage: float = 0.0
    is_denied: bool = False
    reasons: tuple[str, ...] = ()
    is_final: bool = False
    """True when no model may change it: a value decides."""

    @property
    def verdict(self) -> Verdict:
        if self.is_denied:
            return "contradicted"
        if self.score >= SUPPORTED_FROM:
            return "supported"
        return "partial" if self.score >= NOT_GROUNDED else "unsupported"


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
        return [self._judge(s, detect_languages(s.text) or whole) for s in statements]

    def _judge(self, statement: Statement, languages: tuple[str, ...]) -> Judgement:
        if missing := find_missing_quotations(statement.text, self.sources):
            reasons = tuple(f"No source says “{quotation}”." for quotation in missing)
            return Judgement(statement, "unsupported", 0.0, reasons=reasons, is_final=True)
        supports = self._find_quotations(statement)
        if supports:
            return self._decide(statement, supports)
        reason = self._read(statement, languages, supports)
        if suspicious := self._find_suspicious(statement, supports):
            return suspicious
        if reason and not any(map(self._is_enough, supports.values())):
            kept = statement.numbers[:_MAX_CITED]
            ends = {n: len(self.sources[n - 1].text) for n in kept}
            whole = {n: Support(n, 0, end, UNKNOWN_SCORE) for n, end in ends.items()}
            return Judgement(statement, "unchecked", UNKNOWN_SCORE, kept, whole, (reason,))
        return self._decide(statement, supports)

    def _find_quotations(self, statement: Statement) -> dict[int, Support]:
        """Find the statement word for word: in the sources that it names, else in the first."""
        found: dict[int, Support] = {}
        others = [s.number for s in self.sources if s.number not in statement.numbers]
        for number in (*statement.numbers, *others):
            if (number in others and found) or time.monotonic() >= self.limit.ends_at:
                break
            span = find_quotation(statement.text, read_source(self.sources[number - 1]))
            if span is not None:
                found[number] = Support(number, *span, 1.0, 1.0)
        return found

    def _read(
        self, statement: Statement, languages: tuple[str, ...], supports: dict[int, Support]
    ) -> str:
        """Read windows until one supports the statement; return why that was not possible."""
        pairs = list(zip(self.sources, self._languages, strict=True))
        foreign = [theirs for _, theirs in pairs if not _can_compare(languages, theirs)]
        readable = [source for source, theirs in pairs if theirs not in foreign]
        named = {source.number for source in readable} & {*statement.numbers}
        is_known = any(theirs and theirs not in foreign for theirs in self._languages)
        if foreign and (not is_known or (statement.numbers and not named)):
            return (
                f"It is in {_join_names(languages)} and the source in {_join_names(foreign[0])}: "
                "nothing here can compare the two."
            )
        for window in self._choose_windows(statement, readable):
            wanted = named if window.number in named else supports
            if all(n in supports for n in wanted) and any(map(self._is_enough, supports.values())):
                break
            if (before := supports.get(window.number)) and before.is_denied:
                continue  # another row or paragraph does not say the same of the same
            support = self._weigh(statement.text, window, languages)
            if isinstance(support, str):
                return support
            supports[window.number] = max(support, before or support, key=_get_rank)
        return ""

    def _choose_windows(self, statement: Statement, sources: Sequence[Source]) -> list[Window]:
        """Choose the best window of each named source, then the next best, then of others."""
        if time.monotonic() >= self.limit.ends_at:
            return [Window(0, 0, 0, "", False, 0.0)]
        found = [windows for s in sources if (windows := find_windows(statement.text, s))]
        found.sort(key=lambda windows: -windows[0].coverage)
        named = [windows for windows in found if windows[0].number in statement.numbers]
        first = [windows[0] for windows in named[:_MAX_CITED]]
        rest = sorted((w for windows in named for w in windows[1:]), key=lambda w: -w.coverage)
        others = sorted(
            (w for windows in found if windows not in named for w in windows),
            key=lambda window: -window.coverage,
        )
        if not named:
            return others[:_MAX_READ]
        others = [window for window in others if window.coverage >= _WORTH_READING]
        return [*first, *rest[: _MAX_READ - len(first)], *others[:_MAX_READ_ELSEWHERE]]

    def _weigh(self, claim: str, window: Window, languages: tuple[str, ...]) -> Support | str:
        """Compare a claim with a window: values exactly, the rest by the verifier."""
        if not window.number:
            return OUT_OF_TIME
        source = self.sources[window.number - 1]
        chunk = source.hit.chunk
        # What stands in another row is said of something else.
        text = window.text if window.is_row else source.text
        around = (text, *chunk.heading_path, chunk.context, chunk.table_header)
        missing = find_missing_values(claim, *around, chunk.document_name)
        reasons = [f"{value.text} isn't in the source." for value in missing]
        score = contradicted = 0.0
        if languages and "english" not in languages:
            if not missing:
                return f"It is in {_join_names(languages)}, which the check does not read."
        elif self.verifier is None:
            if not missing:
                return NO_VERIFIER
        else:
            scores = self.verifier.verify(claim, window.text, self.limit)
            if scores is None:
                return OUT_OF_TIME
            # Evidence about something else is nearly neutral: there nothing is added.
            shift = _SHIFT if scores.supported >= scores.neutral else 0.0
            score = 1 / (1 + math.exp(-_compute_log_odds(scores.supported) - shift))
            contradicted = scores.contradicted
        is_wrong = bool(missing)
        if is_wrong and all(is_computed(value, text) for value in missing):
            score, is_wrong = min(score, SUPPORTED_FROM - 0.01), False
        is_denied = contradicted >= _DENIED_FROM and (is_wrong or score < SUPPORTED_FROM)
        if is_denied:
            reasons.insert(0, "The source says something else.")
        if is_wrong or is_denied:
            score = min(score, _MAX_DENIED_SCORE)
        reasons = reasons if score < SUPPORTED_FROM else []
        place = (window.number, window.start, window.end)
        return Support(*place, score, window.coverage, is_denied, tuple(reasons), is_wrong)

    def _find_suspicious(
        self, statement: Statement, supports: Mapping[int, Support]
    ) -> Judgement | None:
        """Refuse a statement that rests on text that reads like an instruction to a model."""
        wanted = frozenset(extract_terms(statement.text))
        held = max((support.coverage for support in supports.values()), default=0.0)
        for source in self.sources:
            shared = [len(wanted & terms) for terms in read_source(source).suspicious]
            if shared and max(shared) >= max(_RESTS_ON, held) * len(wanted) > 0:
                where = f"Source {source.number} holds this in text that reads like an instruction"
                reasons = (f"{where} to a model.",)
                return Judgement(statement, "suspicious", 0.0, reasons=reasons, is_final=True)
        return None

    def _decide(self, statement: Statement, supports: dict[int, Support]) -> Judgement:
        named = [n for n in statement.numbers if n in supports]
        enough = [n for n in named if self._is_enough(supports[n])]
        if enough:
            held = max(supports[n].coverage for n in enough)
            kept = tuple(n for n in enough if supports[n].coverage >= _AS_GOOD * held)[:_MAX_CITED]
            score = max(supports[n].score for n in kept)
            return Judgement(statement, "supported", score, kept, supports)
        best = max(supports.values(), key=_get_rank, default=Support(0, 0, 0, 0.0))
        if self._is_enough(best):
            verdict: Verdict = "misattributed" if statement.numbers else "supported"
            return Judgement(statement, verdict, best.score, (best.number,), supports)
        against = max(
            (supports[n] for n in named or supports),
            key=lambda support: (support.verdict == "contradicted", _get_rank(support)),
            default=best,
        )
        verdict = against.verdict
        same = tuple(n for n in named if supports[n].verdict == verdict)[:_MAX_CITED]
        if verdict == "partial":
            same = same or (against.number,)
        kept = same if verdict in ("partial", "contradicted") else ()
        reasons = against.reasons
        return Judgement(
            statement, verdict, against.score, kept, supports, reasons, against.is_final
        )

    def _is_enough(self, support: Support) -> bool:
        return support.score >= self.threshold and not support.is_denied


def _get_rank(support: Support) -> tuple[float, float]:
    return support.score, support.coverage


def _compute_log_odds(probability: float) -> float:
    bounded = min(max(probability, 1e-4), 1 - 1e-4)
    return math.log(bounded / (1 - bounded))


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
