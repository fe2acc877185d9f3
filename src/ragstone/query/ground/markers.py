"""The markers of an answer: found outside code, kept whole while streaming, left in one form.

Two styles are read, whatever the model was told: `[Source 2]` (also `[source 1, 2]`,
`[Sources 1 and 2]`, `[Source 1, page 3]`) and `[document_id:chunk_index]`. One is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ragstone.types import CitationStyle, Source

_BY_NUMBER = re.compile(
    r"\[\s*Sources?\s*[#:]?\s*"
    r"(\d{1,4}(?:\s*(?:,|;|and|&)\s*(?:Sources?\s*)?\d{1,4})*)"
    r"\s*(?:[,:;–-]\s*\D[^\[\]\n]{0,60})?\]",
    re.IGNORECASE,
)
_BY_CHUNK = re.compile(r"\[([\w.-]{1,80}:\d{1,6}(?:\s*[,;]\s*[\w.-]{1,80}:\d{1,6})*)\]")
_NUMBER = re.compile(r"\d+")
_BRACKET_STOP = re.compile(r"[\[\]\n]")
_SPECIAL = re.compile(r"[`\n \[]")
_CODE_EDGE = re.compile(r"`+|\n")
# Longer than any marker: an open bracket that has not closed by then is text.
_LONGEST_MARKER = 120
_FENCE = 3


def neutral(text: str) -> str:
    """A document's text with nothing in it that could be taken for a marker of the answer."""
    return _BY_CHUNK.sub(r"(\1)", _BY_NUMBER.sub(lambda match: f"({match[0][1:-1]})", text))


@dataclass(frozen=True)
class Notation:
    """How the sources of one answer are named in it."""

    sources: Sequence[Source]
    style: CitationStyle = "source"

    @cached_property
    def _by_chunk(self) -> dict[str, int]:
        return {source.hit.chunk.id: source.number for source in self.sources}

    @cached_property
    def _documents(self) -> set[str]:
        return {source.hit.chunk.document_id for source in self.sources}

    def written(self, numbers: Sequence[int]) -> str:
        if self.style == "chunk":
            return "".join(f"[{self.sources[number - 1].hit.chunk.id}]" for number in numbers)
        return "".join(f"[Source {number}]" for number in numbers)

    def read(self, bracket: str) -> tuple[tuple[int, ...], bool] | None:
        """The sources that a bracket names, and whether all of them exist; None: it is text."""
        if match := _BY_NUMBER.fullmatch(bracket):
            named = [int(number) for number in _NUMBER.findall(match[1])]
            good = [number for number in named if 1 <= number <= len(self.sources)]
            return tuple(dict.fromkeys(good)), len(good) == len(named)
        if match := _BY_CHUNK.fullmatch(bracket):
            ids = re.split(r"\s*[,;]\s*", match[1])
            known = [self._by_chunk[one] for one in ids if one in self._by_chunk]
            # `[verse:3]` may be text, unless the answer was to cite in this way.
            ours = self.style == "chunk" or any(
                i.rpartition(":")[0] in self._documents for i in ids
            )
            return (tuple(dict.fromkeys(known)), len(known) == len(ids)) if ours else None
        return None

    def find(self, text: str) -> Iterator[Marker]:
        """The markers of a finished text, in order."""
        code = list(code_spans(text))
        at = 0
        while (at := text.find("[", at)) >= 0:
            inside = next((end for start, end in code if start <= at < end), None)
            end = inside or _bracket_end(text, at) or 0
            named = None if inside or end <= 0 else self.read(text[at:end])
            if named and named[0]:
                yield Marker(at, end, named[0])
            at = end if inside or named else at + 1


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker at `text[start:end]`."""

    start: int
    end: int
    numbers: tuple[int, ...]


def code_spans(text: str) -> Iterator[tuple[int, int]]:
    """Code between backticks: a run closes with one as long, inline code also with its line."""
    run = start = 0
    for match in _CODE_EDGE.finditer(text):
        now = _code_after(run, match[0])
        if now and not run:
            start = match.start()
        elif run and not now:
            yield start, match.end()
        run = now
    if run:
        yield start, len(text)


def _code_after(run: int, edge: str) -> int:
    """The run of backticks that is open after an edge; 0: none."""
    if edge == "\n":
        return run if run >= _FENCE else 0
    if not run:
        return len(edge)
    closes = len(edge) == run or (run >= _FENCE and len(edge) >= run)
    return 0 if closes else run


def _bracket_end(text: str, at: int) -> int | None:
    """Where the bracket at `at` ends; None when it is text, -1 when it may still close."""
    stop = _BRACKET_STOP.search(text, at + 1)
    if stop:
        return stop.end() if stop[0] == "]" and stop.end() - at <= _LONGEST_MARKER else None
    return -1 if len(text) - at <= _LONGEST_MARKER else None


@dataclass(slots=True)
class MarkerStream:
    """Passes text on as it comes, but a marker only whole, and only if it points somewhere.

    Every marker leaves in the notation's own style, so that what was streamed reads as the answer.
    """

    notation: Notation
    dangling: list[str] = field(default_factory=list)
    _held: str = ""
    _code: int = 0
    _shown: str = ""
    """The piece that was passed on last."""

    def feed(self, piece: str) -> str:
        self._held += piece
        return self._drained(last=False)

    def close(self) -> str:
        return self._drained(last=True)

    def _drained(self, *, last: bool) -> str:
        out: list[str] = []
        text, at = self._held, 0
        while at < len(text):
            step = self._step(text, at, last, out)
            if step == at:
                break
            at = step
        self._held = text[at:]
        self._shown = out[-1] if out else self._shown
        return "".join(out)

    def _step(self, text: str, at: int, last: bool, out: list[str]) -> int:
        """Take in one piece of the text; the same position means: wait for more."""
        character = text[at]
        if character in "`\n":
            end = at + 1
            while character == "`" and end < len(text) and text[end] == "`":
                end += 1
            if character == "`" and end == len(text) and not last:
                return at
            self._code = _code_after(self._code, text[at:end])
        elif character in " [" and not self._code:
            return self._bracket(text, at, last, out)
        else:
            stop = _SPECIAL.search(text, at + 1)
            end = stop.start() if stop else len(text)
        out.append(text[at:end])
        return end

    def _bracket(self, text: str, at: int, last: bool, out: list[str]) -> int:
        """Spaces and the bracket after them: a marker that is removed takes its spaces along."""
        opening = at
        while opening < len(text) and text[opening] == " ":
            opening += 1
        if opening == len(text) or text[opening] != "[":
            if opening == len(text) and not last:
                return at
            out.append(text[at:opening])
            return opening
        end = _bracket_end(text, opening)
        if end == -1 and not last:
            return at
        named = self.notation.read(text[opening:end]) if end and end > 0 else None
        if named is None or not end:
            around = self._around_marker(text, opening)
            if around is None and not last:
                return at
            out.append(text[at:opening] + ("(" if around else "["))
            return opening + 1
        numbers, complete = named
        if not complete:
            self.dangling.append(text[opening:end])
        if numbers:
            out.append(text[at:opening] + self.notation.written(numbers))
        elif (out[-1] if out else self._shown).endswith("`"):
            out.append(" ")  # two runs of backticks must not become one
        return end

    def _around_marker(self, text: str, opening: int) -> bool | None:
        """Whether a bracket that is text has a marker inside; None when that cannot be told yet.

        `[Source [Source 9]1]` must not turn into a marker when the inner one is removed.
        """
        inner = opening
        while (stop := _BRACKET_STOP.search(text, inner + 1)) and stop[0] == "[":
            inner = stop.start()
        end = _bracket_end(text, inner)
        if inner == opening or end is None:
            return False
        return None if end == -1 else self.notation.read(text[inner:end]) is not None
