"""Uploads that are read after their reply: a server that stops finishes them or leaves them to the
next one; what a killed one had accepted is read by another."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragstone.engine import Engine
from ragstone.ingest.jobs import Upload
from ragstone.protocols import Vectors
from ragstone.server.background import StoredDataCheck
from ragstone.testing import HashEmbedder

from ..cli.run import environment
from ..conftest import settings_in
from ..patience import LONG_S, wait_until
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


def wait_for_end(engine: Engine, upload_id: str) -> dict[str, Any]:
    wait_until(lambda: engine.upload(upload_id)["status"] != "running")
    return engine.upload(upload_id)


@pytest.mark.slow
def test_what_takes_too_long_is_stopped_and_read_by_the_next_process(tmp_path: Path) -> None:
    engine = upload_and_stop(tmp_path, Slow(3), grace_s=0)
    found = wait_for_end(engine, (tmp_path / "id").read_text())
    assert found["status"] == "finished"
    assert [file["name"] for file in found["files"]] == [f"{n}.txt" for n in range(4)]
    assert {file["outcome"] for file in found["files"]} == {"added"}
    assert len(engine.documents()) == 4
    engine.close()
    assert list((tmp_path / "data" / "spool").iterdir()) == []


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from ragstone.engine import Engine
from ragstone.ingest.jobs import Upload, accept_upload
from ragstone.settings import load_settings
from ragstone.testing import HashEmbedder

settings = load_settings(flags={"data.directory": Path(sys.argv[1])}, environ={}).settings
engine = Engine(settings, embedder=HashEmbedder())
uploads = []
for name in ("gate.txt", "door.txt"):
    path = engine.originals.new_path()
    path.write_text(f"The {name} is green.")
    uploads.append(Upload(path, name))
options = {"metadata": {"year": 2026}}
accept_upload(engine.intake.jobs, engine.originals, uploads, upload_id="cut-off",
              collection="default", options=options)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_upload_of_a_killed_process_is_read_by_another_without_a_restart(
    tmp_path: Path,
) -> None:
    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
    command = [sys.executable, "-c", KILLED, str(tmp_path / "data")]
    done = subprocess.run(
        command, capture_output=True, env=environment(), check=False, timeout=LONG_S
    )
    assert done.returncode == -9, done.stderr
    assert engine.records.upload("cut-off")["status"] == "running"
    found = wait_for_end(engine, "cut-off")
    assert found["status"] == "finished"
    assert sorted(file["name"] for file in found["files"]) == ["door.txt", "gate.txt"]
    for document in engine.documents():
        assert document.metadata["year"] == 2026
        assert engine.original(document).read_text() == f"The {document.name} is green."
    assert len(engine.documents()) == 2
    engine.close()


async def test_a_running_upload_of_a_living_process_is_left_to_it(tmp_path: Path) -> None:
    slow = Slow(LONG_S)
    engine = Engine(settings_in(tmp_path / "data"), embedder=slow)
    other = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
    path = engine.originals.new_path()
    path.write_text("A slow text.")
    work = await engine.accept_uploads([Upload(path, "gate.txt")], upload_id="going-on")
    assert other.upload("going-on")["status"] == "running"
    other.close()
    assert engine.records.upload("going-on")["reader"] == engine.originals.spool.name
    slow.go.set()
    assert [file.outcome for file in work.result(LONG_S).files] == ["added"]
    engine.close()


def test_a_check_that_fails_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(StoredDataCheck, "first_after_s", 0.0)
    monkeypatch.setattr(StoredDataCheck, "again_after_s", 0.01)
    data = tmp_path / "data"
    engine = Engine(settings_in(data), embedder=HashEmbedder())
    (data / "check.lock").mkdir(parents=True)  # cannot be opened as a file
    check = StoredDataCheck(engine)
    with caplog.at_level("INFO"):
        check.start()
        wait_until(lambda: "the stored data could not be checked" in caplog.text)
        (data / "check.lock").rmdir()
        wait_until(lambda: "the stored data was checked" in caplog.text)
    check.stop()
    engine.close()


def test_a_server_repairs_its_index_and_reports_what_it_cannot_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(StoredDataCheck, "first_after_s", 0.0)
    settings = settings_in(tmp_path / "data")
    (tmp_path / "gate.txt").write_text("The gate is painted green.")
    with_index = Engine(settings, embedder=HashEmbedder())
    asyncio.run(with_index.ingest([tmp_path / "gate.txt"]))
    with_index.close()
    vectors = next((tmp_path / "data" / "index" / "default").glob("dense-*/vectors.f32"))
    vectors.write_bytes(bytes(vectors.stat().st_size))
    with closing(sqlite3.connect(tmp_path / "data" / "catalog.db")) as connection, connection:
        connection.execute("UPDATE chunks SET text = 'The gate is painted black.'")
    engine = Engine(settings, embedder=HashEmbedder())
    with caplog.at_level("INFO"):
        for _address in serve(engine):
            wait_until(lambda: "the stored data was checked" in caplog.text)
    assert f"damaged: {vectors.parent.name}/vectors.f32; built again" in caplog.text
    assert "damaged chunks: 1; run: ragstone ingest --again" in caplog.text
    assert engine.index.find_damage("default") == []  # type: ignore[attr-defined]
