"""Judge the statements of an answer against its sources.

statements and sources → judgements. A statement that stands word for word in a source is supported
without any reading. The others are read by the verifier in windows of the sources they name, then
of others; all windows of an answer are read together, within a limit of work and time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeAlias

from ragstone.models.embedder import SHIPPED_NAME
from ragstone.protocols import Embedder
from ragstone.query.check.clauses import is_mixture
from ragstone.query.check.facts import find_disagreements
from ragstone.query.check.language import can_compare, guess_languages
from ragstone.query.check.support import (
    MAX_CONTRADICTED_SCORE,
    SUPPORTED_FROM,
    Support,
    find_missing_quotations,
    load_check_weights,
    refuse_mixture,
    split_claim,
    weigh_reading,
)
from ragstone.query.check.values import spell_values_like
from ragstone.query.check.verifier import Verifier, WorkLimit
from ragstone.query.check.windows import (
    ReadSource,
    Window,
    find_quotation,
    find_suspicious_part,
    find_windows,
    rank_sources,
    read_source,
)
from ragstone.query.check.words import find_exchanged_words, measure_meaning, score_words
from ragstone.query.ground.cite import Statement
from ragstone.reading.model import VerifierScores
from ragstone.types import Source, Verdict

# The design documents' band: above is grounded, below is not, between is doubtful.
GROUNDED, NOT_GROUNDED = 0.8, 0.3
# A sentence without a marker gets the best source from here on, as partial support.
ATTRIBUTED_FROM = 0.45
UNKNOWN_SCORE = 0.5
_SOURCES_FIRST, _SOURCES_SEARCHED = 2, 4
# A source that a claim does not name is read only if it holds this share of the claim's terms.
_WORTH_READING = 0.3
_MAX_CITED = 3
# Of several cited sources those stay that hold nearly as much of a claim as the best one.
_AS_GOOD = 0.8
# The share of a claim's terms in an instruction from which the claim may rest on it.
_RESTS_ON = 0.6
_VERIFIED_LANGUAGES = ("English",)
OUT_OF_TIME = "The check ran out of time before this sentence."

Request: TypeAlias = tuple["Case", str, int]
Languages: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Hold what the sources say of one statement."""

    statement: Statement
    verdict: Verdict
    score: float
    numbers: tuple[int, ...] = ()
    """The sources that it should name."""
    supports: Mapping[int, Support] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    is_final: bool = False
    """True when no model may change it: an exact value, a quotation or an instruction decides."""

    @property
    def is_repaired(self) -> bool:
        return self.numbers != self.statement.numbers


@dataclass(slots=True)
class Case:
    """Collect what is found out about one statement."""

    statement: Statement
    supports: dict[int, Support] = field(default_factory=dict)
    is_out_of_time: bool = False
    failed_part: str = ""
    part_supports: dict[str, Support] = field(default_factory=dict)


@dataclass
class StatementJudge:
    """Judge statements against sources. Without a verifier words alone decide."""

    sources: Sequence[Source]
    embedder: Embedder | None = None
    verifier: Verifier | None = None
    threshold: float = SUPPORTED_FROM
    limit: WorkLimit = field(default_factory=WorkLimit)
    _meanings: dict[tuple[str, int], float] = field(default_factory=dict)

    @cached_property
    def _all_read(self) -> list[ReadSource]:
        return [self._read(number) for number in range(1, len(self.sources) + 1)]

    def _read(self, number: int) -> ReadSource:
        """Split one source. What is quoted needs no other than the one it names."""
        return read_source(self.sources[number - 1].text)

    @cached_property
    def _languages(self) -> list[Languages]:
        return [guess_languages(source.text) for source in self.sources]

    def judge_all(self, statements: Sequence[Statement]) -> list[Judgement]:
        """Judge all statements together: quotations first, then by reading."""
        whole = guess_languages(" ".join(one.text for one in statements))
        cases = [Case(one) for one in statements]
        languages = [guess_languages(one.text) or whole for one in statements]
        for case in cases:
            if time.monotonic() < self.limit.ends_at:
                case.supports = self._find_quotations(case.statement)
        self._read_sources(cases, languages)
        self._read_parts(cases, languages)
        return [
            self._decide(case, language) for case, language in zip(cases, languages, strict=True)
        ]

    def _find_quotations(self, statement: Statement) -> dict[int, Support]:
        """Find the statement word for word: in the sources that it names, else in the first."""
        found: dict[int, Support] = {}
        others = [n for n in range(1, len(self.sources) + 1) if n not in statement.numbers]
        for number in (*statement.numbers, *others):
            if number in others and found:
                break
            span = find_quotation(statement.text, self._read(number))
            if span is not None:
                found[number] = Support(number, *span, 1.0, 1.0)
        return found

    def _list_readable(self, languages: Languages) -> list[int]:
        """Return the sources in the language of a statement; all if a language is unclear."""
        return [
            number
            for number, theirs in enumerate(self._languages, start=1)
            if can_compare(languages, theirs)
        ]

    def _read_sources(self, cases: Sequence[Case], languages: Sequence[Languages]) -> None:
        """Read the named sources of each case, then others where these do not support it."""
        by_case = dict(zip(map(id, cases), languages, strict=True))
        open_cases = [
            (case, self._list_readable(by_case[id(case)])) for case in cases if not case.supports
        ]
        per_case = max(1, self.limit.max_pairs // max(1, 2 * len(open_cases)))
        likely: dict[int, list[int]] = {}
        first: list[Request] = []
        for case, numbers in open_cases:
            if self.limit.is_over:
                case.is_out_of_time = True
                continue
            ranked = [n + 1 for n in rank_sources(case.statement.text, self._all_read)]
            likely[id(case)] = [n for n in ranked if n in numbers]
            named = [n for n in case.statement.numbers if n in numbers][:_MAX_CITED]
            # A claim that shares no word with any source may still paraphrase the first.
            wanted = named or likely[id(case)][:_SOURCES_FIRST] or list(numbers[:1])
            first += [(case, case.statement.text, n) for n in wanted[:per_case]]
        self._read_requests(first, by_case)
        second: list[Request] = []
        for case, _ in open_cases:
            if any(self._is_enough(one) for one in case.supports.values()):
                continue
            others = likely.get(id(case), [])[: min(_SOURCES_SEARCHED, per_case)]
            second += [(case, case.statement.text, n) for n in others if n not in case.supports]
        self._read_requests(second, by_case, least=_WORTH_READING)

    def _read_requests(
        self,
        requests: Sequence[Request],
        languages: Mapping[int, Languages],
        least: float = 0.0,
    ) -> None:
        for (case, claim, number), support in zip(
            requests, self._find_supports(requests, languages, least), strict=True
        ):
            if support is None:
                case.is_out_of_time = True
            else:
                case.supports[number] = support
                if self._is_mixture(claim, number, support, languages[id(case)]):
                    case.supports[number] = refuse_mixture(support)

    def _is_mixture(self, claim: str, number: int, support: Support, languages: Languages) -> bool:
        """Return True when a supported claim mixes clauses that contradict it one by one."""
        if self.verifier is None or not self._is_enough(support):
            return False
        sentences = [
            unit.text
            for unit in self._read(number).units
            if support.start <= unit.start < support.end and not unit.is_row
        ]
        return self._can_verify(languages) and is_mixture(
            claim, sentences, self.verifier, self.limit
        )

    def _find_supports(
        self,
        requests: Sequence[Request],
        languages: Mapping[int, Languages],
        least: float = 0.0,
    ) -> list[Support | None]:
        """Return the support of each claim by each source; None where the time was over.

        Windows that hold less than `least` of a claim's terms are not read.
        """
        found: list[list[Support] | None] = []
        windows: list[tuple[int, str, str, Window]] = []
        for at, (case, claim, number) in enumerate(requests):
            if self.limit.is_over:
                found.append(None)
                continue
            here = find_windows(claim, number, self._read(number))
            here = [window for window in here if window.coverage >= least]
            if self._can_verify(languages[id(case)]):
                windows += [
                    (at, claim, wording, window)
                    for window in here
                    for wording in dict.fromkeys((claim, spell_values_like(claim, window.text)))
                ]
                found.append([])
            else:
                found.append([self._weigh_words(claim, window) for window in here[:1]])
        if windows and self.verifier is not None:
            read = self.verifier.verify(
                [(wording, window.text) for _, _, wording, window in windows], self.limit
            )
            for (at, claim, _, window), scores in zip(windows, read, strict=True):
                here_found = found[at]
                if scores is None:
                    found[at] = here_found or None
                elif here_found is None:
                    found[at] = [self._weigh(claim, window, scores)]
                else:
                    here_found.append(self._weigh(claim, window, scores))
        return [
            None if one is None else max(one, key=_rank_support, default=Support(0, 0, 0, 0.0))
            for one in found
        ]

    def _can_verify(self, languages: Languages) -> bool:
        return self.verifier is not None and can_compare(languages, _VERIFIED_LANGUAGES)

    def _weigh(self, claim: str, window: Window, scores: VerifierScores) -> Support:
        source = self.sources[window.number - 1]
        chunk = source.hit.chunk
        around = "\n".join((source.text, chunk.document_name, *chunk.heading_path))
        fits = getattr(self.embedder, "name", "") == SHIPPED_NAME  # weights are for its cosines
        measure = partial(self._measure_meaning, claim, window.number) if fits else None
        return weigh_reading(claim, window, scores, around, measure)

    def _measure_meaning(self, claim: str, number: int) -> float:
        """Compare a claim with a source once, whichever of its windows are read."""
        if (claim, number) not in self._meanings and self.embedder is not None:
            sentences = [unit.text for unit in self._read(number).units]
            try:
                self._meanings[claim, number] = measure_meaning(claim, sentences, self.embedder)
            except Exception:  # noqa: BLE001  it is away; the search says so, the verifier decides
                self.embedder = None
        return self._meanings.get((claim, number), load_check_weights().usual_meaning)

    def _weigh_words(self, claim: str, window: Window) -> Support:
        text = self.sources[window.number - 1].text
        sentences = [unit.text for unit in self._read(window.number).units]
        score = score_words(claim, window.text, window.coverage, sentences, self.embedder)
        against = (
            *find_disagreements(claim, window.text, text),
            *find_exchanged_words(claim, window.text),
        )
        # A name that is missing contradicts nothing: in German every noun looks like a name.
        denied = any(one.contradicts and one.kind != "name" for one in against)
        score = min(score, MAX_CONTRADICTED_SCORE) if denied else score
        if against:
            score = min(score, self.threshold - 0.01)
        return Support(
            window.number, window.start, window.end, score, window.coverage, against, denied
        )

    def _read_parts(self, cases: Sequence[Case], languages: Sequence[Languages]) -> None:
        """Read the facts of each supported claim apart: the worst one decides."""
        requests: list[Request] = []
        for case, language in zip(cases, languages, strict=True):
            good = [n for n, one in case.supports.items() if self._is_enough(one)]
            quoted = any(one.score == 1.0 for one in case.supports.values())
            parts = split_claim(case.statement.text)
            if len(parts) < 2 or not good or quoted or not self._can_verify(language):
                continue
            requests += [(case, part, n) for part in parts for n in good[:_SOURCES_FIRST]]
        found = self._find_supports(requests, dict(zip(map(id, cases), languages, strict=True)))
        for (case, part, _), support in zip(requests, found, strict=True):
            best = case.part_supports.get(part)
            if support is not None and (best is None or support.score > best.score):
                case.part_supports[part] = support
        for case in cases:
            bad = [part for part, one in case.part_supports.items() if not self._is_enough(one)]
            if bad:
                case.failed_part = min(bad, key=lambda part: case.part_supports[part].score)

    def _decide(self, case: Case, languages: Languages) -> Judgement:
        statement = case.statement
        missing = find_missing_quotations(statement.text, [one.text for one in self.sources])
        if missing:
            reasons = tuple(f"No source says “{quotation}”." for quotation in missing)
            return Judgement(
                statement, "unsupported", 0.0, (), case.supports, reasons, is_final=True
            )
        suspicious = self._find_suspicious(case)
        if suspicious is not None:
            return suspicious
        if case.is_out_of_time and not any(map(self._is_enough, case.supports.values())):
            return self._build_unchecked(case, statement.numbers, OUT_OF_TIME)
        if case.failed_part:
            return self._refuse_part(case)
        judgement = self._weigh_supports(statement, case.supports)
        if judgement.verdict == "unsupported":
            readable = self._list_readable(languages)
            foreign = [n for n in statement.numbers if n not in readable]
            if foreign or not self._has_language(languages):
                return self._leave_unchecked(case, languages, foreign)
        return judgement

    def _has_language(self, languages: Languages) -> bool:
        """Return True when a source is in the language of a statement, or all are unclear."""
        known = [theirs for theirs in self._languages if theirs]
        return not known or any(can_compare(languages, theirs) for theirs in known)

    def _find_suspicious(self, case: Case) -> Judgement | None:
        """Refuse a statement that rests on text that reads like an instruction to a model."""
        if any(one.score == 1.0 for one in case.supports.values()):
            return None
        held = max((one.overlap for one in case.supports.values()), default=0.0)
        for number, source in enumerate(self._all_read, start=1):
            part = find_suspicious_part(case.statement.text, source, max(_RESTS_ON, held))
            if part is not None:
                reason = (
                    f"Source {number} holds this in text that reads like an instruction to a model."
                )
                supports = {number: Support(number, part.start, part.end, 0.0)}
                return Judgement(
                    case.statement, "suspicious", 0.0, (), supports, (reason,), is_final=True
                )
        return None

    def _leave_unchecked(
        self, case: Case, languages: Languages, foreign: Sequence[int]
    ) -> Judgement:
        known = [self._languages[n - 1] for n in foreign] or self._languages
        theirs = next(one for one in known if one and not can_compare(languages, one))
        reason = (
            f"It is in {' or '.join(languages[:2])} and the source in {' or '.join(theirs[:2])}: "
            "nothing here can compare the two."
        )
        numbers = foreign or case.statement.numbers
        return self._build_unchecked(case, numbers, reason)

    def _build_unchecked(self, case: Case, numbers: Sequence[int], reason: str) -> Judgement:
        supports = dict(case.supports)
        for number in numbers:
            units = self._read(number).units
            place = (units[0].start, units[0].end) if units else (0, 0)
            supports.setdefault(number, Support(number, *place, UNKNOWN_SCORE))
        kept = tuple(n for n in numbers if supports[n].end)[:_MAX_CITED]
        return Judgement(case.statement, "unchecked", UNKNOWN_SCORE, kept, supports, (reason,))

    def _refuse_part(self, case: Case) -> Judgement:
        support = case.part_supports[case.failed_part]
        verdict = give_verdict(support)
        if verdict == "unsupported":
            verdict = "partial"  # the other parts are supported
        score = min(support.score, SUPPORTED_FROM - 0.01)
        reasons = (f"Not supported: “{case.failed_part.rstrip('.')}”.", *support.reasons)
        supports = {n: replace(one, score=score) for n, one in case.supports.items()}
        supports[support.number] = replace(support, score=score)
        named = [n for n in case.statement.numbers if n in supports] or [support.number]
        return Judgement(
            case.statement,
            verdict,
            score,
            tuple(named[:_MAX_CITED]),
            supports,
            reasons,
            is_final=support.has_other_value,
        )

    def _weigh_supports(self, statement: Statement, supports: dict[int, Support]) -> Judgement:
        named = [n for n in statement.numbers if n in supports]
        good = [n for n in named if self._is_enough(supports[n])]
        partial = [n for n in named if give_verdict(supports[n]) == "partial"]
        if good:
            held = max(supports[n].overlap for n in good)
            kept = tuple(n for n in good if supports[n].overlap >= _AS_GOOD * held)
            score = max(supports[n].score for n in kept)
            return Judgement(statement, "supported", score, kept[:_MAX_CITED], supports)
        ranked = sorted(supports, key=lambda n: (-supports[n].score, n))
        others = [n for n in ranked if self._is_enough(supports[n])]
        if others:
            verdict: Verdict = "misattributed" if statement.numbers else "supported"
            return Judgement(statement, verdict, supports[others[0]].score, (others[0],), supports)
        best = supports[ranked[0]] if ranked else Support(0, 0, 0, 0.0)
        if best.score >= ATTRIBUTED_FROM and not best.is_contradicted:
            numbers = tuple(partial[:_MAX_CITED]) or (ranked[0],)
            return Judgement(statement, "partial", best.score, numbers, supports, best.reasons)
        denying = [n for n in ranked if give_verdict(supports[n]) == "contradicted"]
        if denying:
            against = supports[denying[0]]
            return Judgement(
                statement,
                "contradicted",
                against.score,
                tuple(n for n in named if n in denying),
                supports,
                against.reasons,
                is_final=against.has_other_value,
            )
        verdict = "partial" if partial else "unsupported"
        return Judgement(
            statement, verdict, best.score, tuple(partial[:_MAX_CITED]), supports, best.reasons
        )

    def _is_enough(self, support: Support) -> bool:
        return support.score >= self.threshold and not support.is_contradicted


def _rank_support(one: Support) -> tuple[float, float, int]:
    """Rank by score; among equals the shortest first, which is easiest to read."""
    return one.score, one.overlap, one.start - one.end


def give_verdict(support: Support) -> Verdict:
    """Turn the support of one source into a verdict on one citation."""
    if support.is_contradicted:
        is_same_subject = support.overlap >= NOT_GROUNDED or support.is_denied
        return "contradicted" if is_same_subject else "unsupported"
    if support.score >= SUPPORTED_FROM:
        return "supported"
    return "partial" if support.score >= NOT_GROUNDED else "unsupported"
