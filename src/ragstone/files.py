"""The data directory: who may write in it, and how a file in it is replaced."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ragstone.errors import StoreBusyError, StoreError
from ragstone.system import sync_directory


def prepare(directory: Path) -> Path:
    """Make the data directory, or say why it cannot be used."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise StoreError(
            f"The data directory '{directory}' cannot be written: {error.strerror}.",
            hint="Choose another with --data DIR or RAGSTONE_DATA.",
        ) from error
    return directory


@contextmanager
def writing(directory: Path, *, timeout_s: float) -> Iterator[None]:
    """Hold the one writer's place. The lock is the operating system's and dies with its holder."""
    directory.mkdir(parents=True, exist_ok=True)
    lock = FileLock(directory / "writer.lock")
    try:
        lock.acquire(timeout=timeout_s)
    except Timeout as error:
        raise StoreBusyError(
            f"Another process has been writing in '{directory}' for more than {timeout_s:g} s.",
            hint="Wait for it to end, or raise RAGSTONE_DATA_LOCK_TIMEOUT_S.",
        ) from error
    try:
        yield
    finally:
        lock.release()


def replace_file(path: Path, content: bytes) -> None:
    """Write a file in one step: after a crash it holds the old content or the new, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def sync_file(path: Path) -> None:
    """Make what was written to a file durable."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
