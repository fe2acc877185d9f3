"""A disk that is full or read-only: a clear error, and nothing that was stored is lost."""

from __future__ import annotations

import hashlib
import os
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ragstone.catalog.backup import restore_backup, write_backup
from ragstone.catalog.documents import SqlCatalog
from ragstone.errors import StoreError
from ragstone.index.local import EmbeddedIndex
from ragstone.testing.conformance import DIMENSION, EMBEDDER, make_document


def filled(directory: Path) -> SqlCatalog:
    catalog = SqlCatalog.in_directory(directory)
    catalog.add([make_document("a", ["The wind is strong."])], embedder=EMBEDDER)
    return catalog


def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path) -> None:
    filled(tmp_path).close()
    script = textwrap.dedent(f"""
        import pathlib, resource, signal
        from ragstone.errors import StoreError
        from ragstone.catalog.documents import SqlCatalog
        from ragstone.testing.conformance import EMBEDDER, make_document
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        catalog = SqlCatalog.in_directory(pathlib.Path({str(tmp_path)!r}))
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        big = make_document("b", ["word " * 20_000] * 20)
        try:
            catalog.add([big], embedder=EMBEDDER)
        except StoreError as error:
            print(error)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "full" in done.stdout or "cannot be used" in done.stdout
    catalog = SqlCatalog.in_directory(tmp_path)
    assert [document.name for document in catalog.documents("c")] == ["a"]
    catalog.close()
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 200_000


def test_a_disk_too_full_for_a_new_catalog_is_said(tmp_path: Path) -> None:
    script = textwrap.dedent(f"""
        import pathlib, resource, signal
        from ragstone.errors import StoreError
        from ragstone.catalog.documents import SqlCatalog
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        directory = pathlib.Path({str(tmp_path)!r})
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 1_000_000))
        try:
            SqlCatalog.in_directory(directory)
        except StoreError as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
        print(SqlCatalog.in_directory(directory).collections())
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    refused, after = done.stdout.splitlines()
    assert "full" in refused or "cannot be used" in refused
    assert after == "[]"


def test_a_disk_too_full_for_an_index_is_said_and_room_is_enough_to_go_on(tmp_path: Path) -> None:
    script = textwrap.dedent(f"""
        import pathlib, resource, signal
        from ragstone.errors import StoreError
        from ragstone.catalog.documents import SqlCatalog
        from ragstone.index.local import EmbeddedIndex
        from ragstone.testing.conformance import DIMENSION, EMBEDDER, make_document
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        directory = pathlib.Path({str(tmp_path)!r})
        catalog = SqlCatalog.in_directory(directory)
        catalog.add([make_document("b", ["wind %d" % n for n in range(3000)])], embedder=EMBEDDER)
        for limit in (500, 5_000, 100_000):  # the words' files, their writer thread, the vectors
            index = EmbeddedIndex(
                catalog, directory / f"index{{limit}}", dimension=DIMENSION, lock_timeout_s=5
            )
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            try:
                index.refresh("c")
            except StoreError as error:
                print("refused:", error)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            index.refresh("c")
            print(len(index.search_keyword("c", "wind", limit=9, k1=1.2, b=0.75)))
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    said = done.stdout.splitlines()
    assert said[1::2] == ["9", "9", "9"]
    assert all(line.startswith("refused: ") and "cannot be written" in line for line in said[::2])


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_a_data_directory_without_permission_is_said(tmp_path: Path) -> None:
    filled(tmp_path).close()
    warm = tmp_path / "warm"
    warm.mkdir()
    script = textwrap.dedent(f"""
        import os, pathlib
        from ragstone.errors import StoreError
        from ragstone.catalog.documents import SqlCatalog
        from ragstone.files import create_data_directory
        # Everything is imported first: root's Python may be closed to others.
        SqlCatalog.in_directory(pathlib.Path({str(warm)!r})).close()
        if os.geteuid() == 0:
            os.setegid(65534); os.seteuid(65534)
        for attempt in (create_data_directory, SqlCatalog.in_directory):
            try:
                attempt(pathlib.Path({str(tmp_path)!r}))
            except StoreError as error:
                print(error)
    """)
    tmp_path.chmod(0o500)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    tmp_path.chmod(0o700)
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize("garbage", [b"this is no database, but long enough to be one" * 99, b"x"])
def test_a_catalog_of_garbage_is_said_and_left_alone(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "catalog.db").write_bytes(garbage)
    with pytest.raises(StoreError, match="catalog"):
        SqlCatalog.in_directory(tmp_path)
    assert (tmp_path / "catalog.db").read_bytes() == garbage


def test_a_backup_comes_back_whole(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    catalog = filled(source)
    digest = hashlib.sha256(b"as it came").hexdigest()
    original = source / "originals" / digest[:2] / digest
    original.parent.mkdir(parents=True)
    original.write_bytes(b"as it came")
    assert write_backup(source, tmp_path / "b.tar") > 0  # while the catalog is open
    catalog.close()
    target.mkdir()
    (target / "catalog.db-wal").write_bytes(b"what a killed process left")
    restore_backup(tmp_path / "b.tar", target)
    again = SqlCatalog.in_directory(target)
    assert [document.name for document in again.documents("c")] == ["a"]
    index = EmbeddedIndex(again, target / "index", dimension=DIMENSION, lock_timeout_s=5)
    assert index.search_keyword("c", "wind", limit=5, k1=1.2, b=0.75)
    assert (target / "originals" / digest[:2] / digest).read_bytes() == b"as it came"
    again.close()


def test_a_backup_is_never_restored_over_a_catalog(tmp_path: Path) -> None:
    catalog = filled(tmp_path)
    write_backup(tmp_path, tmp_path / "b.tar")
    with pytest.raises(StoreError, match="has a catalog already"):
        restore_backup(tmp_path / "b.tar", tmp_path)
    catalog.close()


@pytest.mark.parametrize("damage", ["cut", "changed", "no archive"])
def test_a_damaged_backup_is_refused_and_leaves_nothing(tmp_path: Path, damage: str) -> None:
    catalog = filled(tmp_path)
    archive = tmp_path / "b.tar"
    write_backup(tmp_path, archive)
    catalog.close()
    content = archive.read_bytes()
    if damage == "cut":
        archive.write_bytes(content[: len(content) // 2])
    elif damage == "changed":
        archive.write_bytes(content.replace(b"The wind is strong.", b"The wind is absent."))
    else:
        archive.write_bytes(b"nothing of the kind")
    with pytest.raises(StoreError, match="backup"):
        restore_backup(archive, tmp_path / "new")
    assert not (tmp_path / "new" / "catalog.db").exists()


def test_a_backup_needs_a_catalog(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no catalog"):
        write_backup(tmp_path, tmp_path / "b.tar")
