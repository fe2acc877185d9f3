"""Ctrl-C and SIGTERM: the command ends soon, in good order, and the store goes on."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from ..patience import LONG_S, wait_until
from .run import call, command, environment

pytestmark = pytest.mark.slow

FILES = 300


def started(*arguments: str | Path, cwd: Path) -> subprocess.Popen[str]:
    # Own process group: a Ctrl-C of the test must not reach the tests.
    return subprocess.Popen(
        command(*arguments),
        cwd=cwd,
        env=environment(),
        text=True,
        process_group=0,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def stored(data: Path) -> int:
    try:
        address = f"file:{data / 'catalog.db'}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM documents").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def test_ctrl_c_during_ingest_leaves_a_store_that_opens_and_goes_on(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for i in range(FILES):
        (docs / f"{i:03}.txt").write_text(f"The locker number {i} belongs to visitor {i * 7}.")
    process = started("ingest", docs, "-d", "data", "-s", "ingest.batch_chunks=4", cwd=tmp_path)
    wait_until(lambda: stored(tmp_path / "data") > 8)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LONG_S)
    assert "Traceback" not in errors
    assert process.returncode == 130
    assert "run the same command" in errors

    listed = json.loads(call("documents", "list", "-d", "data", "--json", cwd=tmp_path).stdout)
    assert 8 < len(listed) < FILES
    name = listed[-1]["name"].removesuffix(".txt")
    found = call("ask", f"Whose is the locker number {int(name)}?", "-d", "data", cwd=tmp_path)
    assert f"{name}.txt" in found.stdout

    rest = json.loads(call("ingest", docs, "-d", "data", "--json", cwd=tmp_path).stdout)
    outcomes = [file["outcome"] for file in rest]
    assert outcomes.count("unchanged") == len(listed)
    assert outcomes.count("added") == FILES - len(listed)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_told_to_stop_ends_well(filled: Path, sent: signal.Signals) -> None:
    process = started("serve", "--port", "0", "-d", "data", cwd=filled)
    assert process.stderr is not None
    line = process.stderr.readline()
    address = next(word for word in line.split() if word.startswith("http://"))

    def answers() -> bool:
        try:
            return httpx.get(f"{address}/healthz", timeout=LONG_S).status_code == 200
        except httpx.ConnectError:
            return False

    wait_until(answers)
    asked = {"query": "How much notice ends the lease?"}
    assert httpx.post(f"{address}/v1/query", json=asked, timeout=LONG_S).json()["citations"]
    process.send_signal(sent)
    _, errors = process.communicate(timeout=LONG_S)
    assert process.returncode == 0
    assert "Traceback" not in errors
