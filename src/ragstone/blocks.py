"""Reading documents: what a loader is given, what it gives, and the verbs of it.

bytes → `Loaded` (one text, and its structure as offsets into that text) → chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from ragstone.types import Chunk


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a document: its level from 1, its title, and where its line begins."""

    level: int
    title: str
    start: int


@dataclass(frozen=True, slots=True)
class Block:
    """A span that should not be cut: a table, a code listing."""

    content_type: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LineBox:
    """A line on a page: its span of the text, and its box in points from the lower left corner."""

    page: int
    start: int
    end: int
    left: float
    bottom: float
    right: float
    top: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a loader read: one text, and the structure found in it as offsets into that text."""

    text: str
    media_type: str
    page_starts: tuple[int, ...] = ()
    headings: tuple[Heading, ...] = ()
    blocks: tuple[Block, ...] = ()
    lines: tuple[LineBox, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Member:
    """A file inside a file. Its name is shown to people and never used as a path."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What a loader may be told, and the bounds that it keeps."""

    name: str = ""
    password: str | None = None
    ocr: bool = False
    max_pages: int = 5_000
    max_unpacked_bytes: int = 1_000_000_000
    max_depth: int = 3
    max_members: int = 20_000


class Loader(Protocol):
    """The bytes of one format to text with structure."""

    media_type: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]

    def load(self, content: bytes, options: LoadOptions) -> Loaded: ...


class Unpacker(Protocol):
    """The bytes of an archive or a mail to the files inside, one at a time."""

    media_type: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]

    def unpack(self, content: bytes, options: LoadOptions) -> Iterator[Member]: ...


class Splitter(Protocol):
    """A loaded document to chunks whose offsets point into its text."""

    def split(self, loaded: Loaded, *, document_id: str, document_name: str) -> list[Chunk]: ...
