"""Ask the reading model whether evidence supports a claim, within a limit of work and time.

pairs of claim and evidence → probabilities, or None for pairs that the limits left out. Results are
kept: a sentence that is checked while it is streamed is checked again with the whole answer.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ragstone.reading.model import VerifierScores, load_reading_model

_BATCH = 16
_MAX_KEPT = 20_000

Pair = tuple[str, str]


class PairModel(Protocol):
    """Judge claims against evidence; `ReadingModel` does."""

    def verify(self, pairs: Sequence[Pair]) -> list[VerifierScores]: ...


@dataclass(slots=True)
class WorkLimit:
    """Count the work of one check: pairs that the model reads, and the time when it must end."""

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
    """Judge pairs with a model and keep the results. Safe to use from several threads."""

    model: PairModel
    kept: OrderedDict[Pair, VerifierScores] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def verify(self, pairs: Sequence[Pair], limit: WorkLimit) -> list[VerifierScores | None]:
        """Return the scores of each pair; None where the limit was reached before it."""
        with self._lock:
            known = {pair: self.kept[pair] for pair in pairs if pair in self.kept}
        wanted = [pair for pair in dict.fromkeys(pairs) if pair not in known]
        for at in range(0, len(wanted), _BATCH):
            if limit.is_over:
                break
            batch = wanted[at : at + min(_BATCH, limit.max_pairs)]
            limit.max_pairs -= len(batch)
            known.update(zip(batch, self.model.verify(batch), strict=True))
        with self._lock:
            self.kept.update(known)
            while len(self.kept) > _MAX_KEPT:
                self.kept.popitem(last=False)
        return [known.get(pair) for pair in pairs]


_SHIPPED: list[Verifier] = []


def load_verifier() -> Verifier | None:
    """Return the verifier with the shipped model; None if its file is not installed."""
    model = load_reading_model()
    if not model.is_installed:
        return None
    if not _SHIPPED:
        _SHIPPED.append(Verifier(model))
    return _SHIPPED[0]
