"""Small jobs overtake large ones; jobs for the same documents stay in order."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from ragstone.ingest.queue import IntakeQueue

from ..patience import LONG_S

LARGE = 10_000_000


class Log:
    """Submit jobs that note their names; some wait until they are released."""

    def __init__(self) -> None:
        self.queue = IntakeQueue()
        self.done: list[str] = []
        self.go = threading.Event()

    def submit(self, name: str, *, size: int, waits: bool = False, **options: Any) -> Future[None]:
        started = threading.Event()

        def work() -> None:
            started.set()
            if waits:
                assert self.go.wait(LONG_S)
            self.done.append(name)

        options = {"collection": "c", "names": frozenset({name}), **options}
        future = self.queue.submit(work, size=size, **options)
        if waits:
            assert started.wait(LONG_S)
        return future


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_note_does_not_wait_for_a_large_batch(log: Log) -> None:
    large = log.submit("large", size=LARGE, waits=True)
    waiting = [log.submit(f"large {n}", size=LARGE) for n in range(3)]
    log.submit("note", size=100).result(LONG_S)
    assert log.done == ["note"]
    log.go.set()
    for future in [large, *waiting]:
        future.result(LONG_S)
    assert log.done[1] == "large"


def test_a_note_overtakes_small_jobs_that_are_larger(log: Log) -> None:
    log.submit("a", size=LARGE, waits=True)
    log.submit("b", size=100_000, waits=True)
    later = [log.submit(f"{n}", size=90_000) for n in range(5)]
    later.append(log.submit("note", size=100))
    log.go.set()
    for future in later:
        future.result(LONG_S)
    first_waiting = next(name for name in log.done if name not in "ab")
    assert first_waiting == "note"


def test_the_same_document_keeps_its_order(log: Log) -> None:
    log.submit("first", size=LARGE, waits=True, names=frozenset({"a.txt", "b.txt"}))
    second = log.submit("second", size=10, names=frozenset({"b.txt"}))
    log.submit("other collection", size=10, collection="d", names=frozenset({"b.txt"})).result(
        LONG_S
    )
    log.submit("other name", size=10).result(LONG_S)
    assert log.done == ["other collection", "other name"]
    log.go.set()
    second.result(LONG_S)
    assert log.done[2:] == ["first", "second"]


def test_a_job_without_names_has_its_collection_to_itself(log: Log) -> None:
    log.submit("first", size=10, waits=True)
    alone = log.submit("alone", size=0, names=frozenset())
    after = log.submit("after", size=0)
    log.submit("elsewhere", size=0, collection="d").result(LONG_S)
    log.go.set()
    alone.result(LONG_S)
    after.result(LONG_S)
    assert log.done == ["elsewhere", "first", "alone", "after"]


def test_an_error_reaches_the_caller_and_the_next_job_runs(log: Log) -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        log.queue.submit(fail, collection="c").result(LONG_S)
    log.submit("next", size=0).result(LONG_S)


def test_closing_drops_what_waits_and_the_queue_can_be_used_again(log: Log) -> None:
    assert log.queue.close()
    log.submit("runs", size=LARGE, waits=True)
    dropped = log.submit("dropped", size=LARGE)
    log.go.set()
    closed = log.queue.close()
    assert closed != dropped.cancelled()
    log.submit("again", size=0).result(LONG_S)
    assert log.done[-1] == "again"
