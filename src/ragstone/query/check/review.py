"""Review an answer: judge its statements, correct its markers, resolve its citations.

text and sources → text, claims, citations and their figures. `review_text` is for answers of the
pipeline. `check_against_facts` is for any other answer, and corrects nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragstone.index.analyze import extract_terms
from ragstone.protocols import Embedder
from ragstone.query.check.support import Support, find_best_support, find_missing_quotations
from ragstone.query.ground.cite import (
    Notation,
    Statement,
    build_citation,
    drop_leading_markers,
    replace_markers,
    split_statements,
)
from ragstone.reading.units import Unit, split_units
from ragstone.types import Chunk, Citation, Claim, Grounding, Hit, Source, Verdict

# The design documents' band: above is grounded, below is not, between is doubtful.
GROUNDED, NOT_GROUNDED = 0.8, 0.3
# From here on a source counts as supporting: the usual citation threshold of grounding checks.
CITED_FROM = 0.6
# A sentence without a marker gets the best source from here on, as partial support.
ATTRIBUTED_FROM = 0.45
_SOURCES_SEARCHED = 4
_MAX_CITED = 3


@dataclass(frozen=True, slots=True)
class Review:
    """Hold an answer as it may be shown, with what the sources say of it."""

    text: str
    claims: tuple[Claim, ...] = ()
    citations: tuple[Citation, ...] = ()
    statements: tuple[Statement, ...] = ()
    claim_of_citation: tuple[int, ...] = ()
    """For each citation the place of its claim."""
    attributed: int = 0
    """Count of the sentences that came without a marker and got one."""
    repaired: int = 0
    """Count of the sentences whose markers were wrong and were changed or removed."""

    @property
    def precision(self) -> float:
        """Return the share of the citations that support their claim."""
        good = sum(citation.verdict == "supported" for citation in self.citations)
        return good / len(self.citations) if self.citations else 0.0

    @property
    def recall(self) -> float:
        """Return the share of the claims that a citation supports."""
        good = sum(claim.verdict == "supported" and bool(claim.citations) for claim in self.claims)
        return good / len(self.claims) if self.claims else 0.0


def review_text(text: str, notation: Notation, embedder: Embedder | None) -> Review:
    """Judge every statement, then write the markers that the judgements call for."""
    text = drop_leading_markers(text, notation)
    statements = split_statements(text, notation)
    judge = StatementJudge(notation.sources, embedder)
    judgements = {place: judge.judge(one) for place, one in enumerate(statements) if one.is_claim}
    changes: dict[int, tuple[int, ...]] = {}
    for place, one in enumerate(statements):
        # A sentence that is not a claim ("I hope this helps.") has nothing to cite.
        wanted = judgements[place].numbers if place in judgements else ()
        if wanted != one.all_numbers:
            changes[place] = wanted
    fixed = replace_markers(text, statements, changes, notation) if changes else text
    final = split_statements(fixed, notation) if changes else statements
    cited = list(_build_citations(judgements.values(), notation))
    return Review(
        text=fixed,
        claims=tuple(build_claim(one, final[place]) for place, one in judgements.items()),
        citations=tuple(citation for _, citation in cited),
        claim_of_citation=tuple(at for at, _ in cited),
        statements=tuple(final),
        attributed=sum(bool(new) and not statements[at].numbers for at, new in changes.items()),
        repaired=sum(
            one.is_repaired and bool(one.statement.numbers) for one in judgements.values()
        ),
    )


def check_against_facts(
    answer: str, facts: Sequence[str], embedder: Embedder | None, *, threshold: float = CITED_FROM
) -> Grounding:
    """Check any answer against facts. A marker `[Source N]` means the Nth fact."""
    sources = tuple(
        Source(n, Hit(Chunk(f"fact{n}", 0, fact, 0, len(fact)), 1.0, "hybrid"), fact)
        for n, fact in enumerate(facts, start=1)
    )
    judge = StatementJudge(sources, embedder, threshold)
    statements = split_statements(answer, Notation(sources))
    judgements = [judge.judge(one) for one in statements if one.is_claim]
    claims = tuple(
        replace(build_claim(one, one.statement), verdict=one.verdict) for one in judgements
    )
    good = {"supported", "misattributed"}
    cited = {number for claim in claims if claim.verdict in good for number in claim.citations}
    return Grounding(round(measure_groundedness(claims), 4), claims, tuple(sorted(cited)))


def measure_groundedness(claims: Sequence[Claim]) -> float:
    """Return the mean score of the claims, each weighted by its length."""
    total = sum(len(claim.text) for claim in claims)
    return sum(claim.score * len(claim.text) for claim in claims) / total if total else 0.0


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

    @property
    def is_repaired(self) -> bool:
        return self.numbers != self.statement.numbers


@dataclass(frozen=True, slots=True)
class StatementJudge:
    """Judge statements, and keep the units of the sources that were read."""

    sources: Sequence[Source]
    embedder: Embedder | None = None
    threshold: float = CITED_FROM
    _units: dict[int, list[Unit]] = field(default_factory=dict)

    def judge(self, statement: Statement) -> Judgement:
        """Compare a statement with the sources it names; if none supports it, with others."""
        supports = {number: self._find_support(statement, number) for number in statement.numbers}
        if not any(self._is_enough(support) for support in supports.values()):
            for number in self._list_likely_sources(statement):
                if number not in supports:
                    supports[number] = self._find_support(statement, number)
        missing = find_missing_quotations(statement.text, [one.text for one in self.sources])
        if missing:
            reasons = tuple(f"No source says “{quotation}”." for quotation in missing)
            return Judgement(statement, "unsupported", 0.0, (), supports, reasons)
        return self._weigh(statement, supports)

    def _weigh(self, statement: Statement, supports: dict[int, Support]) -> Judgement:
        named = statement.numbers
        good = [n for n in named if self._is_enough(supports[n])]
        partial = [n for n in named if give_verdict(supports[n]) == "partial"]
        if good:
            kept = tuple(n for n in named if n in good or n in partial)
            score = max(supports[n].score for n in good)
            return Judgement(statement, "supported", score, kept[:_MAX_CITED], supports)
        ranked = sorted(supports, key=lambda n: (-supports[n].score, n))
        others = [n for n in ranked if self._is_enough(supports[n])]
        if others:
            verdict: Verdict = "misattributed" if named else "supported"
            return Judgement(statement, verdict, supports[others[0]].score, (others[0],), supports)
        best = supports[ranked[0]] if ranked else Support(0, 0, 0.0, 0.0)
        if best.score >= ATTRIBUTED_FROM and not best.is_contradicted:
            reasons = tuple(one.reason for one in best.disagreements)
            numbers = tuple(partial[:_MAX_CITED]) or (ranked[0],)
            return Judgement(statement, "partial", best.score, numbers, supports, reasons)
        denying = [n for n in ranked if give_verdict(supports[n]) == "contradicted"]
        if denying:
            against = supports[denying[0]]
            reasons = tuple(one.reason for one in against.disagreements if one.contradicts)
            numbers = tuple(n for n in named if n in denying)
            return Judgement(statement, "contradicted", against.score, numbers, supports, reasons)
        verdict = "partial" if partial else "unsupported"
        return Judgement(statement, verdict, best.score, tuple(partial[:_MAX_CITED]), supports)

    def _is_enough(self, support: Support) -> bool:
        return support.score >= self.threshold and not support.disagreements

    def _find_support(self, statement: Statement, number: int) -> Support:
        source = self.sources[number - 1]
        if number not in self._units:
            self._units[number] = split_units(source.text)
        return find_best_support(statement.text, source.text, self._units[number], self.embedder)

    def _list_likely_sources(self, statement: Statement) -> list[int]:
        """List the sources that hold most of a statement's terms."""
        wanted = set(extract_terms(statement.text))
        held = {one.number: len(wanted & set(extract_terms(one.text))) for one in self.sources}
        likely = sorted((n for n in held if held[n]), key=lambda n: (-held[n], n))
        return likely[:_SOURCES_SEARCHED]


def give_verdict(support: Support) -> Verdict:
    """Turn the support of one source into a verdict on one citation."""
    if support.is_contradicted:
        is_same_subject = support.overlap >= NOT_GROUNDED
        return "contradicted" if is_same_subject else "unsupported"
    if support.score >= CITED_FROM and not support.disagreements:
        return "supported"
    return "partial" if support.score >= NOT_GROUNDED else "unsupported"


def build_claim(judgement: Judgement, statement: Statement) -> Claim:
    """Build the claim to show; `statement` is the sentence as it stands in the final text."""
    verdict = judgement.verdict
    if verdict == "misattributed" and judgement.numbers:
        verdict = "supported"  # its marker was corrected, which `repaired` says
    return Claim(
        text=statement.text,
        start=statement.start,
        end=statement.end,
        citations=judgement.numbers,
        verdict=verdict,
        score=round(judgement.score, 4),
        reasons=judgement.reasons,
        repaired=judgement.is_repaired,
    )


def _build_citations(
    judgements: Iterable[Judgement], notation: Notation
) -> Iterator[tuple[int, Citation]]:
    """Yield every citation with the place of its claim."""
    for at, one in enumerate(judgements):
        for number in one.numbers:
            support = one.supports[number]
            span = support.start, support.end
            yield at, build_citation(notation.sources[number - 1], span, give_verdict(support))
