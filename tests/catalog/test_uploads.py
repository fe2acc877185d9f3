"""Files are found again by their paths, and stored ones are deleted when nothing needs them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from ragstone.catalog import originals
from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.jobs import UploadJobs
from ragstone.catalog.originals import mark_unused
from ragstone.catalog.uploads import SqlIntakeRecords
from ragstone.errors import StoreUnavailableError
from ragstone.protocols import AcceptedUpload, FileRecord, ReceivedFile

from ..patience import LONG_S


@pytest.mark.parametrize(
    ("root", "inside", "outside"),
    [
        ("/inbox", "/inbox/a/gate.txt", "/inbox-old/gate.txt"),
        ("mill:/inbox", "mill:/inbox/a/gate.txt", "/inbox/a/gate.txt"),
        ("mill:/inbox", "mill:/inbox/gate.txt", "mill-2:/inbox/gate.txt"),
        ("mill:D:\\in", "mill:D:\\in\\gate.txt", "D:\\in\\gate.txt"),
        ("C:\\inbox", "C:\\inbox\\a\\gate.txt", "C:\\inbox-old\\gate.txt"),
        ("C:\\", "C:\\gate.txt", "D:\\gate.txt"),
        ("\\\\server\\share", "\\\\server\\share\\gate.txt", "\\\\server\\shared\\gate.txt"),
    ],
)
def test_the_files_below_a_folder_are_those_in_it(
    tmp_path: Path, root: str, inside: str, outside: str
) -> None:
    with closing(SqlCatalog.in_directory(tmp_path)) as catalog:
        records = SqlIntakeRecords(catalog)
        paths = (inside, outside)
        records.save_files("default", [FileRecord(p, 1, 1, "sha", "f", "indexed") for p in paths])
        assert list(records.files_below("default", root)) == [inside]


ONE, TWO = "a" * 64, "b" * 64


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    with closing(SqlCatalog.in_directory(tmp_path)) as catalog:
        with catalog.write_transaction() as connection:
            mark_unused(connection, ONE)
            mark_unused(connection, ONE)
        yield catalog


def accept(catalog: SqlCatalog, sha256: str, stored: list[str]) -> threading.Thread:
    """Accept an upload in another thread, as another request does."""
    upload = AcceptedUpload(sha256[:5], "c", (ReceivedFile("a.txt", sha256, 1),), {})
    jobs = UploadJobs(catalog, lambda: "server", 30.0)
    thread = threading.Thread(
        target=jobs.accept, args=(upload, lambda: stored.append(sha256)), kwargs={"keep": False}
    )
    thread.start()
    return thread


def delete_unused(catalog: SqlCatalog, remove: object) -> None:
    SqlIntakeRecords(catalog).delete_unused_files(remove, keep_read=True)  # type: ignore[arg-type]


def test_uploads_do_not_wait_while_a_store_deletes(catalog: SqlCatalog) -> None:
    stored: list[str] = []
    removed: list[str] = []

    def remove(sha256: str) -> None:
        accept(catalog, TWO, stored).join(LONG_S)
        removed.append(sha256)
        assert stored == [TWO], "it was stored while the deletion was under way"

    delete_unused(catalog, remove)
    assert removed == [ONE]
    delete_unused(catalog, remove)
    assert removed == [ONE]


def test_the_same_file_is_stored_only_after_its_deletion(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    threads: list[threading.Thread] = []
    is_waiting = threading.Event()

    def sleep(seconds: float) -> None:
        if threading.current_thread() in threads:
            is_waiting.set()
        time.sleep(seconds)

    # The upload has found the deletion under way as soon as it sleeps for the first time.
    monkeypatch.setattr(
        originals, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic, time=time.time)
    )

    def remove(sha256: str) -> None:
        threads.append(accept(catalog, sha256, events))
        assert is_waiting.wait(LONG_S)
        events.append("deleted")

    delete_unused(catalog, remove)
    threads[0].join(LONG_S)
    assert events == ["deleted", ONE]
    delete_unused(catalog, lambda sha256: events.append("deleted again"))
    assert events == ["deleted", ONE], "the upload needs it"


def test_what_a_store_did_not_delete_is_deleted_later(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(sha256: str) -> None:
        raise StoreUnavailableError("It is away.")

    with pytest.raises(StoreUnavailableError):
        delete_unused(catalog, fail)
    removed: list[str] = []
    delete_unused(catalog, removed.append)
    assert removed == [ONE]

    def mark_again(sha256: str) -> None:
        removed.append(sha256)
        with catalog.write_transaction() as connection:
            mark_unused(connection, sha256)

    with catalog.write_transaction() as connection:
        mark_unused(connection, ONE)
    delete_unused(catalog, mark_again)
    delete_unused(catalog, removed.append)
    assert removed == [ONE] * 3, "it may have been stored again in between"
    with catalog.write_transaction() as connection:
        mark_unused(connection, ONE)
    monkeypatch.setattr(originals, "_CLAIM_S", 0.0)
    time.sleep(0.01)
    delete_unused(catalog, removed.append)
    assert removed == [ONE] * 3, "a claim that has ended begins no deletion"
