"""The whole check of an answer: statements judged, markers put right, citations resolved.

text and sources → text, claims, citations and their figures. The pipeline calls it for its own
answers; `Engine.check` for anybody else's, and there nothing is put right.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import BaseModel

from ragstone.index.analyze import terms, terms_of_all
from ragstone.prompts import render
from ragstone.protocols import Chat, Embedder
from ragstone.query.check.facts import Kind as FactKind
from ragstone.query.check.facts import disagreements
from ragstone.query.check.support import Support, best_support, missing_quotations
from ragstone.query.ground.cite import (
    CONFLICT_NOTICE,
    Notation,
    Statement,
    citation,
    neutral,
    remarked,
    statements,
    without_orphans,
)
from ragstone.query.understand.rewrite import ask_json
from ragstone.reading.units import Kind, Unit, question_kind, reads_like_instructions, units
from ragstone.types import Chunk, Citation, Claim, Grounding, Hit, Source, Verdict

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


MOST_CLAIMS = 8
_MOST_SOURCES = 6
_MOST_CHARS = 1500
# What the model's word is worth: enough to be grounded, and little enough not to be.
_CONFIRMED, _DENIED = 0.9, 0.2


class ClaimVerdict(BaseModel):
    claim: int
    supported: Literal["yes", "partly", "no"]


class Verdicts(BaseModel):
    verdicts: list[ClaimVerdict]


def in_doubt(claims: Sequence[Claim]) -> list[int]:
    """Places of the claims to ask about; none when the answer as a whole is clear."""
    if not NOT_GROUNDED <= groundedness(claims) <= GROUNDED:
        return []
    places = [at for at, claim in enumerate(claims) if NOT_GROUNDED <= claim.score <= GROUNDED]
    return places[:MOST_CLAIMS]


async def verified(
    chat: Chat, review: Review, sources: Sequence[Source], *, timeout_s: float
) -> Review:
    """Ask once, within the time given. A failure is the caller's: the fast check stands."""
    places = in_doubt(review.claims)
    if not places:
        return review
    cited = {number for at in places for number in review.claims[at].citations}
    shown = [s for s in sources if s.number in cited] or list(sources[:_MOST_SOURCES])
    prompt = render(
        "verify",
        passages="\n\n".join(
            f"<passage {source.number}>\n{neutral(source.text[:_MOST_CHARS])}\n</passage>"
            for source in shown[:_MOST_SOURCES]
        ),
        claims="\n".join(f"{n}. {review.claims[at].text}" for n, at in enumerate(places, start=1)),
    )
    async with asyncio.timeout(timeout_s):
        reply = Verdicts.model_validate(await ask_json(chat, prompt, Verdicts))
    decided = {
        places[one.claim - 1]: one.supported
        for one in reply.verdicts
        if 1 <= one.claim <= len(places)
    }
    return _decided(review, decided)


def _decided(review: Review, decided: Mapping[int, str]) -> Review:
    claims = list(review.claims)
    denied: set[int] = set()
    for at, word in decided.items():
        if word == "yes":
            claims[at] = replace(claims[at], score=_CONFIRMED, verdict="supported", reasons=())
        elif word == "no":
            verdict: Verdict = "unsupported"
            reason = "A model that read the sources did not find it there."
            claims[at] = replace(claims[at], score=_DENIED, verdict=verdict, reasons=(reason,))
            denied.add(at)
    citations = list(review.citations)
    for place, (at, cited) in enumerate(zip(review.claim_of_citation, citations, strict=True)):
        if decided.get(at) == "yes":
            citations[place] = replace(cited, verdict="supported")
        elif at in denied:
            citations[place] = replace(cited, verdict="unsupported")
    return replace(review, claims=tuple(claims), citations=tuple(citations))


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


# Of the terms that are no facts, so much must be the same in both sentences.
_SAME_SUBJECT = 0.6
_STATEMENTS_COMPARED = 3
_MOST_NUMBERS = 2
_QUANTITIES: frozenset[FactKind] = frozenset({"number", "unit"})
_POLARITY: frozenset[FactKind] = frozenset({"negation", "opposite"})
_ASKED_FOR: dict[Kind, frozenset[FactKind]] = {
    "money": _QUANTITIES, "percent": _QUANTITIES, "duration": _QUANTITIES,
    "number": _QUANTITIES, "when": _QUANTITIES | {"date"}, "who": frozenset({"name"}),
    "where": frozenset({"name"}), "yes_no": _QUANTITIES | _POLARITY | {"date"},
    "how": _QUANTITIES | _POLARITY, "what": _QUANTITIES | _POLARITY | {"date"},
}  # fmt: skip


_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class Conflict:
    """A sentence of another source that says otherwise than the answer."""

    number: int
    sentence: str

    def notice(self, notation: Notation) -> str:
        """What is added to the answer: that the sources disagree, and what the other one says."""
        return f" {CONFLICT_NOTICE} {neutral(self.sentence)} {notation.written([self.number])}"


def find_conflict(question: str, answer: str, notation: Notation) -> Conflict | None:
    """The first disagreement on the point asked, of a source that the answer does not cite for it.

    None where the answer holds the other sentence's value already: then it has said so itself.
    """
    wanted = _ASKED_FOR.get(question_kind(question), frozenset())
    if not wanted:
        return None
    asked = frozenset(terms(question))
    said = [one for one in statements(answer, notation) if one.is_claim][:_STATEMENTS_COMPARED]
    for statement in said:
        subject = _subject(statement.text)
        point = asked & subject
        others = _others(statement, notation) if point else []
        subjects = terms_of_all(unit.words for _, unit in others)
        for (number, unit), found in zip(others, subjects, strict=True):
            sentence = " ".join(unit.words.split())
            about = _without_numbers(found)
            if not point <= about or not _overlap(subject, about):
                continue
            if (
                _disagree(statement.text, sentence, wanted)
                and not any(_agree(one.text, sentence) for one in said)
                and not reads_like_instructions(unit.text)
            ):
                return Conflict(number, sentence)
    return None


def _others(statement: Statement, notation: Notation) -> list[tuple[int, Unit]]:
    """List the units of the sources that a statement does not cite."""
    found: list[tuple[int, Unit]] = []
    for source in notation.sources:
        if source.number not in statement.numbers:
            found += [(source.number, unit) for unit in list(units(source.text))]
    return found


def _overlap(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    return len(mine & theirs) >= _SAME_SUBJECT * max(len(mine), len(theirs))


def _disagree(mine: str, theirs: str, wanted: frozenset[FactKind]) -> bool:
    found = [one for one in disagreements(mine, theirs, theirs) if one.contradicts]
    back = [one for one in disagreements(theirs, mine, mine) if one.contradicts]
    kinds: set[FactKind] = {one.kind for one in found}
    if not kinds or not back or not kinds <= wanted:
        return False
    return "name" in kinds or len(found) <= _MOST_NUMBERS


def _agree(mine: str, theirs: str) -> bool:
    """Whether a statement of the answer says the same already."""
    same = len(_subject(mine) & _subject(theirs)) >= _SAME_SUBJECT * len(_subject(theirs))
    return same and not any(True for _ in disagreements(theirs, mine, mine))


def _subject(text: str) -> frozenset[str]:
    """What a sentence is about: its terms without numbers."""
    return _without_numbers(terms(text))


def _without_numbers(found: Iterable[str]) -> frozenset[str]:
    return frozenset(term for term in found if term.isalpha() or not _DIGIT.search(term))
