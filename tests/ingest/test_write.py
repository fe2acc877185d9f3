"""Storing: the index follows now and then, and never takes most of the time."""

from __future__ import annotations

import time

import pytest

from ragstone.ingest.write import Writer


class SlowIndex:
    """An index that takes a while to follow, and counts how often it had to."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.refreshed = 0

    def refresh(self, collection: str) -> None:
        self.refreshed += 1
        time.sleep(self.seconds)


class NoRecords:
    def note(self, collection: str, seen: object) -> None:
        pass


def writer(index: SlowIndex) -> Writer:
    return Writer(
        None, NoRecords(), index, collection="c", embedder="e", fingerprint="f",  # type: ignore[arg-type]
        batch_chunks=1, refresh_s=0.01, report=lambda outcome, files_done=0: None,
    )  # fmt: skip


@pytest.mark.parametrize(("seconds", "least", "most"), [(0.0, 5, 40), (0.02, 1, 2)])
def test_an_index_that_follows_slowly_is_asked_less_often(
    seconds: float, least: int, most: int
) -> None:
    index = SlowIndex(seconds)
    storing = writer(index)
    end = time.monotonic() + 0.35
    while time.monotonic() < end:
        storing.commit()
        time.sleep(0.002)
    assert least <= index.refreshed <= most
