"""Heavy work has its own processes, which end at their deadline, with their client, and with us."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ragstone.errors import DeadlineError, OverloadedError, StoreError
from ragstone.processes import IdleProcesses, WorkCrashError, WorkerProcess
from ragstone.server.work import WorkQueue
from ragstone.settings.services import ServerSettings

from ..patience import LONG_S, until, wait_until


def is_running(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


class Noted(IdleProcesses):
    """Idle processes that remember the last one they gave away."""

    last: WorkerProcess | None = None

    def take(self) -> WorkerProcess:
        self.last = super().take()
        return self.last

    @property
    def has_ended(self) -> bool:
        return self.last is not None and self.last._popen.poll() is not None


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin in the checkout: a worker's process finds its module `tests.…` there."""
    monkeypatch.chdir(Path(__file__).parents[2])


@pytest.fixture
def idle() -> Iterator[Noted]:
    idle = Noted(f"{__package__}.endless_worker")
    yield idle
    idle.stop()


def open_queue(idle: Noted, timeout_s: float = LONG_S) -> WorkQueue:
    return WorkQueue(ServerSettings(work_timeout_s=timeout_s), idle)


async def test_a_process_is_used_again_and_knows_its_deadline(idle: Noted) -> None:
    queue = open_queue(idle)
    replies = [await queue.run("a", {"endless": False}) for _ in range(3)]
    assert len({reply["pid"] for reply in replies}) == 1
    assert replies[0]["timeout_s"] == LONG_S
    queue.close()
    assert idle.has_ended


async def test_the_deadline_ends_the_work_and_not_only_the_reply(idle: Noted) -> None:
    queue = open_queue(idle, 0.5)
    with pytest.raises(DeadlineError, match=r"longer than 0\.5 s"):
        await queue.run("a", {"endless": True})
    assert idle.has_ended
    # With a limit that this cannot reach.
    assert (await open_queue(idle).run("a", {"endless": False}))["pid"]


async def test_a_failure_is_not_called_a_deadline(idle: Noted) -> None:
    queue = open_queue(idle)
    with pytest.raises(StoreError, match="The file is damaged"):
        await queue.run("a", {"endless": False, "error": "The file is damaged."})
    with pytest.raises(StoreError, match=r"failed \(exit code 1\)") as caught:
        await queue.run("a", {"endless": False, "error": "unexpected"})
    assert isinstance(caught.value.__cause__, WorkCrashError)
    assert caught.value.__cause__.exit_code == 1
    queue.close()


async def test_work_whose_client_is_gone_ends(idle: Noted) -> None:
    queue = open_queue(idle)
    work = asyncio.create_task(queue.run("a", {"endless": True}))
    await until(lambda: idle.last is not None)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await until(lambda: idle.has_ended)


async def test_a_queue_that_closes_ends_what_runs(idle: Noted) -> None:
    queue = open_queue(idle)
    work = asyncio.create_task(queue.run("a", {"endless": True}))
    await until(lambda: idle.last is not None)
    queue.close()
    with pytest.raises(OverloadedError, match="stopping"):
        await work
    assert idle.has_ended


_OWNER = """
import threading
from ragstone.processes import WorkerProcess, pack_message
worker = WorkerProcess("tests.server.endless_worker")
worker.begin(threading.Event())
worker.send(pack_message({"endless": True}))
print(worker._popen.pid, flush=True)
threading.Event().wait()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="asks for a process by its signal")
def test_a_worker_that_computes_ends_with_its_killed_owner() -> None:
    owner = subprocess.Popen([sys.executable, "-c", _OWNER], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    worker = int(owner.stdout.readline())
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    wait_until(lambda: not is_running(worker))
