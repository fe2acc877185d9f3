"""A data directory in one file, taken while it is in use, and back again.

The file is a tar archive with the catalog and the originals. The index is not in it: it is built
again from the catalog, without a model, because every chunk is stored with its vector.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sqlalchemy import text

from ragstone import __version__
from ragstone.catalog.database import Database
from ragstone.errors import RagstoneError, StoreError
from ragstone.files import sync_file, writing
from ragstone.protocols import Catalog, Embedder, Index
from ragstone.system import sync_directory

_CATALOG, _LABEL = "catalog.db", "backup.json"
_ORIGINAL = re.compile(r"originals/[0-9a-f]{2}/[0-9a-f]{64}")
_LOCK_SECONDS = 10.0
_PIECE = 1 << 20


def backup(directory: Path, target: Path) -> int:
    """Write a consistent copy of the catalog and the originals; gives the size in bytes."""
    if not (directory / _CATALOG).is_file():
        raise StoreError(
            f"There is no catalog in '{directory}'.",
            hint="Choose the data directory with --data. PostgreSQL is backed up with pg_dump.",
        )
    try:
        return _backup(directory, target)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(
            f"The backup '{target}' cannot be written: {error}.",
            hint="Check the disk and its permissions; the data directory is as it was.",
        ) from error


def restore(source: Path, directory: Path) -> dict[str, Any]:
    """Put a backup into an empty data directory; gives the backup's label."""
    directory.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".restore-", dir=directory))
    try:
        with writing(directory, timeout_s=_LOCK_SECONDS):
            if (directory / _CATALOG).exists():
                raise StoreError(
                    f"The data directory '{directory}' holds a catalog already.",
                    hint="Restore into an empty directory: --data DIR.",
                )
            label = _unpacked(source, staging)
            _check(staging, label, source)
            # What an earlier catalog left would be played back into this one.
            for name in ("catalog.db-wal", "catalog.db-shm"):
                (directory / name).unlink(missing_ok=True)
            if (staging / "originals").exists():
                shutil.copytree(staging / "originals", directory / "originals", dirs_exist_ok=True)
            # Last, because with it the directory counts as filled.
            (staging / _CATALOG).replace(directory / _CATALOG)
            sync_directory(directory)
        return label
    except (OSError, tarfile.TarError, ValueError, KeyError) as error:
        raise StoreError(
            f"The backup '{source}' cannot be read: {error}.",
            hint="Take a file that `ragstone backup` wrote; nothing was changed.",
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _backup(directory: Path, target: Path) -> int:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".backup-") as folder:
        copy = Path(folder, _CATALOG)
        _copy_database(directory / _CATALOG, copy)
        originals = list(_originals(directory))
        label = {
            "ragstone": __version__,
            "created_at": time.time(),
            "catalog_sha256": _sha256(copy),
            "catalog_bytes": copy.stat().st_size,
        }
        written = Path(folder, "written.tar")
        with tarfile.open(written, "w") as archive:
            _add_bytes(archive, _LABEL, json.dumps(label).encode())
            archive.add(copy, _CATALOG)
            for name, path in originals:
                with suppress(FileNotFoundError):  # deleted since; the copy does not need it
                    archive.add(path, name, recursive=False)
        sync_file(written)
        written.replace(target)
    return target.stat().st_size


def _copy_database(source: Path, target: Path) -> None:
    """SQLite's own online copy: consistent even while another process writes."""
    given = sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)
    copy = sqlite3.connect(target)
    try:
        given.backup(copy)
    finally:
        copy.close()
        given.close()


def _originals(directory: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted((directory / "originals").glob("??/*")):
        name = path.relative_to(directory).as_posix()
        if _ORIGINAL.fullmatch(name):
            yield name, path


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _unpacked(source: Path, staging: Path) -> dict[str, Any]:
    """Copy out the members we know by their exact names; anything else in the file is ignored."""
    label: dict[str, Any] = {}
    with tarfile.open(source) as archive:
        for member in archive:
            known = member.name in (_CATALOG, _LABEL) or _ORIGINAL.fullmatch(member.name)
            content = archive.extractfile(member) if member.isfile() and known else None
            if content is None:
                continue
            if member.name == _LABEL:
                label = json.loads(content.read(_PIECE))
                continue
            target = staging / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(content, file, _PIECE)
                file.flush()
                os.fsync(file.fileno())
    return label


def _check(staging: Path, label: dict[str, Any], source: Path) -> None:
    catalog = staging / _CATALOG
    sound = catalog.is_file() and _sha256(catalog) == label.get("catalog_sha256")
    if not sound or any(_sha256(path) != path.name for _, path in _originals(staging)):
        raise StoreError(
            f"The backup '{source}' is damaged: it does not hold what was saved.",
            hint="Take another backup file; nothing was changed.",
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


State: TypeAlias = Literal["ok", "repaired", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    state: State
    detail: str


def examine(
    catalog: Catalog, database: Database, index: Index, embedder: Embedder, *, repair: bool
) -> Iterator[Finding]:
    """Look at the catalog, the model, and the index of every collection."""
    yield _database(database)
    yield _embedder(embedder)
    for collection in catalog.collections():
        held = catalog.embedder_of(collection)
        if held != embedder.name:
            yield Finding(
                f"collection {collection}", "wrong",
                f"embedded with '{held}', but '{embedder.name}' is in use",
            )  # fmt: skip
            continue
        yield _collection(catalog, index, collection, repair=repair)


def _database(database: Database) -> Finding:
    if not database.is_sqlite:
        with database.reading() as connection:
            connection.execute(text("SELECT 1"))
        return Finding("catalog", "ok", f"PostgreSQL answers at {database.where}")
    with database.reading() as connection:
        verdict = str(connection.execute(text("PRAGMA quick_check(1)")).scalar())
    if verdict == "ok":
        return Finding("catalog", "ok", f"{database.where} is sound")
    return Finding("catalog", "wrong", f"{database.where}: {verdict}; restore a backup")


def _embedder(embedder: Embedder) -> Finding:
    try:
        vectors = embedder.embed(["Is anybody there?"])
    except RagstoneError as error:
        return Finding("embedder", "wrong", str(error))
    if vectors.shape == (1, embedder.dimension):
        return Finding("embedder", "ok", f"{embedder.name}, {embedder.dimension} dimensions")
    return Finding("embedder", "wrong", f"{embedder.name} gave {vectors.shape[1]} dimensions")


def _collection(catalog: Catalog, index: Index, collection: str, *, repair: bool) -> Finding:
    subject = f"collection {collection}"
    index.refresh(collection)
    kept = catalog.counts(collection)
    found = index.counts(collection)
    what = f"{kept.documents:,} documents, {kept.chunks:,} chunks"
    if (found.dense, found.keyword) == (kept.chunks, kept.chunks):
        return Finding(subject, "ok", what)
    lacking = f"the index has {found.dense:,} vectors and {found.keyword:,} texts"
    if not repair:
        return Finding(subject, "wrong", f"{what}, but {lacking}")
    index.rebuild(collection)
    return Finding(subject, "repaired", f"{what}; {lacking} and was built again")
