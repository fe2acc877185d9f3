"""Name the choices when a question is unclear: "What is the limit?" where five limits are stated.

query and evidence → pieces of an answer, as an answerer writes them. A question is unclear when it
names little, and passages under different headings answer it differently, each about as well.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from ragstone.evidence import CORRECT_FROM, Draft, Evidence
from ragstone.index.analyze import extract_terms
from ragstone.protocols import Answerer, Grader
from ragstone.query.understand.nouns import WHICH, find_phrases
from ragstone.reading.question import parse_question
from ragstone.text import split_words
from ragstone.threads import run_in_thread
from ragstone.trace import QueryRun
from ragstone.types import NO_ANSWER, Query, Source

_MAX_TERMS = 3
# Each of so many passages is read alone.
_MAX_CHOICES = 4
# Two answers compete when their probabilities are this near.
_NEAR = 0.15
_DEFINITE = re.compile(r"\bthe\b", re.IGNORECASE)


_NUMBER = re.compile(r"^\d{1,3}(?:\.\d{1,3})*\.?\s+")
_VALUE = re.compile(r"\d[\d.,:]*\d|\d")


@dataclass(frozen=True, slots=True)
class Choice:
    """Hold one of several answers that compete: a quotation and its place."""

    source: Source
    text: str
    values: frozenset[str]
    probability: float

    @property
    def label(self) -> str:
        """Return where it stands: the last heading, and the document."""
        chunk = self.source.hit.chunk
        # Without its number, which would read as a sentence of its own.
        headings = [_NUMBER.sub("", one) for one in chunk.heading_path if " | " not in one]
        name = chunk.document_name.rpartition("/")[2]
        return f"{headings[-1]} ({name})" if headings else name


def names_little(query: Query) -> bool:
    """Return True for a question after a value that names no thing, place or time."""
    parsed = parse_question(query.text)
    phrases = find_phrases(query.text)
    # "What is the limit?" wants a value, "What is a limit?" a definition.
    is_definite = parsed.kind == "definition" and bool(_DEFINITE.search(query.text))
    return (
        (parsed.wants_short_answer or is_definite)
        and not query.readings
        and not parsed.parts
        and not parsed.wants_latest
        and len(set(extract_terms(query.text))) <= _MAX_TERMS
        and not any(phrase.is_name or phrase.is_time for phrase in phrases)
    )


def list_places(sources: Sequence[Source]) -> list[Source]:
    """Return the best passage under each heading, at most so many as are read alone."""
    places: dict[tuple[str, tuple[str, ...]], Source] = {}
    for source in sources:
        chunk = source.hit.chunk
        places.setdefault((chunk.document_id, chunk.heading_path), source)
    return list(places.values())[:_MAX_CHOICES]


async def find_choices(
    query: Query, evidence: Evidence, run: QueryRun, answerer: Answerer, grader: Grader
) -> list[Choice]:
    """Read the best passages alone, and return those that give different values."""
    asked = set(split_words(query.text))
    terms = set(extract_terms(query.text))
    found: list[Choice] = []
    for source in list_places(evidence.sources):
        sources = (source,)
        if not terms <= set(extract_terms(source.hit.chunk.contextual_text)):
            continue  # it speaks of something else: of the summer where the winter is asked for
        probability = await run_in_thread(
            "models", grader.estimate_probability, query.text, sources
        )
        if probability < CORRECT_FROM:
            continue
        text = await _quote(query, sources, run, answerer)
        short = grader.find_short_answer(query.text, sources)
        if not short:
            continue  # a passage on the subject that gives no value is no choice
        values = _VALUE.findall(short) or split_words(short)
        if text and NO_ANSWER not in text and not set(values) <= asked:
            found.append(Choice(source, text, frozenset(values), probability))
    best = max((one.probability for one in found), default=0.0)
    different: list[Choice] = []
    for one in found:
        is_new = not any(one.values & other.values for other in different)
        if is_new and one.probability >= best - _NEAR:
            different.append(one)
    return different


async def _quote(
    query: Query, sources: tuple[Source, ...], run: QueryRun, answerer: Answerer
) -> str:
    text = ""
    async with aclosing(answerer.write(query, sources, QueryRun(run.request_id))) as pieces:
        async for piece in pieces:
            text = piece.text if isinstance(piece, Draft) else text
    return " ".join(text.split())


async def write_choices(
    query: Query, evidence: Evidence, run: QueryRun, answerer: Answerer, grader: Grader
) -> AsyncGenerator[str | Draft, None]:
    """Quote each answer that competes, with its place; else write one answer as always."""
    with run.span("ground.choices") as span:
        choices = await find_choices(query, evidence, run, answerer, grader)
        span.count(choices=len(choices))
    if len(choices) < 2:
        async with aclosing(answerer.write(query, evidence.sources, run)) as pieces:
            async for piece in pieces:
                yield piece
        return
    lines = [f"**{choice.label}**\n\n{choice.text}\n\n" for choice in choices]
    lines.append(WHICH)
    for line in lines:
        yield line
    yield Draft("extractive", text="".join(lines))
