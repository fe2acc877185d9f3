"""`kill -9` while a server reads an upload: the next start reads the rest, and nothing is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

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


def test_an_upload_that_was_killed_is_read_at_the_next_start(tmp_path: Path) -> None:
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

    server = started(data, port)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LONG_S) as client:
            wait_until(lambda: client.get(where).json()["status"] != "running")
            after = client.get(where).json()
            assert after["status"] == "finished"
            names = sorted(document["name"] for document in after["documents"])
            assert names == [f"{at:02}.txt" for at in range(FILES)], "each file once"
            listed = client.get("/v1/documents", params={"limit": 1000}).json()
            assert len(listed) == FILES
            for document in listed:
                original = client.get(f"/v1/documents/{document['id']}/original")
                assert original.text == text_of(int(document["name"][:2]))
    finally:
        server.terminate()
        server.wait()
    assert not any((data / "spool").iterdir())
