"""Define what a loader takes and returns: bytes → `LoadedDocument` → chunks.

A loaded document is one text, and its structure as offsets into that text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from ragstone.types import Chunk


@dataclass(frozen=True, slots=True)
class Heading:
    """Locate a heading: its level from 1, its title, and the start of its line.

    Level 0 is the title of the document, above all others; its start is -1 if the text lacks it.
    """

    level: int
    title: str
    start: int


@dataclass(frozen=True, slots=True)
class Block:
    """Mark a span that should stay whole: a table, a code listing. A `comment` is not indexed."""

    content_type: str
    start: int
    end: int
    header: str = ""
    """The row of column names, where it stands above another part of the same table."""


@dataclass(frozen=True, slots=True)
class LineBox:
    """Locate a line: its span of the text, and its box in points from the lower left corner."""

    page: int
    start: int
    end: int
    left: float
    bottom: float
    right: float
    top: float


UNREADABLE_PAGES = "unreadable_pages"
"""Names the pages, in the metadata, whose characters the file does not tell."""


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """Hold one text, and the structure found in it as offsets into that text."""

    text: str
    media_type: str
    page_starts: tuple[int, ...] = ()
    headings: tuple[Heading, ...] = ()
    blocks: tuple[Block, ...] = ()
    lines: tuple[LineBox, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParsedPart:
    """Hold one document of a file, or the error that stopped its parsing.

    `member` is its path inside an archive or a mail; empty for the file itself.
    """

    member: str
    sha256: str
    loaded: LoadedDocument | None = None
    chunks: tuple[Chunk, ...] | None = None
    error: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """Hold a file from inside another file. Its name is only shown, never used as a path."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Set the password and the limits of a loader."""

    name: str = ""
    password: str | None = None
    ocr: bool = False
    max_pages: int = 5_000
    max_unpacked_bytes: int = 1_000_000_000
    max_depth: int = 3
    max_members: int = 20_000


class Loader(Protocol):
    """Turn the bytes of one format into text with structure."""

    media_type: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument: ...


class Unpacker(Protocol):
    """Yield the files inside an archive or a mail, one at a time."""

    media_type: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]

    def unpack(self, content: bytes, options: LoadOptions) -> Iterator[Member]: ...
