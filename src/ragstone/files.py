"""Create the data directory, lock it for one writer, and replace files in it safely."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ragstone.errors import InputError, StoreBusyError, StoreError
from ragstone.system import sync_directory


class OwnConnection(sqlite3.Connection):
    """Close the file when nobody holds the connection any more: from 3.13 on Python complains."""

    def __del__(self) -> None:
        with suppress(sqlite3.Error):  # it was never opened
            self.close()


def create_data_directory(directory: Path) -> Path:
    """Create the data directory and check that it can be written."""
    try:
        if directory.is_file():
            raise StoreError(
                f"The data directory '{directory}' is a file, not a directory.",
                hint="Choose another directory with --data DIR or RAGSTONE_DATA.",
            )
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise StoreError(
            f"The data directory '{directory}' cannot be written: {error.strerror}.",
            hint="Choose another directory with --data DIR or RAGSTONE_DATA.",
        ) from error
    return directory


@contextmanager
def hold_writer_lock(
    directory: Path, *, timeout_s: float, name: str = "writer.lock"
) -> Iterator[None]:
    """Hold a lock of a directory. The operating system releases it when the process ends."""
    directory.mkdir(parents=True, exist_ok=True)
    lock = FileLock(directory / name)
    try:
        lock.acquire(timeout=timeout_s)
    except Timeout as error:
        raise StoreBusyError(
            f"Another process has been writing in '{directory}' for more than {timeout_s:g} s.",
            hint="Wait for that process to end, or raise RAGSTONE_DATA_LOCK_TIMEOUT_S.",
        ) from error
    try:
        yield
    finally:
        lock.release()


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically: after a crash it has either the old or the new content."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_file(path: Path) -> None:
    """Flush a file to the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


_COLLECTION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_collection(name: str) -> str:
    """Return the name of a collection, or raise an error: it becomes the name of a folder."""
    if not _COLLECTION_NAME.fullmatch(name) or name.endswith(".lock"):
        raise InputError(
            f"Invalid collection name '{name}'.",
            hint="Use at most 100 letters, digits, dots, dashes and underscores.",
        )
    return name
