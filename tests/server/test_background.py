"""Uploads that are read after their reply: a server that stops finishes them, or says what is
missing; one that was killed leaves none that seems to go on."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import httpx

from ragstone.engine import Engine
from ragstone.protocols import Vectors
from ragstone.testing import HashEmbedder

from ..cli.run import environment
from ..conftest import settings_in
from ..patience import LONG_S
from .conftest import serve


class Slow(HashEmbedder):
    """Embeds no document before it is told to, or before `pause_s` is over."""

    def __init__(self, pause_s: float) -> None:
        super().__init__()
        self.go, self._pause_s = threading.Event(), pause_s

    def embed(self, texts: Sequence[str]) -> Vectors:
        if any("slow" in text for text in texts):
            self.go.wait(self._pause_s)
        return super().embed(texts)


def upload_and_stop(folder: Path, embedder: Slow, *, grace_s: int) -> Engine:
    """Send four documents, stop the server at once, and open its data again."""
    flags = {"server.shutdown_grace_s": grace_s, "ingest.embed_threads": 1, "ingest.workers": 1,
             "ingest.batch_chunks": 1}  # fmt: skip
    settings = settings_in(folder / "data", **flags)
    for address in serve(Engine(settings, embedder=embedder)):
        files = [("files", (f"{n}.txt", f"A slow text, number {n}.".encode())) for n in range(4)]
        reply = httpx.post(f"{address}/v1/documents?wait=false", files=files, timeout=LONG_S)
        assert reply.status_code == 202
        (folder / "id").write_text(reply.json()["upload_id"])
        assert reply.json()["status"] == "running"
        if grace_s:
            embedder.go.set()
    return Engine(settings, embedder=HashEmbedder())


def test_a_server_that_stops_finishes_what_it_reads(tmp_path: Path) -> None:
    engine = upload_and_stop(tmp_path, Slow(LONG_S), grace_s=60)
    found = engine.upload((tmp_path / "id").read_text())
    assert found["status"] == "finished"
    assert {file["outcome"] for file in found["files"]} == {"added"}
    assert len(engine.documents()) == len(found["files"]) == 4
    engine.close()


def test_what_takes_too_long_is_stopped_and_each_unread_file_is_told(tmp_path: Path) -> None:
    engine = upload_and_stop(tmp_path, Slow(3), grace_s=0)
    found = engine.upload((tmp_path / "id").read_text())
    assert found["status"] == "failed"
    outcomes = [file["outcome"] for file in found["files"]]
    assert len(outcomes) == 4
    assert outcomes.count("added") == len(engine.documents())
    unread = [file for file in found["files"] if file["outcome"] == "failed"]
    assert unread
    assert {file["error"] for file in unread} == {
        "The server was stopped before this file was read."
    }
    engine.close()


KILLED = """
import os, signal, sys
from pathlib import Path
from ragstone.engine import Engine
from ragstone.ingest.uploads import Upload, UploadRecorder
from ragstone.settings import load_settings
from ragstone.testing import HashEmbedder

settings = load_settings(flags={"data.directory": Path(sys.argv[1])}, environ={}).settings
engine = Engine(settings, embedder=HashEmbedder())
path = engine.originals.new_path()
path.write_text("The gate is green.")
uploads = [Upload(path, "gate.txt")]
recorder = UploadRecorder(engine.records, engine.originals, uploads, upload_id="cut-off")
recorder.begin("default")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_upload_of_a_killed_process_does_not_seem_to_go_on(tmp_path: Path) -> None:
    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
    command = [sys.executable, "-c", KILLED, str(tmp_path / "data")]
    done = subprocess.run(
        command, capture_output=True, env=environment(), check=False, timeout=LONG_S
    )
    assert done.returncode == -9, done.stderr
    assert engine.records.upload("cut-off")["status"] == "running"
    found = engine.upload("cut-off")  # another process, and no restart
    assert found["status"] == "failed"
    assert [file["name"] for file in found["files"]] == ["gate.txt"]
    engine.close()


def test_a_running_upload_of_a_living_process_goes_on(tmp_path: Path) -> None:
    from ragstone.ingest.uploads import Upload, UploadRecorder

    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
    other = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
    path = engine.originals.new_path()
    path.write_text("The gate is green.")
    uploads = [Upload(path, "gate.txt")]
    recorder = UploadRecorder(engine.records, engine.originals, uploads, upload_id="going-on")
    recorder.begin("default")
    assert other.upload("going-on")["status"] == "running"
    assert path.exists()
    other.close()
    engine.close()
