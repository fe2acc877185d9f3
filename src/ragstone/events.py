"""Define the events of a stream: sources, tokens, first verdicts, the finished answer.

With two answers side by side an event names its side, and both are a `Comparison`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ragstone.types import Answer, Claim, Source


@dataclass(frozen=True, slots=True)
class SourcesFound:
    """Report that retrieval is done; these sources went into the prompt."""

    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Token:
    """Carry a piece of the answer, as it is written."""

    text: str
    verified: bool = False
    """True when it was checked before it went out (`HOLD_UNVERIFIED`)."""


@dataclass(frozen=True, slots=True)
class ClaimsChecked:
    """Report first verdicts on sentences while the rest is written (option `mark_claims`).

    The finished answer may revise them: only then is the whole text known.
    """

    claims: tuple[Claim, ...]
    """Their offsets count in all tokens so far, put together."""
    withheld: int = 0
    """How many sentences were left out since the last event (`HOLD_UNVERIFIED`)."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Carry the whole answer with its verdicts; always the last event."""

    answer: Answer


Event: TypeAlias = SourcesFound | Token | ClaimsChecked | Finished

SideName: TypeAlias = Literal["baseline", "enhanced"]


@dataclass(frozen=True, slots=True)
class SideEvent:
    """Carry an event of one of two compared answers."""

    side: SideName
    event: Event


@dataclass(frozen=True, slots=True)
class Comparison:
    """Hold two answers from one retrieval: from its raw hits, and from the refined ones."""

    baseline: Answer
    enhanced: Answer
