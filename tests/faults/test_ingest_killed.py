"""`kill -9` or Ctrl-C in the middle of an ingest: the same command again gives what one run would
have."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder

from ..cli.run import environment
from ..conftest import settings_in
from ..patience import LONG_S, wait_until

pytestmark = pytest.mark.slow

HANGING = Path(__file__).with_name("hanging_command.py")

Stored = dict[str, tuple[str, list[str], np.ndarray]]  # type: ignore[type-arg]


def contents(engine: Engine) -> Stored:
    """Every document: its id, the texts that were embedded, and their vectors."""
    found: Stored = {}
    for document in engine.documents():
        vectors = engine.records.vectors_by_text(document.id, engine.embedder.name)
        found[document.name] = (document.id, list(vectors), np.stack(list(vectors.values())))
    return found


def write_folder(folder: Path) -> Path:
    folder.mkdir()
    for number in range(40):
        rows = "\n\n".join(
            f"## Part {part}\n\nShelf {number}-{part} holds {number * part} boxes of bolts."
            for part in range(5)
        )
        (folder / f"{number:02}.md").write_text(f"# Store {number}\n\n{rows}\n")
    return folder


def list_children(pid: int) -> list[Path]:
    """Return the folders in /proc of the processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            if stat.read_text().rpartition(")")[2].split()[1] == str(pid):
                found.append(stat.parent)
    return found


def test_ctrl_c_ends_an_ingest_whose_threads_cannot_be_stopped(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "docs")
    command = [
        sys.executable, str(HANGING), "100", "ingest", str(folder),
        "--data", str(tmp_path / "data"), "--set", "ingest.batch_chunks=5",
    ]  # fmt: skip
    running = subprocess.Popen(
        command, stderr=subprocess.PIPE, env=environment(), cwd=tmp_path, text=True, process_group=0
    )
    engine = Engine(settings_in(tmp_path / "data"))
    wait_until(lambda: len(engine.documents()) >= 15)
    children = list_children(running.pid)
    assert children, "a parser process waits for the next run"
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=LONG_S)
    assert running.returncode == 130
    assert errors.count("Stopped. What was finished is stored") == 1
    assert "Traceback" not in errors
    wait_until(lambda: not any(child.exists() for child in children))
    assert {document.status for document in engine.documents()} == {"indexed"}
    engine.close()


def test_an_ingest_that_was_killed_ends_like_one_that_was_not(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    folder = write_folder(tmp_path / "docs")
    command = [
        sys.executable, str(HANGING), "100", "ingest", str(folder),
        "--data", str(tmp_path / "killed"), "--set", "ingest.batch_chunks=5",
    ]  # fmt: skip
    running = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(),
        cwd=tmp_path,
    )  # fmt: skip
    killed = Engine(settings_in(tmp_path / "killed"), embedder=embedder)
    wait_until(lambda: len(killed.documents()) >= 5)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    before = len(killed.documents())
    assert 5 <= before < 40, "killed in the middle"

    again = asyncio.run(killed.ingest([folder]))
    assert len(again.of("unchanged")) >= before - 1
    whole = Engine(settings_in(tmp_path / "whole"), embedder=embedder)
    asyncio.run(whole.ingest([folder]))

    first, second = contents(killed), contents(whole)
    assert list(first) == list(second)
    for name, (identity, texts, vectors) in first.items():
        assert (identity, texts) == second[name][:2]
        assert np.array_equal(vectors, second[name][2])
    question = "How many boxes are on shelf 7-3?"
    hits = [asyncio.run(engine.search(question)) for engine in (killed, whole)]
    assert [hit.chunk.text for hit in hits[0]] == [hit.chunk.text for hit in hits[1]]
    killed.close()
    whole.close()
