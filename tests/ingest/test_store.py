"""The index is refreshed at intervals, and never takes most of the time."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from ragstone.ingest import store
from ragstone.ingest.store import BatchWriter
from ragstone.testing import HashEmbedder


class Clock:
    """Return a time that only the test changes."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


class SlowIndex:
    """Take a while for each refresh and count them."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock, self.seconds = clock, seconds
        self.refreshed = 0

    def refresh(self, collection: str) -> None:
        self.refreshed += 1
        self.clock.now_s += self.seconds


def make_writer(index: SlowIndex) -> BatchWriter:
    return BatchWriter(
        SimpleNamespace(write_transaction=nullcontext),
        SimpleNamespace(save_files=lambda collection, records: None),
        index,  # type: ignore[arg-type]
        collection="c",
        embedder=HashEmbedder(),
        fingerprint="f",
        batch_chunks=1,
        refresh_s=1.0,
        report=lambda outcome, files_done=0: None,
    )


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, 35),  # once a second
        (2.0, 1),  # it took two seconds, so it rests for forty
        (0.125, 13),  # a refresh may take a twentieth of the time: one in 2.625 s
    ],
)
def test_a_slow_index_is_refreshed_less_often(
    monkeypatch: pytest.MonkeyPatch, seconds: float, expected: int
) -> None:
    clock = Clock()
    monkeypatch.setattr(store, "time", clock)
    index = SlowIndex(clock, seconds)
    writer = make_writer(index)
    while clock.now_s <= 135.0:
        writer.commit()
        clock.now_s += 0.125
    assert index.refreshed == expected
