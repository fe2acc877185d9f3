"""The whole check of an answer: statements judged, markers put right, citations resolved.

text and sources → text, claims, citations and their figures. The pipeline calls it for its own
answers; `Engine.check` for anybody else's, and there nothing is put right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ragstone.query.check.ground import CITED_FROM, Checker, Judgement, claim_of, groundedness
from ragstone.query.ground.cite import Statement, citation, remarked, statements, without_orphans
from ragstone.query.ground.markers import Notation
from ragstone.stages import Embedder
from ragstone.types import Chunk, Citation, Claim, Grounding, Hit, Source


@dataclass(frozen=True, slots=True)
class Review:
    """An answer as it may be shown, with what the sources say of it."""

    text: str
    claims: tuple[Claim, ...] = ()
    citations: tuple[Citation, ...] = ()
    said: tuple[Statement, ...] = ()
    claim_of_citation: tuple[int, ...] = ()
    """For each citation the place of its claim."""
    attributed: int = 0
    """Sentences that came without a marker and got one."""
    repaired: int = 0
    """Sentences whose markers were wrong and were changed or removed."""

    @property
    def precision(self) -> float:
        """Share of the citations that support their claim."""
        good = sum(citation.verdict == "supported" for citation in self.citations)
        return good / len(self.citations) if self.citations else 0.0

    @property
    def recall(self) -> float:
        """Share of the claims that a citation supports."""
        good = sum(claim.verdict == "supported" and bool(claim.citations) for claim in self.claims)
        return good / len(self.claims) if self.claims else 0.0


def review(text: str, notation: Notation, embedder: Embedder | None) -> Review:
    """Judge every statement, then write the markers that the judgements call for."""
    text = without_orphans(text, notation)
    said = statements(text, notation)
    checker = Checker(notation.sources, embedder)
    judged = {place: checker.judge(statement)
              for place, statement in enumerate(said) if statement.is_claim}  # fmt: skip
    changes = {place: one.numbers for place, one in judged.items()
               if one.numbers != one.statement.named}  # fmt: skip
    # What is no claim ("I hope this helps.") has nothing to cite.
    changes |= {place: () for place, one in enumerate(said) if place not in judged and one.numbers}
    fixed = remarked(text, said, changes, notation) if changes else text
    final = statements(fixed, notation) if changes else said
    cited = list(_citations(judged.values(), notation))
    return Review(
        text=fixed,
        claims=tuple(claim_of(one, final[place]) for place, one in judged.items()),
        citations=tuple(citation for _, citation in cited),
        claim_of_citation=tuple(at for at, _ in cited),
        said=tuple(final),
        attributed=sum(not said[place].numbers and bool(new) for place, new in changes.items()),
        repaired=sum(one.repaired and bool(one.statement.named) for one in judged.values()),
    )


def _citations(judged: Iterable[Judgement], notation: Notation) -> Iterator[tuple[int, Citation]]:
    """Every citation with the place of its claim."""
    for at, one in enumerate(judged):
        for number in one.numbers:
            support = one.supports[number]
            source = notation.sources[number - 1]
            span = support.start, support.end
            yield at, citation(source, span, one.verdict_on(number))


def grounding(
    answer: str, facts: Sequence[str], embedder: Embedder | None, *, threshold: float = CITED_FROM
) -> Grounding:
    """The check alone: nothing is put right, and a marker `[Source N]` means the Nth fact."""
    sources = tuple(
        Source(n, Hit(Chunk(f"fact{n}", 0, fact, 0, len(fact)), 1.0, "hybrid"), fact)
        for n, fact in enumerate(facts, start=1)
    )
    notation = Notation(sources)
    checker = Checker(sources, embedder, threshold)
    judged = [checker.judge(one) for one in statements(answer, notation) if one.is_claim]
    claims = tuple(replace(claim_of(one, one.statement), verdict=one.verdict) for one in judged)
    good = {"supported", "misattributed"}
    cited = {number for claim in claims if claim.verdict in good for number in claim.citations}
    return Grounding(round(groundedness(claims), 4), claims, tuple(sorted(cited)))
