"""Every sentence of an answer against the sources: a verdict, and the markers it should have.

statements and sources → judgements. A cited source that supports the sentence stays; where another
one does, the marker is put right; where none does, it goes: a wrong citation is worse than none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragstone.query.check.quote import missing_quotations
from ragstone.query.check.support import Support, best_support
from ragstone.query.ground.cite import Statement
from ragstone.query.ground.tables import Unit, units
from ragstone.stages import Embedder
from ragstone.stores.analyze import terms
from ragstone.types import Claim, Source, Verdict

# The design documents' band: above is grounded, below is not, between is doubtful.
GROUNDED, NOT_GROUNDED = 0.8, 0.3
# From here on a source counts as supporting: the usual citation threshold of grounding checks.
CITED_FROM = 0.6
# A sentence without a marker gets the best source from here on, as partial support.
ATTRIBUTED_FROM = 0.45
_SOURCES_SEARCHED = 4
_MOST_CITED = 3


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

    @property
    def repaired(self) -> bool:
        return self.numbers != self.statement.numbers

    def verdict_on(self, number: int) -> Verdict:
        return _verdict(self.supports[number]) if number in self.supports else "unsupported"


@dataclass(frozen=True, slots=True)
class Checker:
    """Judges statements; remembers the sentences of the sources it was given."""

    sources: Sequence[Source]
    embedder: Embedder | None = None
    threshold: float = CITED_FROM
    _parts: dict[int, list[Unit]] = field(default_factory=dict)

    def judge(self, statement: Statement) -> Judgement:
        supports = {number: self._support(statement, number) for number in statement.numbers}
        good = [n for n in statement.numbers if self._supports(supports[n])]
        if not good:
            for number in self._likely(statement):
                if number not in supports:
                    supports[number] = self._support(statement, number)
        quoted = missing_quotations(statement.text, [source.text for source in self.sources])
        if quoted:
            reasons = tuple(f"No source says “{quotation}”." for quotation in quoted)
            return Judgement(statement, "unsupported", 0.0, (), supports, reasons)
        return self._judged(statement, supports, good)

    def _judged(
        self, statement: Statement, supports: dict[int, Support], good: list[int]
    ) -> Judgement:
        if good:
            kept = [n for n in statement.numbers
                    if n in good or _verdict(supports[n]) == "partial"]  # fmt: skip
            score = max(supports[n].score for n in good)
            return Judgement(statement, "supported", score, tuple(kept[:_MOST_CITED]), supports)
        ranked = sorted(supports, key=lambda n: (-supports[n].score, n))
        others = [n for n in ranked if self._supports(supports[n])]
        if others:
            verdict: Verdict = "misattributed" if statement.numbers else "supported"
            score = supports[others[0]].score
            return Judgement(statement, verdict, score, tuple(others[:1]), supports)
        denies = [n for n in ranked if _verdict(supports[n]) == "contradicted"]
        best = ranked[0] if ranked else 0
        if best and not supports[best].contradicted and supports[best].score >= ATTRIBUTED_FROM:
            partial = supports[best]
            kept = [n for n in statement.numbers if _verdict(supports[n]) == "partial"]
            reasons = tuple(one.reason for one in partial.disagreements)
            numbers = tuple(kept[:_MOST_CITED]) or (best,)
            return Judgement(statement, "partial", partial.score, numbers, supports, reasons)
        if denies:
            against = supports[denies[0]]
            reasons = tuple(one.reason for one in against.disagreements if one.contradicts)
            numbers = tuple(n for n in statement.numbers if n in denies)
            return Judgement(statement, "contradicted", against.score, numbers, supports, reasons)
        score = supports[best].score if best else 0.0
        kept = [n for n in statement.numbers if _verdict(supports[n]) == "partial"]
        verdict = "partial" if kept else "unsupported"
        return Judgement(statement, verdict, score, tuple(kept[:_MOST_CITED]), supports)

    def _supports(self, support: Support) -> bool:
        return support.score >= self.threshold and not support.disagreements

    def _support(self, statement: Statement, number: int) -> Support:
        source = self.sources[number - 1]
        if number not in self._parts:
            self._parts[number] = units(source.text)
        return best_support(statement.text, source.text, self._parts[number], self.embedder)

    def _likely(self, statement: Statement) -> list[int]:
        """The sources that hold most of a statement's terms."""
        wanted = set(terms(statement.text))
        held = {s.number: len(wanted & set(terms(s.text))) for s in self.sources}
        return sorted((n for n in held if held[n]), key=lambda n: (-held[n], n))[:_SOURCES_SEARCHED]


def _verdict(support: Support) -> Verdict:
    if support.contradicted:
        about_the_same = support.overlap >= NOT_GROUNDED
        return "contradicted" if about_the_same else "unsupported"
    if support.score >= CITED_FROM and not support.disagreements:
        return "supported"
    return "partial" if support.score >= NOT_GROUNDED else "unsupported"


def claim_of(judgement: Judgement, statement: Statement) -> Claim:
    """A judgement as it is shown; `statement` is the sentence as it stands in the final text."""
    verdict = judgement.verdict
    # A marker that was put right is right; that it was not is said by `repaired`.
    shown: Verdict = "supported" if verdict == "misattributed" and judgement.numbers else verdict
    return Claim(
        text=statement.text,
        start=statement.start,
        end=statement.end,
        citations=judgement.numbers,
        verdict=shown,
        score=round(judgement.score, 4),
        reasons=judgement.reasons,
        repaired=judgement.repaired,
    )


def groundedness(claims: Sequence[Claim]) -> float:
    """The mean over the claims, each as heavy as it is long."""
    total = sum(len(claim.text) for claim in claims)
    return sum(claim.score * len(claim.text) for claim in claims) / total if total else 0.0
