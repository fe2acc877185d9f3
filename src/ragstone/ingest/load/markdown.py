"""Markdown: the source text itself, with headings, tables and code found by a CommonMark parser."""

from __future__ import annotations

import re
from itertools import accumulate, zip_longest
from typing import Any, ClassVar

import yaml
from markdown_it import MarkdownIt

from ragstone.ingest.load.text import decode
from ragstone.reading import Block, Heading, Loaded, LoadOptions

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?P<yaml>.*?\n)---[ \t]*(?:\n|\Z)", re.DOTALL)
_BLOCKS = {"fence": "code", "code_block": "code", "table_open": "table"}


class MarkdownLoader:
    """`.md`: the offsets point into the source, so that a citation shows what the author wrote."""

    media_type: ClassVar[str] = "text/markdown"
    suffixes: ClassVar[tuple[str, ...]] = (".md", ".markdown", ".mdx")

    def load(self, content: bytes, options: LoadOptions) -> Loaded:
        text, metadata = split_front_matter(decode(content))
        line_starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        headings: list[Heading] = []
        blocks: list[Block] = []
        tokens = MarkdownIt("commonmark").enable("table").parse(text)
        for token, following in zip_longest(tokens, tokens[1:]):
            if token.map is None:
                continue
            start, end = line_starts[token.map[0]], min(line_starts[token.map[1]], len(text))
            if token.type == "heading_open" and following is not None and token.level == 0:
                headings.append(Heading(int(token.tag[1]), following.content, start))
            elif token.type in _BLOCKS:
                blocks.append(Block(_BLOCKS[token.type], start, end))
        return Loaded(text, self.media_type, headings=tuple(headings), blocks=tuple(blocks),
                      metadata=metadata)  # fmt: skip


def split_front_matter(text: str) -> tuple[str, dict[str, Any]]:
    """The text without its YAML head, and what the head says. A head that is no YAML stays text."""
    match = _FRONT_MATTER.match(text)
    if match is None:
        return text, {}
    try:
        head = yaml.safe_load(match["yaml"])
    except yaml.YAMLError:
        return text, {}
    if not isinstance(head, dict):
        return text, {}
    return text[match.end() :], {str(key): _plain(value) for key, value in head.items()}


def _plain(value: Any) -> Any:
    """YAML's values as JSON has them: dates become ISO strings."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
