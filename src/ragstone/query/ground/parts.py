"""Find the parts of an answer: lists, tables, and the labels of short quotations."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragstone.reading.layout import find_blocks
from ragstone.reading.markers import find_code_spans
from ragstone.text import find_sentence_spans

_LINE = re.compile(r"[^\n]+")
_ROW = re.compile(r"[^\s:|][^:\n|]{0,80}: \S")


def find_labels(plain: str, labels: frozenset[str]) -> list[tuple[int, int]]:
    """Return the spans of the labels that begin a line, or are one."""
    found: list[tuple[int, int]] = []
    for line in _LINE.finditer(plain):
        fitting = [one for one in labels if f"{line[0]} ".startswith(f"{one} ")]
        if fitting:
            found.append((line.start(), line.start() + len(max(fitting, key=len))))
    return found


def split_at_labels(plain: str, labels: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the sentences of a text; a label is one, whatever dots it has."""
    found: list[tuple[int, int]] = []
    position = 0
    for start, end in (*labels, (len(plain), len(plain))):
        sentences = find_sentence_spans(plain[position:start])
        found += [(position + first, position + last) for first, last in sentences]
        if start < end:
            found.append((start, end))
        position = end
    return found


def find_listing(answer: str, end: int, following: int) -> str:
    """Return the listing that a statement leads to; `following` is where the next one begins."""
    for start, stop in find_code_spans(answer):
        if end <= start and answer.startswith("```", start):
            return answer[start:stop] if stop <= following else ""
    return ""


def find_groups(answer: str) -> list[tuple[int, int, int]]:
    """Return the lists and tables of an answer: number, start, end.

    Lines such as `Adult: Day visit €16.` below each other are the rows of a table.
    """
    groups: dict[int, tuple[int, int]] = {}
    for block in find_blocks(answer):
        body = answer[block.start : block.end]
        if block.kind in ("item", "row"):
            first = groups.get(block.group, (block.start, 0))[0]
            groups[block.group] = (first, block.end)
        elif block.kind == "paragraph" and "\n" in body:
            lines = body.splitlines()
            rows = sum(bool(_ROW.match(line)) for line in lines)
            if rows >= len(lines) - 1 and rows > 1:
                groups[-1 - block.start] = (block.start, block.end)
    return [(number, start, end) for number, (start, end) in groups.items()]
