"""Check streamed text by sentences: hold it back until then, or report verdicts beside it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

from ragstone.events import ClaimsChecked, Event, Token
from ragstone.evidence import Draft
from ragstone.query.check.review import Review, review_text
from ragstone.query.ground.cite import Notation, Statement, split_statements
from ragstone.reading.markers import find_code_spans
from ragstone.threads import run_in_thread
from ragstone.trace import QueryRun
from ragstone.types import NO_ANSWER, Claim


@dataclass(slots=True)
class SentenceHold:
    """Text that is held until a sentence and its markers are complete, then released checked.

    With `holds=False` the text goes out unchanged and at once; only the verdicts come later.
    """

    notation: Notation
    drops_unsupported: bool = True
    """False: correct the markers of a sentence that no source supports, but let it out."""
    holds: bool = True
    reports: bool = False
    """True: collect the verdicts for `take_report`."""
    withheld: list[str] = field(default_factory=list)
    """The sentences that were dropped."""
    released: str = ""
    """Everything that went out so far."""
    _waiting: str = ""
    _claims: list[Claim] = field(default_factory=list)
    _withheld_reported: int = 0

    async def stream(self, piece: str) -> AsyncIterator[Token | ClaimsChecked]:
        """Yield what may go out now, and the verdicts on sentences that are complete."""
        if not self.holds:
            yield Token(piece)
        ready = await self.feed(piece)
        if self.holds and ready:
            yield Token(ready, verified=True)
        if report := self.take_report():
            yield report

    async def finish(self, draft: Draft, run: QueryRun) -> list[Event]:
        """Return the last events. The text of the draft becomes what went out, if that was held."""
        if self.holds and draft.is_fallback:
            # The provider broke off: what it wrote is not part of the answer.
            self.withheld, self.released, self._waiting = [], "", ""
            self._claims, self._withheld_reported = [], 0
            await self.feed(draft.text)
        rest = await self.close()
        events: list[Event] = []
        if self.holds:
            draft.text = self.released
            events += [Token(rest, verified=True)] if rest else []
        if report := self.take_report():
            events.append(report)
        if self.withheld:
            with run.span("ground.hold") as span:
                span.count(sentences_withheld=len(self.withheld))
                span.note(f"{len(self.withheld)} sentences that no source supports were left out.")
        return events

    def take_report(self) -> ClaimsChecked | None:
        """Return what was found out since the last report; None if that is nothing."""
        withheld = len(self.withheld) - self._withheld_reported
        if not self.reports or not (self._claims or withheld):
            return None
        report = ClaimsChecked(tuple(self._claims), withheld)
        self._claims, self._withheld_reported = [], len(self.withheld)
        return report

    async def feed(self, piece: str) -> str:
        """Return what may go out now. The last sentence waits: its marker may still follow."""
        self._waiting += piece
        statements = split_statements(self._waiting, self.notation)
        end = _find_settled_end(statements)
        # A fence that is still open may swallow what looks like the next sentence.
        if not end or any(start < end < stop for start, stop in find_code_spans(self._waiting)):
            return ""
        ready, self._waiting = self._waiting[:end], self._waiting[end:]
        # Reading takes milliseconds, in which other requests must not wait.
        return await run_in_thread("models", self._release, ready)

    async def close(self) -> str:
        """Return the rest, or the sentence that there is no answer where nothing went out."""
        ready, self._waiting = self._waiting, ""
        rest = await run_in_thread("models", self._release, ready)
        if self.holds and not self.released.strip():
            self.released = rest = NO_ANSWER
        return rest

    def _release(self, text: str) -> str:
        before = len(self.released)
        edges = _find_edges(split_statements(text, self.notation), by_item=False)
        for start, end in itertools.pairwise(edges):
            self._check(text[start:end])
        self._let_out(text[edges[-1] :])
        return self.released[before:]

    def _let_out(self, text: str, claims: tuple[Claim, ...] = ()) -> None:
        """Add a checked text; the offsets of its claims become those of the whole."""
        shown = text if self.released or not self.holds else text.lstrip()
        at = len(self.released) - (len(text) - len(shown))
        self._claims += [replace(c, start=at + c.start, end=at + c.end) for c in claims]
        self.released += shown

    def _check(self, part: str) -> None:
        """Let out a sentence or list with corrected markers, or withhold it."""
        if NO_ANSWER in part:
            return self._let_out(part)
        review = review_text(part, self.notation)
        if not self.holds:
            return self._let_out(part, _place_claims(review, part, self.notation))
        if not (self.drops_unsupported and any(map(_is_doubtful, review.claims))):
            return self._let_out(review.text + part[len(part.rstrip()) :], review.claims)
        edges = _find_edges(split_statements(part, self.notation))
        if len(edges) > 2:  # a list: each item for itself
            for start, end in itertools.pairwise(edges):
                self._check(part[start:end])
        else:
            self.withheld.append(part.strip())
        return None


def _place_claims(review: Review, part: str, notation: Notation) -> tuple[Claim, ...]:
    """Return the claims of a review with the offsets of the text as it was before."""
    statements = split_statements(part, notation)
    if len(statements) != len(review.statements):  # a link to nowhere went with its sentence
        return ()
    places = [statements[place] for place in review.places]
    return tuple(
        replace(claim, start=place.start, end=place.end)
        for claim, place in zip(review.claims, places, strict=True)
    )


def _find_edges(statements: list[Statement], *, by_item: bool = True) -> list[int]:
    """Return where each statement ends, after a 0; a label ends with what it stands before.

    Not `by_item`: a list ends with its last item.
    """
    edges = [0]
    for statement, after in itertools.zip_longest(statements, statements[1:]):
        is_inside = after and statement.group is not None and statement.group == after.group
        if not (after and after.is_labelled) and (by_item or not is_inside):
            edges.append(statement.next_start)
    return edges


def _find_settled_end(statements: list[Statement]) -> int:
    """Return the place up to which no marker can follow any more; a list is settled as a whole."""
    if len(statements) < 2:
        return 0
    first = len(statements) - 1
    group = statements[first].group
    if group is not None:
        first = next(at for at, statement in enumerate(statements) if statement.group == group)
    return statements[first - statements[first].is_labelled].start  # its label stands before it


def _is_doubtful(claim: Claim) -> bool:
    """Return True when no source supports it, or its facts differ from those of its source."""
    if claim.verdict in ("unsupported", "contradicted", "suspicious"):
        return True
    return claim.verdict == "partial" and bool(claim.reasons)
