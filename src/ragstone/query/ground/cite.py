"""The markers of an answer: kept whole while streaming, then resolved to spans of documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from ragstone.query.check.overlap import word_overlap
from ragstone.sentences import sentence_spans
from ragstone.types import Citation, Source

MARKER = re.compile(
    r"\[Sources? (\d{1,4}(?:\s*(?:,|and|&)\s*(?:Sources? )?\d{1,4})*)\]", re.IGNORECASE
)
_NUMBER = re.compile(r"\d+")
_BRACKET = re.compile(r"[\[\]]")
# Longer than any marker: an open bracket that has not closed by then is text.
_LONGEST_MARKER = 80


@dataclass(slots=True)
class MarkerStream:
    """Passes text on as it comes, but a marker only whole, and only if it points somewhere.

    Every marker leaves in one form, `[Source N]` per source, so that what was streamed is the
    answer, letter for letter.
    """

    source_count: int
    dangling: list[str] = field(default_factory=list)
    _held: str = ""

    def feed(self, piece: str) -> str:
        self._held = self._cleaned(self._held + piece)
        ready, self._held = _split_open_bracket(self._held)
        return ready

    def close(self) -> str:
        ready, self._held = self._held, ""
        return ready

    def _cleaned(self, text: str) -> str:
        # Once more as long as something changes: "[Source [Source 9]0]" without its inner marker
        # is a marker.
        while (cleaned := MARKER.sub(self._rewritten, text)) != text:
            text = cleaned
        return text

    def _rewritten(self, match: re.Match[str]) -> str:
        numbers = [int(number) for number in _NUMBER.findall(match[1])]
        good = [number for number in numbers if 1 <= number <= self.source_count]
        if len(good) < len(numbers):
            self.dangling.append(match[0])
        return "".join(f"[Source {number}]" for number in dict.fromkeys(good))


def _split_open_bracket(text: str) -> tuple[str, str]:
    """What can be passed on, and what may be the beginning of a marker."""
    open_at: list[int] = []
    for match in _BRACKET.finditer(text):
        if match[0] == "[":
            open_at.append(match.start())
        elif open_at:
            open_at.pop()
    for at in open_at:
        if len(text) - at <= _LONGEST_MARKER:
            return text[:at], text[at:]
    return text, ""


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer, where it stands, and the sources that it names."""

    text: str
    start: int
    end: int
    numbers: tuple[int, ...]


def statements(answer: str) -> Iterator[Statement]:
    """The sentences of an answer; a marker belongs to the sentence before it."""
    plain, offsets = _without_markers(answer)
    spans = sentence_spans(plain)
    for (start, end), following in zip_longest(spans, spans[1:]):
        begin = offsets[start]
        reach = offsets[following[0]] if following else len(answer)
        numbers = [int(n) for match in MARKER.finditer(answer, begin, reach)
                   for n in _NUMBER.findall(match[1])]  # fmt: skip
        yield Statement(plain[start:end], begin, offsets[end - 1] + 1,
                        tuple(dict.fromkeys(numbers)))  # fmt: skip


def _without_markers(answer: str) -> tuple[str, list[int]]:
    """The answer's own words, and for each of their characters its offset in the answer."""
    offsets: list[int] = []
    position = 0
    for match in MARKER.finditer(answer):
        # The space before a marker goes with it, so that "fact [Source 1]." reads "fact."
        end = match.start()
        while end > position and answer[end - 1] == " ":
            end -= 1
        offsets.extend(range(position, end))
        position = match.end()
    offsets.extend(range(position, len(answer)))
    return "".join(answer[at] for at in offsets), offsets


def resolve(statement: Statement, sources: Sequence[Source]) -> Iterator[Citation]:
    """Each source that a statement names, at the sentence that supports it best."""
    for number in statement.numbers:
        source = sources[number - 1]
        start, end = best_snippet(statement.text, source.text)
        chunk = source.hit.chunk
        yield Citation(
            number=number,
            document_id=chunk.document_id,
            document_name=chunk.document_name,
            page=chunk.page,
            chunk_id=chunk.id,
            start=chunk.start + start,
            end=chunk.start + end,
            snippet=source.text[start:end],
            relevance_score=source.hit.score,
        )


def best_snippet(claim: str, text: str) -> tuple[int, int]:
    """The sentence of a text that shares most with a claim; the first of equals."""
    spans = sentence_spans(text) or [(0, len(text))]
    return max(spans, key=lambda span: word_overlap(claim, text[span[0] : span[1]]))
