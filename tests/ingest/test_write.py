"""Storing: the index follows now and then, and never takes most of the time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ragstone.ingest import store as write
from ragstone.ingest.store import Writer


class Clock:
    """A clock that goes on only where it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


class SlowIndex:
    """An index that takes a while to follow, and counts how often it had to."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock, self.seconds = clock, seconds
        self.refreshed = 0

    def refresh(self, collection: str) -> None:
        self.refreshed += 1
        self.clock.now_s += self.seconds


def writer(index: SlowIndex) -> Writer:
    return Writer(
        None, SimpleNamespace(note=lambda collection, seen: None), index,  # type: ignore[arg-type]
        collection="c", embedder="e", fingerprint="f", batch_chunks=1, refresh_s=1.0,
        report=lambda outcome, files_done=0: None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, 35),  # once a second
        (2.0, 1),  # it took two seconds, so it rests for forty
        (0.125, 13),  # a refresh may take a twentieth of the time: one in 2.625 s
    ],
)
def test_an_index_that_follows_slowly_is_asked_less_often(
    monkeypatch: pytest.MonkeyPatch, seconds: float, expected: int
) -> None:
    clock = Clock()
    monkeypatch.setattr(write, "time", clock)
    index = SlowIndex(clock, seconds)
    storing = writer(index)
    while clock.now_s <= 135.0:
        storing.commit()
        clock.now_s += 0.125
    assert index.refreshed == expected
