"""An answer's sentences with the sources they name; markers put right; citations resolved to spans.

answer text → statements → (after the check) the same text with the right markers → citations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest

from ragstone.index.analyze import terms
from ragstone.text import sentence_spans
from ragstone.types import Citation, CitationStyle, Source, Verdict

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


_FEWEST_TERMS = 2
# What a chat model says around its answer; nothing in it could be cited.
_SMALL_TALK = re.compile(
    r"^(?:sure|certainly|of course|here(?:'s| is| are)|i hope|let me know|please let|in summary|"
    r"according to the (?:documents?|sources?|excerpts?)|based on the (?:provided )?"
    r"(?:documents?|sources?|excerpts?))[^.:]*[:!.,]?$",
    re.IGNORECASE,
)


# Stands before what another source says otherwise; it is about the sources and cites none.
CONFLICT_NOTICE = "The sources do not agree on this."


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer, where it stands, and the sources that it names."""

    text: str
    start: int
    end: int
    reach: int
    """Where the next sentence begins: markers up to there belong to this one."""
    named: tuple[int, ...]
    """The sources that it names, as often as it does."""

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self.named))

    @property
    def is_claim(self) -> bool:
        """Whether it says something that a document could support."""
        enough = len(terms(self.text)) >= _FEWEST_TERMS or any(c.isdigit() for c in self.text)
        aside = self.text == CONFLICT_NOTICE or bool(_SMALL_TALK.match(self.text))
        return enough and not self.text.endswith("?") and not aside


def statements(answer: str, notation: Notation) -> list[Statement]:
    """The sentences of an answer outside code; a marker belongs to the sentence before it."""
    markers = list(notation.find(answer))
    plain, offsets = _own_words(answer, markers)
    spans = sentence_spans(plain)
    found = []
    for (start, end), following in zip_longest(spans, spans[1:]):
        begin, reach = offsets[start], offsets[following[0]] if following else len(answer)
        numbers = [n for m in markers if begin <= m.start < reach for n in m.numbers]
        found.append(
            Statement(plain[start:end], begin, offsets[end - 1] + 1, reach,
                      tuple(numbers))
        )  # fmt: skip
    return found


def without_orphans(answer: str, notation: Notation) -> str:
    """The answer without markers that stand before its first sentence: they belong to none."""
    said = statements(answer, notation)
    first = said[0].start if said else len(answer)
    pieces, position = [], 0
    for marker in notation.find(answer):
        if marker.start < first:
            pieces.append(answer[position : marker.start].rstrip(" "))
            position = marker.end
    return ("".join(pieces) + answer[position:]).strip()


def _own_words(answer: str, markers: Sequence[Marker]) -> tuple[str, list[int]]:
    """The answer without markers and code, and for each character left its offset in the answer."""
    left_out = [(marker.start, marker.end, "") for marker in markers]
    # Code is no sentence, and what stands before and after it are two. Inline code stays.
    left_out += [(start, end, "\n\n") for start, end in code_spans(answer)
                 if answer.startswith("```", start)]  # fmt: skip
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


def remarked(
    answer: str, said: Sequence[Statement], numbers: Mapping[int, Sequence[int]], notation: Notation
) -> str:
    """The answer with other markers: `numbers` are the sources of a statement, by its place."""
    markers = list(notation.find(answer))
    pieces: list[str] = []
    position = 0
    for place, statement in enumerate(said):
        if place not in numbers:
            continue
        pieces.append(answer[position : statement.start])
        pieces.append(_without(answer, statement, markers))
        if numbers[place]:
            pieces.append(f" {notation.written(numbers[place])}")
        tail = _without(answer, statement, markers, tail=True)
        pieces.append(tail)
        position = statement.reach
    pieces.append(answer[position:])
    return "".join(pieces)


def _without(
    answer: str, statement: Statement, markers: Sequence[Marker], *, tail: bool = False
) -> str:
    """A statement's own text, or what stands between it and the next one, without its markers."""
    start, end = (statement.end, statement.reach) if tail else (statement.start, statement.end)
    pieces = []
    for marker in markers:
        if start <= marker.start < end:
            pieces.append(answer[start : marker.start].rstrip(" "))
            start = marker.end
    pieces.append(answer[start:end])
    return "".join(pieces)


def citation(source: Source, span: tuple[int, int], verdict: Verdict) -> Citation:
    """A source at the span of its text that carries a statement."""
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


def short_answers(
    question: str, said: Sequence[Statement], answer: str
) -> Iterator[tuple[int, int]]:
    """The name, date or amount that a question asks for, in the first sentence that offers one."""
    from ragstone.reading.units import offers, question_kind

    kind = question_kind(question)
    asked = set(terms(question))
    if kind == "why":
        return
    for statement in said:
        if answer[statement.start : statement.end] != statement.text:
            continue
        spans = offers(kind, question, statement.text)
        if spans:
            known = [m.start() for m in re.finditer(r"\w+", statement.text)
                     if asked & set(terms(m[0]))] or [0]  # fmt: skip
            start, end = min(spans, key=lambda s: min(abs(s[0] - place) for place in known))
            yield statement.start + start, statement.start + end
            return
