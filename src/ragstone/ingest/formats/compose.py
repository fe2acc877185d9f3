"""Writing a document down as Markdown-like text while noting where its structure stands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragstone.blocks import Block, Heading, Loaded

# Control characters, lone surrogates and non-characters: no reader wants them and some
# databases refuse them.
_UNWANTED = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_SPACES = re.compile(r"[ \t\u00a0]+")


def clean(text: str) -> str:
    """The text with line feeds only and without characters that cannot be shown."""
    return _UNWANTED.sub("", _LINE_ENDS.sub("\n", text))


def one_line(text: str) -> str:
    return " ".join(clean(text).split())


class Composer:
    """Takes the parts of a document in reading order; `loaded` gives the text with its outline."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._headings: list[Heading] = []
        self._blocks: list[Block] = []
        self._page_starts: list[int] = []
        self._pages_to_begin = 0
        self._in_list = False

    @property
    def is_empty(self) -> bool:
        return self._length == 0

    def _write(self, text: str, *, gap: str = "\n\n") -> int:
        """Append a part after a gap and return where it begins."""
        if self._length:
            self._parts.append(gap)
            self._length += len(gap)
        start = self._length
        self._begin_pages()
        self._parts.append(text)
        self._length += len(text)
        self._in_list = False
        return start

    def page(self) -> None:
        """A new page begins with what comes next."""
        self._pages_to_begin += 1

    def _begin_pages(self) -> None:
        """Pages begin at the first thing written on them, an empty one where the next begins."""
        self._page_starts.extend([self._length] * self._pages_to_begin)
        self._pages_to_begin = 0

    def heading(self, level: int, title: str) -> None:
        title = one_line(title)
        if title:
            level = min(6, max(1, level))
            self._headings.append(Heading(level, title, self._write(f"{'#' * level} {title}")))

    def paragraph(self, text: str) -> None:
        lines = (_SPACES.sub(" ", line).strip() for line in clean(text).split("\n"))
        text = "\n".join(line for line in lines if line)
        if text:
            self._write(text)

    def item(self, text: str, *, depth: int = 0, marker: str = "-") -> None:
        """One item of a list; items in a row stand line by line."""
        text = one_line(text)
        if text:
            follows = self._in_list
            self._write(f"{'  ' * depth}{marker} {text}", gap="\n" if follows else "\n\n")
            self._in_list = True

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        text = markdown_table(rows)
        if text:
            start = self._write(text)
            self._blocks.append(Block("table", start, start + len(text)))

    def code(self, text: str) -> None:
        text = clean(text).strip("\n")
        if text.strip():
            start = self._write(text)
            self._blocks.append(Block("code", start, start + len(text)))

    def loaded(self, media_type: str, metadata: Mapping[str, Any] | None = None) -> Loaded:
        self._begin_pages()
        return Loaded(
            "".join(self._parts),
            media_type,
            page_starts=tuple(self._page_starts),
            headings=tuple(self._headings),
            blocks=tuple(self._blocks),
            metadata={key: value for key, value in (metadata or {}).items() if value},
        )


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table, its first row the header; empty rows and columns are left out."""
    cells = [[one_line(cell).replace("|", "\\|") for cell in row] for row in rows]
    cells = [row for row in cells if any(row)]
    if not cells:
        return ""
    width = max(len(row) for row in cells)
    cells = [[*row, *[""] * (width - len(row))] for row in cells]
    kept = [column for column in range(width) if any(row[column] for row in cells)]
    lines = ["| " + " | ".join(row[column] for column in kept) + " |" for row in cells]
    return "\n".join([lines[0], "|" + " --- |" * len(kept), *lines[1:]])
