"""Read and write the markers of an answer, such as `[Source 2]`.

text → statements with the sources they name; after the check, text with other markers → citations.
Code between backticks is left alone: a bracket in it is not a marker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest

from ragstone.query.ground.asides import is_aside, says_something
from ragstone.query.ground.links import LinkFilter, remove_foreign_links
from ragstone.query.ground.parts import find_groups, find_labels, split_at_labels
from ragstone.reading.injection import find_suspicious_spans
from ragstone.reading.markers import (
    MARKER_BY_CHUNK,
    MARKER_BY_NUMBER,
    find_code_spans,
    format_label,
    is_bare_index,
    update_open_code,
)
from ragstone.text import split_words
from ragstone.types import Citation, CitationStyle, Source, Verdict

_NUMBER = re.compile(r"\d+")
_OPENING = re.compile(r"[\[【(]")
# Where a bracket ends, or cannot be one: by its opening sign.
_BRACKET_STOP = {
    "[": re.compile(r"[\[\]\n]"),
    "【": re.compile(r"[【】\n]"),
    "(": re.compile(r"[()\n]"),
}
_SPECIAL = re.compile(r"[`\n \[【(]")
# Longer than any marker: an open bracket that has not closed by then is text.
_MAX_MARKER_CHARS = 120
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

    @cached_property
    def labels(self) -> frozenset[str]:
        """Return what may stand before a short quotation: the place of each source."""
        return frozenset(f"{format_label(source.hit.chunk)}:" for source in self.sources)

    def format_markers(self, numbers: Sequence[int]) -> str:
        if self.style == "chunk":
            return "".join(f"[{self.sources[number - 1].hit.chunk.id}]" for number in numbers)
        return "".join(f"[Source {number}]" for number in numbers)

    @cached_property
    def _trusted_text(self) -> str:
        """Return the text of the sources without the sentences that read like instructions."""
        pieces: list[str] = []
        for source in self.sources:
            position = 0
            for start, end in find_suspicious_spans(source.text):
                pieces.append(source.text[position:start])
                position = max(position, end)
            pieces.append(source.text[position:])
        return "\n".join(pieces)

    def is_known_link(self, url: str) -> bool:
        """Return True for an address that stands in a source, outside suspicious text."""
        return url.rstrip(".,;:!?") in self._trusted_text

    def remove_foreign_links(self, text: str) -> str:
        return remove_foreign_links(text, self.is_known_link)

    def parse_bracket(self, bracket: str) -> tuple[tuple[int, ...], bool] | None:
        """Return the sources that a bracket names, and whether all exist; None if it is text."""
        if match := MARKER_BY_NUMBER.fullmatch(bracket):
            numbers = match["numbers"] or match["bare"] or match["wide"]
            named = [int(number) for number in _NUMBER.findall(numbers)]
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
        """Yield the markers of a finished text, in order, also those of unknown sources."""
        code = list(find_code_spans(text))
        at = 0
        while opening := _OPENING.search(text, at):
            at = opening.start()
            inside = next((end for start, end in code if start <= at < end), None)
            end = inside or _find_bracket_end(text, at) or 0
            is_marker = not inside and end > 0 and not _is_index(text, at, end)
            named = self.parse_bracket(text[at:end]) if is_marker else None
            if named:
                yield Marker(at, end, *named)
            at = end if inside or named else at + 1


@dataclass(frozen=True, slots=True)
class Marker:
    """Hold the place of a marker, `text[start:end]`, and the sources it names."""

    start: int
    end: int
    numbers: tuple[int, ...]
    is_complete: bool
    """False when it names a source that does not exist."""


def _find_bracket_end(text: str, at: int) -> int | None:
    """Return the end of the bracket at `at`; None if it is text, -1 if it may still close."""
    if text[at] == "(":
        begin = text[at + 1 : at + 7].casefold()
        if not begin.startswith("source") and not (
            "source".startswith(begin) and at + 1 + len(begin) == len(text)
        ):
            return None
    stop = _BRACKET_STOP[text[at]].search(text, at + 1)
    if stop:
        closes = stop[0] in "])】" and stop.end() - at <= _MAX_MARKER_CHARS
        return stop.end() if closes else None
    return -1 if len(text) - at <= _MAX_MARKER_CHARS else None


def _is_index(text: str, start: int, end: int) -> bool:
    """Return True for `[1]` that is an index, a link or a definition, and no marker."""
    match = MARKER_BY_NUMBER.fullmatch(text, start, end)
    return bool(match and match["bare"]) and is_bare_index(text, start, end)


@dataclass(slots=True)
class MarkerStream:
    """Pass text on as it comes, but a marker only when complete, and only if its source exists.

    Every marker leaves in the notation's own style, so that the stream reads like the answer.
    """

    notation: Notation
    dangling: list[str] = field(default_factory=list)
    """Markers that name a source that does not exist."""
    _links: LinkFilter = field(init=False)
    _buffer: str = ""
    _open_code: int = 0
    _last_piece: str = ""

    def __post_init__(self) -> None:
        self._links = LinkFilter(self.notation.is_known_link)

    def feed(self, piece: str) -> str:
        self._buffer += self._links.feed(piece)
        return self._drain(last=False)

    def close(self) -> str:
        self._buffer += self._links.close()
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
            self._open_code = update_open_code(self._open_code, text[at:end])
        elif character in " [【(" and not self._open_code:
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
        if opening == len(text) or text[opening] not in "[【(":
            if opening == len(text) and not last:
                return at
            out.append(text[at:opening])
            return opening
        end = _find_bracket_end(text, opening)
        # What follows a bare number tells a marker from an index.
        if (end == -1 or end == len(text)) and not last:
            return at
        named = self._parse_marker(text, opening, end)
        if named is None or not end:
            around = text[opening] == "[" and self._has_inner_marker(text, opening)
            if around is None and not last:
                return at
            out.append(text[at:opening] + ("{" if around else text[opening]))
            return opening + 1
        numbers, complete = named
        if not complete:
            self.dangling.append(text[opening:end])
        if numbers:
            out.append(text[at:opening] + self.notation.format_markers(numbers))
        elif (out[-1] if out else self._last_piece).endswith("`"):
            out.append(" ")  # two runs of backticks must not become one
        return end

    def _parse_marker(
        self, text: str, opening: int, end: int | None
    ) -> tuple[tuple[int, ...], bool] | None:
        if not end or end < 0 or _is_index(text, opening, end):
            return None
        return self.notation.parse_bracket(text[opening:end])

    def _has_inner_marker(self, text: str, opening: int) -> bool | None:
        """Return whether a bracket that is text has a marker inside; None if more text is needed.

        `[Source [Source 9]1]` must not turn into a marker when the inner one is removed.
        """
        inner = opening
        while (stop := _BRACKET_STOP["["].search(text, inner + 1)) and stop[0] == "[":
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
    """The sources of its own markers, each as often as it is named."""
    shared_numbers: tuple[int, ...] = ()
    """The sources of the next marker in its list or table, if it has no marker of its own."""
    group: int | None = None
    """Items of one list, and rows of one table, share a group."""
    is_aside: bool = False
    """True for a heading, a lead-in, a repetition and a sentence that breaks off."""
    is_labelled: bool = False
    """True for a short quotation after a label, which says what it cannot say alone."""

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self.all_numbers or self.shared_numbers))

    @property
    def is_claim(self) -> bool:
        """Return True when it says something that a document could support."""
        if self.is_aside or self.text == CONFLICT_NOTICE:
            return False
        return says_something(self.text, is_labelled=self.is_labelled)


def split_statements(
    answer: str, notation: Notation, *, is_cut_off: bool = False
) -> list[Statement]:
    """Return the sentences of an answer outside code; a marker belongs to the one before it.

    An item of a list or a row of a table without a marker shares the next one of its block. The
    last words of an answer that was cut off claim nothing, nor does the label of a quotation.
    """
    markers = list(notation.find_markers(answer))
    plain, offsets = _strip_markers_and_code(answer, markers)
    labels = find_labels(plain, notation.labels)
    spans = split_at_labels(plain, labels)
    groups = find_groups(answer)
    found: list[Statement] = []
    said: set[tuple[str, ...]] = set()
    label = ""
    for (start, end), following in zip_longest(spans, spans[1:]):
        begin, reach = offsets[start], offsets[following[0]] if following else len(answer)
        text = plain[start:end]
        # The same words under another label say something else.
        words = tuple(split_words(f"{label} {text}"))
        found.append(
            Statement(
                text,
                begin,
                offsets[end - 1] + 1,
                reach,
                tuple(n for m in markers if begin <= m.start < reach for n in m.numbers),
                group=next((g for g, first, last in groups if first <= begin < last), None),
                is_aside=words in said
                or is_aside(text, words, is_last=following is None, is_cut_off=is_cut_off),
                is_labelled=bool(label),
            )
        )
        said.add(words)
        label = text if (start, end) in labels else ""
    return _share_markers(found)


def _share_markers(statements: list[Statement]) -> list[Statement]:
    """Give every item without a marker the next marker of its block."""
    shared: tuple[int, ...] = ()
    group: int | None = None
    for place in reversed(range(len(statements))):
        one = statements[place]
        if one.group is None or one.group != group:
            shared, group = (), one.group
        if one.all_numbers:
            shared = one.all_numbers
        elif one.group is not None and shared:
            statements[place] = replace(one, shared_numbers=shared)
    return statements


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


def find_text(wanted: str, text: str) -> tuple[tuple[int, int], ...]:
    """Return the first place where a text stands as whole words; nothing if it is not there."""
    if not wanted:
        return ()
    match = re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", text)
    return (match.span(),) if match else ()
