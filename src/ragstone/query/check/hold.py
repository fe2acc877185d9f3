"""Hold streamed text back until each sentence is checked; drop sentences no source supports."""

from __future__ import annotations

from dataclasses import dataclass, field

from ragstone.protocols import Embedder
from ragstone.query.check.review import review_text
from ragstone.query.ground.cite import Notation, split_statements
from ragstone.reading.units import find_code_spans
from ragstone.types import NO_ANSWER, Claim


@dataclass(slots=True)
class SentenceHold:
    """Collect text until a sentence and its markers are complete, then release it checked."""

    notation: Notation
    embedder: Embedder | None
    withheld: list[str] = field(default_factory=list)
    """The sentences that were dropped."""
    released: str = ""
    """Everything that went out so far."""
    _waiting: str = ""

    def feed(self, piece: str) -> str:
        """Return what may go out now. The last sentence waits: its marker may still follow."""
        self._waiting += piece
        statements = split_statements(self._waiting, self.notation)
        if len(statements) < 2:
            return ""
        # A fence that is still open may swallow what looks like the next sentence.
        end = statements[-1].start
        if any(start < end < stop for start, stop in find_code_spans(self._waiting)):
            return ""
        ready, self._waiting = self._waiting[:end], self._waiting[end:]
        return self._release(ready)

    def close(self) -> str:
        """Return the rest, or the sentence that there is no answer where nothing went out."""
        ready, self._waiting = self._waiting, ""
        rest = self._release(ready)
        if not self.released.strip():
            self.released = rest = NO_ANSWER
        return rest

    def _release(self, text: str) -> str:
        pieces: list[str] = []
        position = 0
        for statement in split_statements(text, self.notation):
            pieces.append(self._check(text[position : statement.next_start]))
            position = statement.next_start
        pieces.append(text[position:])
        ready = "".join(pieces)
        ready = ready if self.released else ready.lstrip()
        self.released += ready
        return ready

    def _check(self, part: str) -> str:
        """Return one statement with corrected markers; empty when it is withheld."""
        if NO_ANSWER in part:
            return part
        review = review_text(part, self.notation, self.embedder)
        if any(_is_doubtful(claim) for claim in review.claims):
            self.withheld.append(part.strip())
            return ""
        return review.text + part[len(part.rstrip()) :]


def _is_doubtful(claim: Claim) -> bool:
    """Return True when no source supports it, or its facts differ from those of its source."""
    if claim.verdict in ("unsupported", "contradicted"):
        return True
    return claim.verdict == "partial" and bool(claim.reasons)
