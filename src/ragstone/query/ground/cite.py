"""Read and write the markers of an answer, such as `[Source 2]`.

text → statements with the sources they name; after the check, text with other markers → citations.
Code between backticks is left alone: a bracket in it is not a marker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest

from ragstone.index.analyze import extract_terms
from ragstone.reading.kinds import detect_kind, find_offers
from ragstone.reading.units import MARKER_BY_CHUNK, MARKER_BY_NUMBER
from ragstone.text import find_sentence_spans
from ragstone.types import Citation, CitationStyle, Source, Verdict

_NUMBER = re.compile(r"\d+")
_BRACKET_STOP = re.compile(r"[\[\]\n]")
_SPECIAL = re.compile(r"[`\n \[]")
_CODE_EDGE = re.compile(r"`+|\n")
# Longer than any marker: an open bracket that has not closed by then is text.
_MAX_MARKER_CHARS = 120
_FENCE = 3
_MIN_TERMS = 2
# Phrases around an answer of a chat model; nothing in them could be cited.
_SMALL_TALK = re.compile(
    r"^(?:sure|certainly|of course|here(?:'s| is| are)|i hope|let me know|please let|in summary|"
    r"according to the (?:documents?|sources?|excerpts?)|based on the (?:provided )?"
    r"(?:documents?|sources?|excerpts?))[^.:]*[:!.,]?$",
    re.IGNORECASE,
)
# Introduces a sentence of another source that disagrees; it cites no source itself.
CONFLICT_NOTICE = "The sources do not agree on this."


@dataclass(frozen=True)
class Notation:
    """Read and write the markers for the sources of one answer."""

    sources: Sequence[Source]
    style: CitationStyle = "source"

    @cached_property
    def _by_chunk(self) -> dict[str, int]:
        return {source.hit.chunk.id: source.number for source in self.sources}

    @cached_property
    def _documents(self) -> set[str]:
        return {source.hit.chunk.document_id for source in self.sources}

    def format_markers(self, numbers: Sequence[int]) -> str:
        if self.style == "chunk":
            return "".join(f"[{self.sources[number - 1].hit.chunk.id}]" for number in numbers)
        return "".join(f"[Source {number}]" for number in numbers)

    def parse_bracket(self, bracket: str) -> tuple[tuple[int, ...], bool] | None:
        """Return the sources that a bracket names, and whether all exist; None if it is text."""
        if match := MARKER_BY_NUMBER.fullmatch(bracket):
            named = [int(number) for number in _NUMBER.findall(match[1])]
            good = [number for number in named if 1 <= number <= len(self.sources)]
            return tuple(dict.fromkeys(good)), len(good) == len(named)
        if match := MARKER_BY_CHUNK.fullmatch(bracket):
            ids = re.split(r"\s*[,;]\s*", match[1])
            known = [self._by_chunk[one] for one in ids if one in self._by_chunk]
            # `[verse:3]` may be text, unless the answer was to cite in this way.
            ours = self.style == "chunk" or any(
                i.rpartition(":")[0] in self._documents for i in ids
            )
            return (tuple(dict.fromkeys(known)), len(known) == len(ids)) if ours else None
        return None

    def find_markers(self, text: str) -> Iterator[Marker]:
        """Yield the markers of a finished text, in order."""
        code = list(find_code_spans(text))
        at = 0
        while (at := text.find("[", at)) >= 0:
            inside = next((end for start, end in code if start <= at < end), None)
            end = inside or _find_bracket_end(text, at) or 0
            named = None if inside or end <= 0 else self.parse_bracket(text[at:end])
            if named and named[0]:
                yield Marker(at, end, named[0])
            at = end if inside or named else at + 1


@dataclass(frozen=True, slots=True)
class Marker:
    """Hold the place of a marker, `text[start:end]`, and the sources it names."""

    start: int
    end: int
    numbers: tuple[int, ...]


def find_code_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of code. A run of backticks closes with one as long; inline code also ends
    with its line."""
    run = start = 0
    for match in _CODE_EDGE.finditer(text):
        now = _update_open_code(run, match[0])
        if now and not run:
            start = match.start()
        elif run and not now:
            yield start, match.end()
        run = now
    if run:
        yield start, len(text)


def _update_open_code(run: int, edge: str) -> int:
    """Return the length of the run of backticks that is open after an edge; 0 for none."""
    if edge == "\n":
        return run if run >= _FENCE else 0
    if not run:
        return len(edge)
    closes = len(edge) == run or (run >= _FENCE and len(edge) >= run)
    return 0 if closes else run


def _find_bracket_end(text: str, at: int) -> int | None:
    """Return the end of the bracket at `at`; None if it is text, -1 if it may still close."""
    stop = _BRACKET_STOP.search(text, at + 1)
    if stop:
        return stop.end() if stop[0] == "]" and stop.end() - at <= _MAX_MARKER_CHARS else None
    return -1 if len(text) - at <= _MAX_MARKER_CHARS else None


@dataclass(slots=True)
class MarkerStream:
    """Pass text on as it comes, but a marker only when complete, and only if its source exists.

    Every marker leaves in the notation's own style, so that the stream reads like the answer.
    """

    notation: Notation
    dangling: list[str] = field(default_factory=list)
    """Markers that name a source that does not exist."""
    _buffer: str = ""
    _open_code: int = 0
    _last_piece: str = ""

    def feed(self, piece: str) -> str:
        self._buffer += piece
        return self._drain(last=False)

    def close(self) -> str:
        return self._drain(last=True)

    def _drain(self, *, last: bool) -> str:
        out: list[str] = []
        text, at = self._buffer, 0
        while at < len(text):
            step = self._take_piece(text, at, last, out)
            if step == at:
                break
            at = step
        self._buffer = text[at:]
        self._last_piece = out[-1] if out else self._last_piece
        return "".join(out)

    def _take_piece(self, text: str, at: int, last: bool, out: list[str]) -> int:
        """Put one piece of the text out and return its end; the same position means: wait."""
        character = text[at]
        if character in "`\n":
            end = at + 1
            while character == "`" and end < len(text) and text[end] == "`":
                end += 1
            if character == "`" and end == len(text) and not last:
                return at
            self._open_code = _update_open_code(self._open_code, text[at:end])
        elif character in " [" and not self._open_code:
            return self._take_bracket(text, at, last, out)
        else:
            stop = _SPECIAL.search(text, at + 1)
            end = stop.start() if stop else len(text)
        out.append(text[at:end])
        return end

    def _take_bracket(self, text: str, at: int, last: bool, out: list[str]) -> int:
        """Put out spaces and the bracket after them: a removed marker takes its spaces along."""
        opening = at
        while opening < len(text) and text[opening] == " ":
            opening += 1
        if opening == len(text) or text[opening] != "[":
            if opening == len(text) and not last:
                return at
            out.append(text[at:opening])
            return opening
        end = _find_bracket_end(text, opening)
        if end == -1 and not last:
            return at
        named = self.notation.parse_bracket(text[opening:end]) if end and end > 0 else None
        if named is None or not end:
            around = self._has_inner_marker(text, opening)
            if around is None and not last:
                return at
            out.append(text[at:opening] + ("(" if around else "["))
            return opening + 1
        numbers, complete = named
        if not complete:
            self.dangling.append(text[opening:end])
        if numbers:
            out.append(text[at:opening] + self.notation.format_markers(numbers))
        elif (out[-1] if out else self._last_piece).endswith("`"):
            out.append(" ")  # two runs of backticks must not become one
        return end

    def _has_inner_marker(self, text: str, opening: int) -> bool | None:
        """Return whether a bracket that is text has a marker inside; None if more text is needed.

        `[Source [Source 9]1]` must not turn into a marker when the inner one is removed.
        """
        inner = opening
        while (stop := _BRACKET_STOP.search(text, inner + 1)) and stop[0] == "[":
            inner = stop.start()
        end = _find_bracket_end(text, inner)
        if inner == opening or end is None:
            return False
        return None if end == -1 else self.notation.parse_bracket(text[inner:end]) is not None


@dataclass(frozen=True, slots=True)
class Statement:
    """Hold a sentence of an answer, its place, and the sources that it names."""

    text: str
    start: int
    end: int
    next_start: int
    """Start of the next sentence: markers up to there belong to this one."""
    all_numbers: tuple[int, ...]
    """The sources that it names, each as often as it is named."""

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self.all_numbers))

    @property
    def is_claim(self) -> bool:
        """Return True when it says something that a document could support."""
        enough = len(extract_terms(self.text)) >= _MIN_TERMS or any(c.isdigit() for c in self.text)
        aside = self.text == CONFLICT_NOTICE or bool(_SMALL_TALK.match(self.text))
        return enough and not self.text.endswith("?") and not aside


def split_statements(answer: str, notation: Notation) -> list[Statement]:
    """Return the sentences of an answer outside code; a marker belongs to the one before it."""
    markers = list(notation.find_markers(answer))
    plain, offsets = _strip_markers_and_code(answer, markers)
    spans = find_sentence_spans(plain)
    found = []
    for (start, end), following in zip_longest(spans, spans[1:]):
        begin, reach = offsets[start], offsets[following[0]] if following else len(answer)
        numbers = [n for m in markers if begin <= m.start < reach for n in m.numbers]
        end_in_answer = offsets[end - 1] + 1
        found.append(Statement(plain[start:end], begin, end_in_answer, reach, tuple(numbers)))
    return found


def drop_leading_markers(answer: str, notation: Notation) -> str:
    """Remove markers before the first sentence: they belong to none."""
    statements = split_statements(answer, notation)
    first = statements[0].start if statements else len(answer)
    markers = list(notation.find_markers(answer))
    return (_strip_markers(answer, markers, 0, first) + answer[first:]).strip()


def _strip_markers_and_code(answer: str, markers: Sequence[Marker]) -> tuple[str, list[int]]:
    """Return the answer without markers and code, and the offset of each character left."""
    left_out = [(marker.start, marker.end, "") for marker in markers]
    # A code block separates two sentences. Inline code stays.
    left_out += [
        (start, end, "\n\n")
        for start, end in find_code_spans(answer)
        if answer.startswith("```", start)
    ]
    characters: list[str] = []
    offsets: list[int] = []
    position = 0
    for start, end, instead in sorted(left_out):
        # The space before a marker goes with it, so that "fact [Source 1]." reads "fact."
        stop = start
        while stop > position and answer[stop - 1] == " ":
            stop -= 1
        characters.append(answer[position:stop] + instead)
        offsets.extend([*range(position, stop), *[start] * len(instead)])
        position = end
    characters.append(answer[position:])
    offsets.extend(range(position, len(answer)))
    return "".join(characters), offsets


def replace_markers(
    answer: str,
    statements: Sequence[Statement],
    numbers: Mapping[int, Sequence[int]],
    notation: Notation,
) -> str:
    """Write other markers: `numbers` are the sources of a statement, by its place."""
    markers = list(notation.find_markers(answer))
    pieces: list[str] = []
    position = 0
    for place, one in enumerate(statements):
        if place not in numbers:
            continue
        pieces.append(answer[position : one.start])
        pieces.append(_strip_markers(answer, markers, one.start, one.end))
        if numbers[place]:
            pieces.append(f" {notation.format_markers(numbers[place])}")
        pieces.append(_strip_markers(answer, markers, one.end, one.next_start))
        position = one.next_start
    pieces.append(answer[position:])
    return "".join(pieces)


def _strip_markers(answer: str, markers: Sequence[Marker], start: int, end: int) -> str:
    """Return `answer[start:end]` without its markers and the spaces before them."""
    pieces = []
    for marker in markers:
        if start <= marker.start < end:
            pieces.append(answer[start : marker.start].rstrip(" "))
            start = marker.end
    pieces.append(answer[start:end])
    return "".join(pieces)


def build_citation(source: Source, span: tuple[int, int], verdict: Verdict) -> Citation:
    """Cite the span of a source's text that supports a statement."""
    chunk = source.hit.chunk
    start, end = span
    return Citation(
        number=source.number,
        document_id=chunk.document_id,
        document_name=chunk.document_name,
        page=chunk.page,
        chunk_id=chunk.id,
        start=chunk.start + start,
        end=chunk.start + end,
        snippet=source.text[start:end],
        relevance_score=source.hit.score,
        verdict=verdict,
    )


def find_short_answers(
    question: str, statements: Sequence[Statement], answer: str
) -> Iterator[tuple[int, int]]:
    """Yield the span of the name, date or amount asked for, in the first statement that has it."""
    kind = detect_kind(question)
    asked = set(extract_terms(question))
    if kind == "why":
        return
    for statement in statements:
        if answer[statement.start : statement.end] != statement.text:
            continue
        spans = find_offers(kind, question, statement.text)
        if spans:
            words = re.finditer(r"\w+", statement.text)
            known = [word.start() for word in words if asked & set(extract_terms(word[0]))] or [0]
            start, end = min(spans, key=lambda s: min(abs(s[0] - place) for place in known))
            yield statement.start + start, statement.start + end
            return
