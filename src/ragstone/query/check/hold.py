"""Hold streamed text back until each sentence is checked and its markers are right."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from ragstone.protocols import Embedder
from ragstone.query.check.review import review_text
from ragstone.query.ground.cite import Notation, Statement, split_statements
from ragstone.reading.units import find_code_spans
from ragstone.threads import run_in_thread
from ragstone.types import NO_ANSWER, Claim


@dataclass(slots=True)
class SentenceHold:
    """Collect text until a sentence and its markers are complete, then release it checked."""

    notation: Notation
    embedder: Embedder | None
    drops_unsupported: bool = True
    """False: correct the markers of a sentence that no source supports, but let it out."""
    withheld: list[str] = field(default_factory=list)
    """The sentences that were dropped."""
    released: str = ""
    """Everything that went out so far."""
    _waiting: str = ""

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
        if not self.released.strip():
            self.released = rest = NO_ANSWER
        return rest

    def _release(self, text: str) -> str:
        pieces: list[str] = []
        position = 0
        for end in _find_part_ends(split_statements(text, self.notation)):
            pieces.append(self._check(text[position:end]))
            position = end
        pieces.append(text[position:])
        ready = "".join(pieces)
        ready = ready if self.released else ready.lstrip()
        self.released += ready
        return ready

    def _check(self, part: str) -> str:
        """Return a sentence or list with corrected markers; empty when it is withheld."""
        if NO_ANSWER in part:
            return part
        review = review_text(part, self.notation, self.embedder)
        doubtful = self.drops_unsupported and any(map(_is_doubtful, review.claims))
        if not doubtful:
            return review.text + part[len(part.rstrip()) :]
        statements = split_statements(part, self.notation)
        if len(statements) > 1:  # a list: each item for itself
            edges = [0, *(one.next_start for one in statements)]
            return "".join(self._check(part[start:end]) for start, end in itertools.pairwise(edges))
        self.withheld.append(part.strip())
        return ""


def _find_settled_end(statements: list[Statement]) -> int:
    """Return the place up to which no marker can follow any more; a list is settled as a whole."""
    if len(statements) < 2:
        return 0
    last = statements[-1]
    first = next(
        (one for one in statements if last.group is not None and one.group == last.group), last
    )
    return first.start


def _find_part_ends(statements: list[Statement]) -> Iterator[int]:
    """Yield the end of every sentence, but of a list only the end of its last item."""
    for place, one in enumerate(statements):
        following = statements[place + 1] if place + 1 < len(statements) else None
        if one.group is None or following is None or following.group != one.group:
            yield one.next_start


def _is_doubtful(claim: Claim) -> bool:
    """Return True when no source supports it, or its facts differ from those of its source."""
    if claim.verdict in ("unsupported", "contradicted", "suspicious"):
        return True
    return claim.verdict == "partial" and bool(claim.reasons)
