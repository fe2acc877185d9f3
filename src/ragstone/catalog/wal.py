"""Notice when damage in SQLite's write-ahead log has cost committed transactions.

After a kill the newest transactions are only in the log. SQLite reads it up to the first frame that
does not match its checksum and silently leaves out the rest: right for a transaction that was cut
off, wrong for a flipped bit in the middle. Here the commits that the log shows are compared with
those that SQLite has read. The format is at https://www.sqlite.org/fileformat2.html#walformat.
"""

from __future__ import annotations

import logging
import sqlite3
import struct
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from ragstone.errors import StoreError

log = logging.getLogger(__name__)

DAMAGED_SUFFIX = "-wal.damaged"
_HEADER, _FRAME = struct.Struct(">8I"), struct.Struct(">6I")
_MAX_FRAME_OFFSET = 16  # of the number of readable frames in the shared index of the log


@dataclass(frozen=True, slots=True)
class _Log:
    """The commits of the log's newest generation, by the number of their last frame."""

    content: bytes
    generation: bytes
    commits: tuple[int, ...]


def refuse_damaged_log(path: Path) -> None:
    """Raise a StoreError if a database has lost transactions by damage in its log.

    A copy of the log is kept: SQLite deletes it at the next opportunity.
    """
    kept = path.with_name(path.name + DAMAGED_SUFFIX)
    lost = 0
    # Without a log there is nothing to lose; the first transaction explains other errors.
    with suppress(OSError, sqlite3.Error, struct.error):
        lost = 2 if kept.exists() else _count_lost_commits(path, kept)
    if lost > 1:
        raise StoreError(
            f"The log of the catalog '{path}' is damaged: its last changes are lost.",
            hint=f"Restore a backup. To go on without these changes, delete '{kept.name}'.",
        )
    if lost:
        # Power was lost while it was written, or a bit of it has flipped: both look the same.
        log.warning("the last transaction in the log of the catalog is incomplete and left out")


def _count_lost_commits(path: Path, kept: Path) -> int:
    before = _read_log(path)
    if before is None:
        return 0
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        readable = _read_max_frame(path)
        after = _read_log(path)
    # Another process may have begun the log anew meanwhile.
    if after is None or after.generation != before.generation:
        return 0
    lost = sum(commit > readable for commit in before.commits)
    if lost > 1:
        with suppress(OSError):  # the loss is reported in any case
            kept.write_bytes(before.content)
    return lost


def _read_max_frame(path: Path) -> int:
    with path.with_name(f"{path.name}-shm").open("rb") as file:
        file.seek(_MAX_FRAME_OFFSET)
        return int(struct.unpack("=I", file.read(4))[0])


def _read_log(path: Path) -> _Log | None:
    """Read the log of a database; None if it holds no frames that count."""
    with path.open("rb") as file:
        page_bytes = int(struct.unpack(">16xH", file.read(18))[0])
    step = _FRAME.size + (65_536 if page_bytes == 1 else page_bytes)
    content = path.with_name(f"{path.name}-wal").read_bytes()
    if len(content) < _HEADER.size + step:
        return None
    header = _HEADER.unpack_from(content)
    places = range(_HEADER.size, len(content) - step + 1, step)
    frames = [_FRAME.unpack_from(content, at) for at in places]
    # The newest generation, also when one of these three is damaged.
    salts = Counter([header[4:6], *(frame[2:4] for frame in frames[:2])]).most_common(1)[0][0]
    if header[4] == (salts[0] + 1) % 2**32:
        return None  # begun anew: what follows the header is in the database already
    commits = [at for at, frame in enumerate(frames, 1) if frame[1] and frame[2:4] == salts]
    return _Log(content, content[: _HEADER.size], tuple(commits))
