"""Find and escape the markers of an answer, `[Source 2]`, and the code spans that hold none."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragstone.reading.layout import clean_for_reading
from ragstone.types import Chunk

_NUMBERS = r"\d{1,4}(?:\s*(?:,|;|and|&)\s*(?:Sources?\s*)?\d{1,4})*"
# `[Source 1]`, `(Sources 1 and 2)`, and what other systems taught models to write: `[1]`, `[^1]`,
# `【1】`. A bare number has at most two digits: `[2019]` is text.
MARKER_BY_NUMBER = re.compile(
    rf"[\[(]\s*Sources?\s*[#:]?\s*(?P<numbers>{_NUMBERS})"
    r"\s*(?:[,:;–-]\s*\D[^\[\]()\n]{0,60})?[\])]"
    r"|\[\^?(?P<bare>\d{1,2}(?:\s*[,;]\s*\d{1,2})*)\]"
    r"|【(?:Source\s*)?(?P<wide>\d{1,2}(?:\s*[,;]\s*\d{1,2})*)(?::\d+)?(?:†[^】\n]{0,60})?】",
    re.IGNORECASE,
)
MARKER_BY_CHUNK = re.compile(r"\[([\w.-]{1,80}:\d{1,6}(?:\s*[,;]\s*[\w.-]{1,80}:\d{1,6})*)\]")
# An index of an array, a link or a footnote's definition: `a[1]`, `[1](…)`, `[1]: …`.
_NOT_A_MARKER = re.compile(r"\w|\.\w|\(|:")
_SOURCE_NUMBER = re.compile(r"\b(Sources?)\s*[#:]?\s*(?=\d)", re.IGNORECASE)
CODE_EDGE = re.compile(r"`+|\n")
_FENCE = 3


def is_bare_index(text: str, start: int, end: int) -> bool:
    """Return True when a bare number in brackets at `text[start:end]` is text, not a marker."""
    zero = text[start:end].strip("[]^") == "0"
    return zero or _NOT_A_MARKER.match(text, end) is not None


def update_open_code(run: int, edge: str) -> int:
    """Return the length of the run of backticks that is open after an edge; 0 for none."""
    if edge == "\n":
        return run if run >= _FENCE else 0
    if not run:
        return len(edge)
    closes = len(edge) == run or (run >= _FENCE and len(edge) >= run)
    return 0 if closes else run


def find_code_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of code. A run of backticks closes with one as long; inline code also ends
    with its line."""
    run = start = 0
    for match in CODE_EDGE.finditer(text):
        now = update_open_code(run, match[0])
        if now and not run:
            start = match.start()
        elif run and not now:
            yield start, match.end()
        run = now
    if run:
        yield start, len(text)


def escape_markers(text: str) -> str:
    """Change text of a document that looks like a marker, so that it cannot become one.

    A number in brackets inside code stays: there it is an index.
    """
    code = list(find_code_spans(text))

    def escape(match: re.Match[str]) -> str:
        is_bare = match.re is MARKER_BY_NUMBER and match["bare"]
        if is_bare and any(start <= match.start() < end for start, end in code):
            return match[0]
        inner = _SOURCE_NUMBER.sub(r"\1 no. ", match[0][1:-1])
        return f"({inner})"

    return MARKER_BY_CHUNK.sub(escape, MARKER_BY_NUMBER.sub(escape, text))


def format_label(chunk: Chunk) -> str:
    """Return where a chunk stands, to be shown before a short quotation: its last two headings,
    or the name of its document."""
    title = clean_for_reading(" > ".join(chunk.heading_path[-2:])).text or chunk.document_name
    return " ".join(escape_markers(title).split())
