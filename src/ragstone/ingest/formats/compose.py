"""Build a document as Markdown-like text and record where its structure stands in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragstone.blocks import Block, Heading, LoadedDocument
from ragstone.ingest.formats.grid import Spans, build_table, format_row, format_table

# Control characters, lone surrogates and non-characters: no reader wants them and some
# databases refuse them.
_UNWANTED = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_SPACES = re.compile(r"[ \t\u00a0]+")


def clean_text(text: str) -> str:
    """Turn all line ends into line feeds and drop characters that cannot be shown."""
    return _UNWANTED.sub("", _LINE_ENDS.sub("\n", text))


def join_lines(text: str) -> str:
    """Put a text on one line, with single spaces."""
    return " ".join(clean_text(text).split())


class Composer:
    """Take the parts of a document in reading order; `finish` returns the document."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._headings: list[Heading] = []
        self._blocks: list[Block] = []
        self._page_starts: list[int] = []
        self._pages_to_begin = 0
        self._in_list = False

    def _write(self, text: str, *, gap: str = "\n\n") -> int:
        """Append a part after a gap and return its start."""
        if self._length:
            self._parts.append(gap)
            self._length += len(gap)
        start = self._length
        self._begin_pages()
        self._parts.append(text)
        self._length += len(text)
        self._in_list = False
        return start

    def begin_page(self) -> None:
        """Begin a new page with the next part."""
        self._pages_to_begin += 1

    def _begin_pages(self) -> None:
        """Begin pages at the first part written on them; an empty one begins with the next."""
        self._page_starts.extend([self._length] * self._pages_to_begin)
        self._pages_to_begin = 0

    def add_heading(self, level: int, title: str) -> None:
        """Add a heading. Level 0 is the document's title, if it comes before all other headings."""
        title = join_lines(title)
        if title:
            level = min(6, max(level, 1 if self._headings else 0))
            start = self._write(f"{'#' * max(1, level)} {title}")
            self._headings.append(Heading(level, title, start))

    def add_paragraph(self, text: str) -> None:
        lines = (_SPACES.sub(" ", line).strip() for line in clean_text(text).split("\n"))
        text = "\n".join(line for line in lines if line)
        if text:
            self._write(text)

    def add_item(self, text: str, *, depth: int = 0, marker: str = "-") -> None:
        """Add an item of a list; consecutive items stand line by line."""
        text = join_lines(text)
        if text:
            gap = "\n" if self._in_list else "\n\n"
            self._write(f"{'  ' * depth}{marker} {text}", gap=gap)
            self._in_list = True

    def add_table(
        self,
        rows: Sequence[Sequence[str]],
        spans: Sequence[Spans] | None = None,
        *,
        head_rows: int | None = None,
        header: Sequence[str] = (),
    ) -> tuple[str, ...]:
        """Add a table and return the names of its columns.

        `header` names them where they stand above another part of the same table.
        """
        cells = [[join_lines(cell) for cell in row] for row in rows]
        table = build_table(cells, spans, head_rows=0 if header else head_rows)
        for caption in table.captions:
            self.add_paragraph(caption)
        above = format_row(header) if header else ""
        self._add_block("table", format_table(table), header=above)
        return table.header or tuple(header)

    def add_code(self, text: str) -> None:
        self._add_block("code", clean_text(text).strip("\n"))

    def _add_block(self, content_type: str, text: str, *, header: str = "") -> None:
        if text.strip():
            start = self._write(text)
            self._blocks.append(Block(content_type, start, start + len(text), header))

    def finish(self, media_type: str, metadata: Mapping[str, Any] | None = None) -> LoadedDocument:
        self._begin_pages()
        return LoadedDocument(
            "".join(self._parts),
            media_type,
            page_starts=tuple(self._page_starts),
            headings=tuple(self._headings),
            blocks=tuple(self._blocks),
            metadata={key: value for key, value in (metadata or {}).items() if value},
        )
