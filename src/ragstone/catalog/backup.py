"""Back up, restore and check a data directory.

A backup is a tar archive with the catalog and the originals; it can be written while the directory
is in use. The index is not in it: it is rebuilt from the catalog, without a model, because every
chunk is stored with its vector.
"""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import shlex
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sqlalchemy import text

from ragstone import __version__
from ragstone.catalog.database import Database
from ragstone.catalog.originals import Originals
from ragstone.catalog.wal import DAMAGED_SUFFIX
from ragstone.errors import (
    RagstoneError,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
)
from ragstone.files import hash_file, hold_writer_lock, sync_file
from ragstone.messages import format_count
from ragstone.protocols import Catalog, Embedder, Index, IndexCounts
from ragstone.system import sync_directory

_CATALOG, _LABEL = "catalog.db", "backup.json"
_ORIGINAL = re.compile(r"originals/[0-9a-f]{2}/[0-9a-f]{64}")
_LOCK_TIMEOUT_S = 10.0
_COPY_BYTES = 1 << 20
_TEMPORARY = ".backup-"
_UNREADABLE_HINT = "Use a file written by `ragstone backup`; nothing was changed."


def write_backup(directory: Path, target: Path) -> int:
    """Write a consistent copy of the catalog and the originals; return its size in bytes."""
    if not (directory / _CATALOG).is_file():
        raise StoreError(
            f"There is no catalog in '{directory}'.",
            hint="Choose the data directory with --data. Back up PostgreSQL with pg_dump.",
        )
    if not target.parent.is_dir():
        raise StoreError(
            f"There is no folder '{target.parent}' for the backup.",
            hint="Create it, or choose another file; the data directory is unchanged.",
        )
    try:
        _write_archive(directory, target)
        return target.stat().st_size
    except (OSError, sqlite3.Error) as error:
        raise StoreError(
            f"The backup '{target}' cannot be written: {_name_reason(error)}.",
            hint="Check the disk and its permissions; the data directory is unchanged.",
        ) from error


def restore_backup(source: Path, directory: Path) -> dict[str, Any]:
    """Restore a backup into an empty data directory; return the backup's label."""
    _refuse_other_file(source)
    is_new = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".restore-", dir=directory))
    try:
        with hold_writer_lock(directory, timeout_s=_LOCK_TIMEOUT_S):
            if (directory / _CATALOG).exists():
                raise StoreError(
                    f"The data directory '{directory}' has a catalog already.",
                    hint="Restore into an empty directory: --data DIR.",
                )
            label = _unpack(source, staging)
            _verify(staging, label, source)
            _change_identity(staging / _CATALOG)
            # SQLite would apply the log of an earlier catalog to this one.
            for suffix in ("-wal", "-shm", DAMAGED_SUFFIX):
                (directory / f"{_CATALOG}{suffix}").unlink(missing_ok=True)
            if (staging / "originals").exists():
                shutil.copytree(staging / "originals", directory / "originals", dirs_exist_ok=True)
            # The catalog is last: with it the directory counts as restored.
            (staging / _CATALOG).replace(directory / _CATALOG)
            sync_directory(directory)
        return label
    except (OSError, tarfile.TarError, ValueError, KeyError) as error:
        raise StoreError(
            f"The backup '{source}' cannot be read: {_name_reason(error)}.", hint=_UNREADABLE_HINT
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        if is_new and not (directory / _CATALOG).exists():
            with suppress(OSError):  # somebody else has begun to use it
                (directory / "writer.lock").unlink(missing_ok=True)
                directory.rmdir()


def _refuse_other_file(source: Path) -> None:
    """Refuse a file that is not an archive, before anything is created for it."""
    try:
        is_archive = tarfile.is_tarfile(source)
    except OSError as error:
        raise StoreError(
            f"The backup '{source}' cannot be read: {_name_reason(error)}.",
            hint="Check the path and its permissions; nothing was changed.",
        ) from error
    if not is_archive:
        raise StoreError(f"The file '{source}' is not a backup.", hint=_UNREADABLE_HINT)


def _name_reason(error: Exception) -> str:
    """Name the reason of an error, without the names of temporary files."""
    return getattr(error, "strerror", None) or str(error)


def _change_identity(catalog: Path) -> None:
    """Give a restored catalog an identity of its own: an index may be ahead of it."""
    identity = secrets.randbits(62)
    with closing(sqlite3.connect(catalog)) as connection, connection:
        connection.execute("UPDATE counters SET value = ? WHERE name = 'identity'", (identity,))
    sync_file(catalog)


def _write_archive(directory: Path, target: Path) -> None:
    _remove_leftovers(target.parent)
    with (
        tempfile.TemporaryDirectory(dir=target.parent, prefix=_TEMPORARY) as folder,
        # Files of documents that are deleted meanwhile stay: the copied catalog has them still.
        Originals(directory).keep_all(timeout_s=_LOCK_TIMEOUT_S),
    ):
        copy = Path(folder, _CATALOG)
        _copy_database(directory / _CATALOG, copy)
        originals = list(_find_originals(directory))
        label = {
            "ragstone": __version__,
            "created_at": time.time(),
            "catalog_sha256": hash_file(copy),
            "catalog_bytes": copy.stat().st_size,
        }
        temporary = Path(folder, "backup.tar")
        with tarfile.open(temporary, "w") as archive:
            content = json.dumps(label).encode()
            member = tarfile.TarInfo(_LABEL)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
            archive.add(copy, _CATALOG)
            for name, path in originals:
                archive.add(path, name, recursive=False)
        sync_file(temporary)
        temporary.replace(target)


def _remove_leftovers(folder: Path) -> None:
    """Remove what a killed backup left; one that is being written is younger than a day."""
    for path in folder.glob(f"{_TEMPORARY}*"):
        if path.stat().st_mtime < time.time() - 86_400:
            shutil.rmtree(path, ignore_errors=True)


def _copy_database(source: Path, target: Path) -> None:
    """Copy with SQLite's online backup: consistent even while another process writes."""
    with (
        closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as original,
        closing(sqlite3.connect(target)) as copy,
    ):
        original.backup(copy)


def _find_originals(directory: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted((directory / "originals").glob("??/*")):
        name = path.relative_to(directory).as_posix()
        if _ORIGINAL.fullmatch(name):
            yield name, path


def _unpack(source: Path, staging: Path) -> dict[str, Any]:
    """Extract the members with known names and ignore all others; return the label."""
    label: dict[str, Any] = {}
    with tarfile.open(source) as archive:
        for member in archive:
            known = member.name in (_CATALOG, _LABEL) or _ORIGINAL.fullmatch(member.name)
            content = archive.extractfile(member) if member.isfile() and known else None
            if content is None:
                continue
            if member.name == _LABEL:
                label = json.loads(content.read(_COPY_BYTES))
                continue
            target = staging / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(content, file, _COPY_BYTES)
                file.flush()
                os.fsync(file.fileno())
    return label


def _verify(staging: Path, label: dict[str, Any], source: Path) -> None:
    catalog = staging / _CATALOG
    is_intact = catalog.is_file() and hash_file(catalog) == label.get("catalog_sha256")
    if not is_intact or any(hash_file(path) != path.name for _, path in _find_originals(staging)):
        raise StoreError(
            f"The backup '{source}' is damaged: its content does not match its checksums.",
            hint="Use another backup file; nothing was changed.",
        )


State: TypeAlias = Literal["ok", "repaired", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Report the state of one part."""

    subject: str
    state: State
    detail: str


def check_data(
    catalog: Catalog,
    database: Database,
    indexes: Mapping[str, Index],
    embedder: Embedder,
    *,
    repair: bool,
    deep: bool = False,
) -> Iterator[Finding]:
    """Check the catalog, the embedding model, and the index of every collection.

    `indexes` are those of the collections that can be searched. With `deep` also compare the tables
    of the catalog with their indexes.
    """
    yield _check_database(database, deep=deep)
    yield _check_embedder(embedder)
    for collection in catalog.collections():
        if collection in indexes:
            yield _check_index(catalog, indexes[collection], collection, repair=repair)
        else:
            stored = catalog.embedder_of(collection)
            detail = f"embedded with '{stored}', but '{embedder.name}' is in use"
            detail += f"; run: ragstone reindex --embed --collection {shlex.quote(collection)}"
            yield Finding(f"collection {collection}", "wrong", detail)


def _check_database(database: Database, *, deep: bool) -> Finding:
    with database.read_transaction() as connection:
        if not database.is_sqlite:
            connection.execute(text("SELECT 1"))
            return Finding("catalog", "ok", "PostgreSQL answers")
        check = "integrity_check" if deep else "quick_check"
        verdict = str(connection.execute(text(f"PRAGMA {check}(1)")).scalar())
    if verdict == "ok":
        return Finding("catalog", "ok", f"{database.location} is intact")
    return Finding("catalog", "wrong", f"{database.location}: {verdict}; restore a backup")


def _check_embedder(embedder: Embedder) -> Finding:
    try:
        vectors = embedder.embed(["A short test sentence."])
    except RagstoneError as error:
        return Finding("embedder", "wrong", f"{error.message} {error.hint}".strip())
    if vectors.shape == (1, embedder.dimension):
        return Finding("embedder", "ok", f"{embedder.name}, {embedder.dimension} dimensions")
    return Finding("embedder", "wrong", f"{embedder.name} returned {vectors.shape[1]} dimensions")


def _check_index(catalog: Catalog, index: Index, collection: str, *, repair: bool) -> Finding:
    """Compare the counts of an index with those of the catalog; rebuild it if it may be repaired.

    An index that is only behind is sound: the next search brings it up to date.
    """
    subject = f"collection {collection}"
    expected = catalog.counts(collection)
    total = (
        f"{format_count(expected.documents, 'document')}, {format_count(expected.chunks, 'chunk')}"
    )
    try:
        actual, seq = _read_counts(index, collection, repair=repair)
    except (StoreBusyError, StoreUnavailableError):
        raise  # a writer at work, or a server that is away, is no damage
    except StoreError as error:
        if not repair:
            return Finding(subject, "wrong", f"{total}; {error.message} Run: ragstone doctor")
        index.rebuild(collection)
        return Finding(subject, "repaired", f"{total}; {error.message} It was rebuilt.")
    if seq is not None and seq < expected.last_change:
        return Finding(subject, "ok", f"{total}; the next search updates the index")
    if (actual.dense, actual.keyword) == (expected.chunks, expected.chunks):
        if actual.recall is not None:
            total += f", dense recall@10 {actual.recall:.3f} at depth {actual.depth:,}"
        return Finding(subject, "ok", total)
    vectors, texts = format_count(actual.dense, "vector"), format_count(actual.keyword, "text")
    difference = f"the index has {vectors} and {texts}"
    if not repair:
        return Finding(subject, "wrong", f"{total}, but {difference}; run: ragstone doctor")
    index.rebuild(collection)
    return Finding(subject, "repaired", f"{total}; {difference} and was rebuilt")


def _read_counts(index: Index, collection: str, *, repair: bool) -> tuple[IndexCounts, int | None]:
    """Return the counts of an index, and its last change where it was not brought up to date.

    An index of files is looked at before it is opened: opening it builds a damaged one again.
    """
    if (inspect := getattr(index, "inspect", None)) is not None:
        found: tuple[IndexCounts, int] = inspect(collection)
        if not repair:
            return found
    index.refresh(collection)
    return index.counts(collection), None
