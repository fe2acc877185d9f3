"""Define the outcome of an ingest run, file by file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class IngestedFile:
    """Hold the outcome of one file of an ingest run."""

    name: str
    outcome: Literal["added", "updated", "unchanged", "failed", "removed", "skipped"]
    document_id: str | None = None
    chunk_count: int = 0
    error: str | None = None
    hint: str = ""


@dataclass(frozen=True, slots=True)
class FileProgress:
    """The stage of a file that is not stored yet."""

    name: str
    stage: Literal["reading", "embedding"]
    chunks_done: int = 0
    """The number of chunks that have their vectors; 0 of 0 while that is not known."""
    chunk_count: int = 0


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Hold the outcome of every file of an ingest run, in the order of storing."""

    collection: str
    files: tuple[IngestedFile, ...]
    embedded_chunks: int = 0
    """How many chunks were embedded; known texts are not embedded again."""
    seconds: float = 0.0
    peak_bytes: int = 0
    """The peak memory of this process and of the parser processes, added up."""
    hint: str = ""
    """What would make these documents easier to find, e.g. an embedder of their language."""
    stored_chunks: int = 0
    """How many chunks the whole collection holds after the run."""
    left_out: tuple[str, ...] = ()
    """Names of files below a folder whose type is not read."""

    def of(self, outcome: str) -> tuple[IngestedFile, ...]:
        """Return the files with this outcome."""
        return tuple(file for file in self.files if file.outcome == outcome)

    @property
    def chunk_count(self) -> int:
        return sum(file.chunk_count for file in self.files)
