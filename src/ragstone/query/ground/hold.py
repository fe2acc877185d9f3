"""`HOLD_UNVERIFIED`: a sentence goes out only after it was checked, with its markers put right.

pieces of an answer in → whole checked sentences out. A sentence that no source supports is held
back for good; what went out is the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ragstone.query.check.review import review
from ragstone.query.ground.cite import statements
from ragstone.query.ground.markers import Notation, code_spans
from ragstone.stages import Embedder
from ragstone.types import NO_ANSWER, Claim

_WITHHELD = frozenset({"unsupported", "contradicted"})


@dataclass(slots=True)
class SentenceHold:
    """Collects text until a sentence and its markers are complete."""

    notation: Notation
    embedder: Embedder | None
    withheld: list[str] = field(default_factory=list)
    released: str = ""
    _waiting: str = ""

    def feed(self, piece: str) -> str:
        """What may go out now. The last sentence waits: its marker may still be on its way."""
        self._waiting += piece
        said = statements(self._waiting, self.notation)
        if len(said) < 2:
            return ""
        # A fence that is still open may swallow what looks like the next sentence.
        end = said[-1].start
        if any(start < end < stop for start, stop in code_spans(self._waiting)):
            return ""
        ready, self._waiting = self._waiting[:end], self._waiting[end:]
        return self._released(ready)

    def close(self) -> str:
        """The rest; where nothing could go out at all, that there is no answer."""
        ready, self._waiting = self._waiting, ""
        rest = self._released(ready)
        if not self.released.strip():
            self.released = rest = NO_ANSWER
        return rest

    def _released(self, text: str) -> str:
        """The sentences of a text that a source supports, and what is no claim."""
        out: list[str] = []
        position = 0
        for statement in statements(text, self.notation):
            part = text[position : statement.reach]
            position = statement.reach
            out.append(self._checked(part))
        out.append(text[position:])
        ready = "".join(out)
        ready = ready if self.released else ready.lstrip()
        self.released += ready
        return ready

    def _checked(self, part: str) -> str:
        if NO_ANSWER in part:
            return part
        seen = review(part, self.notation, self.embedder)
        if any(_doubtful(claim) for claim in seen.claims):
            self.withheld.append(part.strip())
            return ""
        after = part[len(part.rstrip()) :]
        return seen.text + after


def _doubtful(claim: Claim) -> bool:
    """Nothing supports it, or it says a number, a date or a name that its source does not."""
    return claim.verdict in _WITHHELD or (claim.verdict == "partial" and bool(claim.reasons))
