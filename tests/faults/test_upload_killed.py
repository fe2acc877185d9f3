"""`kill -9` while a server reads an upload: the next start reads the rest, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from ..cli.run import environment
from ..cli.test_signals import stored
from ..patience import LONG_S, wait_until
from ..server.test_run import Served

pytestmark = pytest.mark.slow

HANGING = Path(__file__).with_name("hanging_command.py")

FILES = 40


def start_server(folder: Path, *program: str | Path) -> Served:
    """Start a server in a process of its own, which stores document by document."""
    words = ["serve", "--port", "0", "--data", "data", "--set", "ingest.batch_chunks=1"]
    process = subprocess.Popen(
        [sys.executable, *program, *words], cwd=folder, env=environment(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    return Served(process)


def text_of(number: int) -> str:
    return "\n\n".join(f"Shelf {number}-{part} holds {number + part} bolts." for part in range(60))


def test_an_upload_that_was_killed_is_read_at_the_next_start(tmp_path: Path) -> None:
    server = start_server(tmp_path, HANGING, "80")
    try:
        with httpx.Client(base_url=server.address, timeout=LONG_S) as client:
            sent = [("files", (f"{at:02}.txt", text_of(at))) for at in range(FILES)]
            upload = client.post("/v1/documents", params={"wait": False}, files=sent).json()
            where = f"/v1/uploads/{upload['upload_id']}"
            wait_until(lambda: bool(client.get(where).json()["documents"]))
    finally:
        server.process.kill()
        server.close()
    assert stored(tmp_path / "data") < FILES, "killed in the middle"

    server = start_server(tmp_path, "-m", "ragstone")
    try:
        with httpx.Client(base_url=server.address, timeout=LONG_S) as client:
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
        server.stop()
    assert not any((tmp_path / "data" / "spool").iterdir())
