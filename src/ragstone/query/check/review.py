"""Review an answer: judge its statements, correct its markers, resolve its citations.

`review_text` is for answers of the pipeline; `check_against_facts` for any other answer, and it
corrects nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ragstone.query.check.judge import (
    NO_VERIFIER,
    SUPPORTED_FROM,
    UNKNOWN_SCORE,
    Judgement,
    StatementJudge,
)
from ragstone.query.check.verifier import Verifier, WorkLimit, load_verifier
from ragstone.query.check.windows import find_quotation, read_source
from ragstone.query.ground.cite import (
    Notation,
    Statement,
    build_citation,
    drop_leading_markers,
    replace_markers,
    split_statements,
)
from ragstone.query.ground.parts import find_listing
from ragstone.types import Chunk, Citation, Claim, Grounding, Hit, Source


@dataclass(frozen=True, slots=True)
class Review:
    """An answer as it may be shown, with what the sources say of it."""

    text: str
    claims: tuple[Claim, ...] = ()
    citations: tuple[Citation, ...] = ()
    statements: tuple[Statement, ...] = ()
    claim_of_citation: tuple[int, ...] = ()
    """For each citation the place of its claim."""
    final: frozenset[int] = frozenset()
    """The places of the claims that no model may judge again."""
    attributed: int = 0
    """Count of the sentences that came without a marker and got one."""
    repaired: int = 0
    """Count of the sentences whose markers were wrong and were changed or removed."""
    notes: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    """For each claim the place of its statement."""

    @property
    def precision(self) -> float:
        """Return the share of the checked citations that support their claim."""
        verdicts = [found.verdict for found in self.citations if found.verdict != "unchecked"]
        return verdicts.count("supported") / len(verdicts) if verdicts else 0.0

    @property
    def recall(self) -> float:
        """Return the share of the claims that a citation supports."""
        good = sum(claim.verdict == "supported" and bool(claim.citations) for claim in self.claims)
        return good / len(self.claims) if self.claims else 0.0


def review_text(
    text: str,
    notation: Notation,
    *,
    verifier: Verifier | None = None,
    limit: WorkLimit | None = None,
    is_cut_off: bool = False,
) -> Review:
    """Judge every statement, then write the markers that the judgements call for.

    The shipped verifier reads unless another one is given. `is_cut_off`: the text ends in the
    middle of a sentence, because its model had no tokens left.
    """
    verifier = verifier or load_verifier()
    text = drop_leading_markers(notation.remove_foreign_links(text), notation)
    statements = split_statements(text, notation, is_cut_off=is_cut_off)
    judge = StatementJudge(notation.sources, verifier, limit=limit or WorkLimit.of_seconds(30))
    claims = {place: found for place, found in enumerate(statements) if found.is_claim}
    claims |= _find_quoted_listings(text, statements, notation)
    places = sorted(claims)
    judged = judge.judge_all([claims[place] for place in places])
    judgements = dict(zip(places, judged, strict=True))
    markers = _assign_markers(statements, judgements)
    changes = {at: new for at, new in markers.items() if new != statements[at].all_numbers}
    final = statements
    if changes:
        text = replace_markers(text, statements, changes, notation)
        final = split_statements(text, notation, is_cut_off=is_cut_off)
    cited = list(_build_citations(statements, judgements, markers, notation))
    return Review(
        text=text,
        claims=tuple(_build_claim(found, final[place]) for place, found in judgements.items()),
        citations=tuple(citation for _, citation in cited),
        claim_of_citation=tuple(at for at, _ in cited),
        statements=tuple(final),
        places=tuple(places),
        final=frozenset(at for at, found in enumerate(judged) if found.is_final),
        attributed=sum(bool(new) and not statements[at].numbers for at, new in changes.items()),
        repaired=sum(found.is_repaired and bool(found.statement.numbers) for found in judged),
        notes=() if verifier or not judged else (NO_VERIFIER,),
    )


def _find_quoted_listings(
    text: str, statements: Sequence[Statement], notation: Notation
) -> dict[int, Statement]:
    """Return the lead-ins and labels with a marker that stand before a listing of their source.

    "Install it with:" claims nothing alone; with its listing it is a quotation.
    """
    found: dict[int, Statement] = {}
    for place, lead in enumerate(statements):
        if lead.is_claim or not lead.all_numbers or not lead.text.endswith((":", "：")):
            continue
        listing = find_listing(text, lead.end, lead.next_start)
        said = listing if lead.text in notation.labels else f"{lead.text} {listing}"
        sources = [notation.sources[number - 1] for number in lead.numbers]
        if listing and any(find_quotation(said, read_source(source)) for source in sources):
            found[place] = replace(lead, text=said)
    return found


def _assign_markers(
    statements: Sequence[Statement], judgements: Mapping[int, Judgement]
) -> dict[int, tuple[int, ...]]:
    """Return the markers that each statement should carry itself.

    An item of a list or table that came without a marker needs none if the next marker of its
    block names its sources. A sentence that is not a claim has nothing to cite.
    """
    markers: dict[int, tuple[int, ...]] = {}
    following: tuple[int, ...] = ()
    group: int | None = None
    for place in reversed(range(len(statements))):
        statement = statements[place]
        if statement.group is None or statement.group != group:
            following, group = (), statement.group
        wanted = judgements[place].numbers if place in judgements else ()
        if statement.group is not None and not statement.all_numbers and wanted == following:
            wanted = ()
        markers[place] = wanted
        following = wanted or following
    return dict(sorted(markers.items()))


def _build_citations(
    statements: Sequence[Statement],
    judgements: Mapping[int, Judgement],
    markers: Mapping[int, tuple[int, ...]],
    notation: Notation,
) -> Iterator[tuple[int, Citation]]:
    """Yield a citation for every marker, with the place of its claim.

    The marker of a list or table cites what supports all items that share it.
    """
    sharing: list[Judgement] = []
    for at, (place, judgement) in enumerate(judgements.items()):
        group = statements[place].group
        if sharing and sharing[0].statement.group != group:
            sharing = []
        sharing.append(judgement)
        if group is not None and not markers[place]:
            continue
        for number in markers[place]:
            found = [item.supports[number] for item in sharing if number in item.numbers]
            span = min(item.start for item in found), max(item.end for item in found)
            verdict = judgement.supports[number].verdict
            if judgement.verdict in ("unchecked", "partial"):
                verdict = judgement.verdict
            yield at, build_citation(notation.sources[number - 1], span, verdict)
        sharing = []


def check_against_facts(
    answer: str,
    facts: Sequence[str],
    *,
    threshold: float = SUPPORTED_FROM,
    limit: WorkLimit | None = None,
) -> Grounding:
    """Check any answer against facts. A marker `[Source N]` means the Nth fact."""
    sources = tuple(
        Source(n, Hit(Chunk(f"fact{n}", 0, fact, 0, len(fact)), 1.0, "hybrid"), fact)
        for n, fact in enumerate(facts, start=1)
    )
    verifier = load_verifier()
    judge = StatementJudge(sources, verifier, threshold, limit or WorkLimit.of_seconds(30))
    notation = Notation(sources)
    judgements = judge.judge_all([s for s in split_statements(answer, notation) if s.is_claim])
    claims = tuple(
        replace(_build_claim(found, found.statement), verdict=found.verdict) for found in judgements
    )
    # A misattributed claim is supported by another source than the one that it names.
    good = [claim for claim in claims if claim.verdict in ("supported", "misattributed")]
    cited = sorted({number for claim in good for number in claim.citations})
    notes = [] if verifier or not claims else [NO_VERIFIER]
    markers = [marker for marker in notation.find_markers(answer) if not marker.is_complete]
    unknown = tuple(dict.fromkeys(answer[marker.start : marker.end] for marker in markers))
    if unknown:
        notes.append(f"The answer names sources that do not exist: {', '.join(unknown)}.")
    score = round(measure_groundedness(claims), 4)
    return Grounding(score, claims, tuple(cited), tuple(notes), unknown)


def is_all_supported(grounding: Grounding) -> bool:
    """Return True when there is a claim, and all are supported by the sources that they name."""
    verdicts = {claim.verdict for claim in grounding.claims}
    return verdicts == {"supported"} and not grounding.unknown_sources


def measure_groundedness(claims: Sequence[Claim]) -> float:
    """Return the mean score of the checked claims, each weighted by its length.

    0.5, which is neither grounded nor not, where none of them could be checked.
    """
    checked = [claim for claim in claims if claim.verdict != "unchecked"]
    if not checked:
        return UNKNOWN_SCORE if claims else 0.0
    total = sum(len(claim.text) for claim in checked)
    return sum(claim.score * len(claim.text) for claim in checked) / total if total else 0.0


def _build_claim(judgement: Judgement, statement: Statement) -> Claim:
    """Build the claim to show; `statement` is the sentence as it stands in the final text."""
    verdict = judgement.verdict
    if verdict == "misattributed" and judgement.numbers:
        verdict = "supported"  # its marker was corrected, which `repaired` says
    return Claim(
        statement.text,
        statement.start,
        statement.end,
        judgement.numbers,
        verdict,
        round(judgement.score, 4),
        judgement.reasons,
        judgement.is_repaired,
    )
