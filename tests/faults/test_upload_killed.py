"""`kill -9` while a server reads an upload: the next start says so, and nothing is left lying."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder

from ..conftest import settings_in
from ..patience import LONG_S, wait_until

pytestmark = pytest.mark.slow

FILES = 40


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def started(data: Path, port: int) -> subprocess.Popen[bytes]:
    """A server in a process of its own, which stores document by document."""
    command = [
        sys.executable, "-c", "from ragstone.cli.main import app; app()", "serve",
        "--port", str(port), "--data", str(data), "--set", "ingest.batch_chunks=1",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answers() -> bool:
        assert process.poll() is None, "the server ended"
        try:
            return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=LONG_S).is_success
        except httpx.TransportError:
            return False

    wait_until(answers)
    return process


def text_of(number: int) -> str:
    return "\n\n".join(f"Shelf {number}-{part} holds {number + part} bolts." for part in range(60))


def test_an_upload_that_was_killed_is_failed_at_the_next_start(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    data, port = tmp_path / "data", free_port()
    server = started(data, port)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LONG_S) as client:
            sent = [("files", (f"{at:02}.txt", text_of(at))) for at in range(FILES)]
            upload = client.post("/v1/documents", params={"wait": False}, files=sent).json()
            where = f"/v1/uploads/{upload['upload_id']}"
            wait_until(lambda: bool(client.get(where).json()["documents"]))
    finally:
        os.kill(server.pid, signal.SIGKILL)
        server.wait()

    engine = Engine(settings_in(data), embedder=embedder).open()
    after = engine.records.upload(upload["upload_id"])
    assert after["status"] == "failed"
    assert after["finished_at"] is not None
    outcomes = {file["name"]: file for file in after["files"]}
    assert sorted(outcomes) == [f"{at:02}.txt" for at in range(FILES)], (
        "every file is accounted for"
    )
    unread = [file for file in outcomes.values() if file["outcome"] == "failed"]
    assert 0 < len(unread) < FILES, "killed in the middle"
    assert {file["error"] for file in unread} == {
        "The server was stopped before this file was read."
    }
    assert all("Send it again" in file["hint"] for file in unread)
    assert not any((data / "spool").iterdir()), "received files are removed"
    engine.close()
