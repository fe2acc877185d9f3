"""An answer's sentences with the sources they name; markers put right; citations resolved to spans.

answer text → statements → (after the check) the same text with the right markers → citations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ragstone.index.analyze import terms
from ragstone.query.ground.markers import Marker, Notation, code_spans
from ragstone.text import sentence_spans
from ragstone.types import Citation, Source, Verdict

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
    from ragstone.reading.kinds import offers, question_kind

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
