"""Ask the reading model whether evidence supports a claim, within a limit of work and time.

Results are kept: a sentence that is checked while it is streamed is checked again with the whole
answer.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ragstone.reading.model import VerifierScores, load_reading_model

_MAX_KEPT = 20_000

Pair = tuple[str, str]


class PairModel(Protocol):
    """Judges claims against evidence; `ReadingModel` does."""

    def verify(self, pairs: Sequence[Pair]) -> list[VerifierScores]: ...


@dataclass(slots=True)
class WorkLimit:
    """The work left to one check: pairs that the model may read, and the time when it must end."""

    max_pairs: int = 800
    ends_at: float = field(default_factory=lambda: time.monotonic() + 30.0)

    @classmethod
    def of_seconds(cls, seconds: float, max_pairs: int = 800) -> WorkLimit:
        return cls(max_pairs, time.monotonic() + seconds)

    @property
    def is_over(self) -> bool:
        return self.max_pairs <= 0 or time.monotonic() >= self.ends_at


@dataclass(slots=True)
class Verifier:
    """A model that judges pairs, and its last results. Safe to use from several threads."""

    model: PairModel
    kept: OrderedDict[Pair, VerifierScores] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def verify(self, claim: str, evidence: str, limit: WorkLimit) -> VerifierScores | None:
        """Return the scores of a pair; None if the limit was reached before it."""
        with self._lock:
            known = self.kept.get((claim, evidence))
        if known is not None or limit.is_over:
            return known
        limit.max_pairs -= 1
        (scores,) = self.model.verify([(claim, evidence)])
        with self._lock:
            self.kept[claim, evidence] = scores
            if len(self.kept) > _MAX_KEPT:
                self.kept.popitem(last=False)
        return scores


_SHIPPED: list[Verifier] = []


def load_verifier() -> Verifier | None:
    """Return the verifier with the shipped model; None if its file is not installed."""
    model = load_reading_model()
    if not model.is_installed:
        return None
    if not _SHIPPED:
        _SHIPPED.append(Verifier(model))
    return _SHIPPED[0]
