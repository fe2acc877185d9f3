"""Sentence boundaries as offsets: the grain at which text is cut, quoted and checked."""

from __future__ import annotations

import re
from functools import lru_cache

import sentencex

# Ends that sentencex would join over: a blank line, the line of a Markdown heading, a row of a
# table, the line before an item of a list.
_BREAK = re.compile(
    r"\n[ \t]*\n"
    r"|\|[ \t]*\n"
    r"|\n(?=[ \t]*(?:\||#{1,6} |[-*+•] |\d{1,3}[.)] ))"
    r"|(?m:^#{1,6} [^\n]*\n)"
)


def sentence_spans(text: str, language: str = "en") -> list[tuple[int, int]]:
    """The span of every sentence, without the white space around it, in order."""
    return list(_sentence_spans(text, language))


# Answering, citing and checking cut the same passages, one question after the other.
@lru_cache(maxsize=8_192)
def _sentence_spans(text: str, language: str) -> tuple[tuple[int, int], ...]:
    spans: list[tuple[int, int]] = []
    begin = 0
    for end in [*(match.end() for match in _BREAK.finditer(text)), len(text)]:
        for sentence in sentencex.get_sentence_boundaries(language, text[begin:end]):
            span = _trimmed(text, begin + sentence["start_index"], begin + sentence["end_index"])
            if span[0] < span[1]:
                spans.append(span)
        begin = end
    return tuple(spans)


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
