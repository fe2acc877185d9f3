"""Values that were computed from documents are kept, and are never the reason for a failure."""

from __future__ import annotations

import multiprocessing
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ragstone import Engine
from ragstone.derived import FILE_NAME, DerivedStore, Value, build_key
from ragstone.errors import StoreBusyError
from ragstone.ingest.jobs import Upload
from ragstone.settings import load_settings

from .patience import LONG_S


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DerivedStore]:
    store = DerivedStore(tmp_path / FILE_NAME)
    yield store
    store.close()


def test_a_value_comes_back_as_it_was_put(store: DerivedStore) -> None:
    key = build_key("vector", "a text")
    store.put_later(lambda: [(key, "d1", b"\x00\xff")])
    store.flush()
    assert store.get_many([key, build_key("other")]) == {key: b"\x00\xff"}


def test_a_file_that_is_not_there_is_not_made_by_reading(tmp_path: Path) -> None:
    store = DerivedStore(tmp_path / FILE_NAME)
    assert store.get_many([b"k"]) == {}
    assert not (tmp_path / FILE_NAME).exists()


def test_a_changed_value_counts_as_missing(store: DerivedStore, tmp_path: Path) -> None:
    store.put_many([(b"one", "d1", b"content"), (b"two", "d1", b"content")])
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other, other:
        other.execute("UPDATE derived SET content = ? WHERE key = ?", (b"c0ntent", b"one"))
    assert store.get_many([b"one", b"two"]) == {b"two": b"content"}
    store.put_many([(b"one", "d1", b"content")])
    assert store.get_many([b"one"]) == {b"one": b"content"}


@pytest.mark.parametrize("damage", [b"", b"not a database, but long enough to be read as one" * 99])
def test_a_damaged_file_starts_anew(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / FILE_NAME
    first = DerivedStore(path)
    first.put_many([(b"k", "d1", b"v")])
    first.close()
    path.write_bytes(damage)
    second = DerivedStore(path)
    assert second.get_many([b"k"]) == {}
    second.put_many([(b"k", "d1", b"v")])
    assert second.get_many([b"k"]) == {b"k": b"v"}
    second.close()


def test_the_oldest_values_go_when_there_are_too_many(tmp_path: Path) -> None:
    store = DerivedStore(tmp_path / FILE_NAME, max_bytes=400_000)
    for at in range(100):
        store.put_many([(build_key(at), "d1", bytes(10_000))])
    assert store.get_many([build_key(0)]) == {}
    assert store.get_many([build_key(99)])
    store.close()
    assert (tmp_path / FILE_NAME).stat().st_size < 600_000


def _write_and_die(path: Path) -> None:
    import os

    store = DerivedStore(path)
    for at in range(200):
        store.put_many([(build_key(at), "d1", bytes(2_000))])
        if at == 150:
            os._exit(9)  # as a kill does: nothing is closed


def test_what_was_written_before_a_kill_is_there(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    process = multiprocessing.get_context("spawn").Process(target=_write_and_die, args=(path,))
    process.start()
    process.join()
    store = DerivedStore(path)
    found = store.get_many([build_key(at) for at in range(200)])
    assert len(found) == 151
    store.close()


async def test_what_was_computed_from_a_document_is_deleted_with_it(tmp_path: Path) -> None:
    (tmp_path / "gate.md").write_text("# The gate\n\nThe gate is painted green in spring.\n")
    settings = load_settings(flags={"data.directory": tmp_path / "data"}, environ={}).settings
    async with Engine(settings) as engine:
        await engine.ingest([tmp_path / "gate.md"])
        await engine.ask("Summarize the gate")
        engine._derived.flush()
        (document,) = engine.documents()
        path = tmp_path / "data" / FILE_NAME
        with closing(sqlite3.connect(path)) as other:
            assert {row[0] for row in other.execute("SELECT owner FROM derived")} == {document.id}
        await engine.delete(document.id)
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("SELECT count(*) FROM derived").fetchone() == (0,)
        assert b"painted" not in path.read_bytes()


def test_values_that_wait_to_be_written_are_deleted_too(
    store: DerivedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, is_deleting = threading.Event(), threading.Event()
    flush = store.flush

    def compute() -> list[Value]:
        started.set()
        is_deleting.wait(LONG_S)
        return [(b"k", "d1", b"v")]

    def note_and_flush() -> None:
        is_deleting.set()
        flush()

    # A deletion waits for the writer first; the value comes only then.
    monkeypatch.setattr(store, "flush", note_and_flush)
    store.put_later(compute)
    assert started.wait(LONG_S)
    store.delete_owners(["d1"])
    assert is_deleting.is_set()
    store.flush()
    assert store.get_many([b"k"]) == {}


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN; SELECT count(*) FROM derived"])
def test_what_a_busy_file_does_not_let_go_is_deleted_with_the_next(
    store: DerivedStore,
    tmp_path: Path,
    lock: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("ragstone.derived._DELETE_TIMEOUT_S", 0.1)
    store.put_many([(b"one", "d1", b"zebra"), (b"two", "d2", b"giraffe")])
    with closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as other:
        for statement in lock.split("; "):
            other.execute(statement).fetchall()
        store.delete_owners(["d1"])
        other.execute("ROLLBACK")
    assert "are deleted later" in caplog.text
    store.delete_owners(["d3"])
    assert store.get_many([b"one", b"two"]) == {b"two": b"giraffe"}
    files = list(tmp_path.glob(f"{FILE_NAME}*"))
    assert files
    assert all(b"zebra" not in file.read_bytes() for file in files)


def test_a_deletion_waits_for_a_short_writer(store: DerivedStore, tmp_path: Path) -> None:
    store.put_many([(b"one", "d1", b"zebra")])
    other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(1.0, other.execute, ["ROLLBACK"])
    timer.start()
    store.delete_owners(["d1"])
    timer.join()
    other.close()
    assert store.get_many([b"one"]) == {}


def _put_owners(store: DerivedStore, *owners: str) -> None:
    store.put_many([(build_key(owner), owner, b"v") for owner in owners])


def _list_owners(store: DerivedStore) -> set[str]:
    with closing(sqlite3.connect(store._path)) as other:
        return {owner for (owner,) in other.execute("SELECT owner FROM derived")}


async def test_only_what_was_removed_takes_its_values_along(tmp_path: Path) -> None:
    flags = {"data.directory": tmp_path / "data", "ingest.old_version_days": 0}
    file = tmp_path / "gate.md"
    async with Engine(load_settings(flags=flags, environ={}).settings) as engine:
        store = engine._derived
        file.write_text("The gate is green.")
        (first,) = (await engine.ingest([file])).files
        first_id = str(first.document_id)
        _put_owners(store, first_id, "killed", "answers of default", "answers of other")
        (tmp_path / "fence.md").write_text("The fence is white.")
        await engine.ingest([tmp_path / "fence.md"])
        assert _list_owners(store) == {
            first_id, "killed", "answers of default", "answers of other",
        }  # fmt: skip
        file.write_text("The gate is blue.")
        await engine.ingest([file])
        assert _list_owners(store) == {"killed", "answers of other"}
        engine.intake.resume_uploads()
        assert _list_owners(store) == set()
        (document, *_) = engine.documents()
        _put_owners(store, document.id, "answers of other")
        engine.intake.resume_uploads()
        assert _list_owners(store) == {document.id, "answers of other"}
        _put_owners(store, "answers of default")
        await engine.delete_collection("default")
        assert _list_owners(store) == {"answers of other"}


async def test_an_upload_that_is_stored_does_not_fail_because_a_store_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ragstone.derived._DELETE_TIMEOUT_S", 0.1)

    def write(colour: str) -> Upload:
        path = tmp_path / f"{colour}.md"
        path.write_text(f"The gate is {colour}.")
        return Upload(path, "gate.md")

    flags = {"data.directory": tmp_path / "data", "ingest.old_version_days": 0}
    async with Engine(load_settings(flags=flags, environ={}).settings) as engine:
        await engine.ingest_uploads([write("green")])
        _put_owners(engine._derived, "answers of default")
        with closing(sqlite3.connect(tmp_path / "data" / FILE_NAME)) as other:
            other.execute("BEGIN IMMEDIATE")
            await engine.ingest_uploads([write("blue")], upload_id="two")
        assert "are deleted later" in caplog.text

        def refuse(*, before: float) -> dict[str, str]:
            raise StoreBusyError(f"busy since {before}")

        monkeypatch.setattr(engine.records, "delete_expired_versions", refuse)
        await engine.ingest_uploads([write("red")], upload_id="three")
        found = [engine.records.upload(one)["status"] for one in ("two", "three")]
        assert found == ["finished", "finished"]
