"""Decide by evidence what a follow-up means, and keep an answer from being given twice.

readings of a question → the evidence of the one that the documents answer best. All readings are
embedded in one batch and searched; the most promising are read.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ragstone.evidence import Draft, Evidence
from ragstone.filters import Condition, Not, combine_filters
from ragstone.index.analyze import extract_terms
from ragstone.models.cache import QuestionBatcher
from ragstone.protocols import Answerer
from ragstone.query.understand.forms import is_bare_why
from ragstone.query.understand.nouns import PRONOUNS
from ragstone.query.understand.small_talk import strip_small_talk
from ragstone.query.understand.understander import resolve_reading
from ragstone.reading.layout import clean_for_reading
from ragstone.reading.markers import escape_markers
from ragstone.reading.units import Unit, split_units
from ragstone.text import split_words
from ragstone.trace import QueryRun, Waterfall
from ragstone.types import NO_ANSWER, Message, Query, Reading, RetrievedHits, Source

Search: TypeAlias = Callable[[Query, QueryRun], Awaitable[RetrievedHits]]
Grade: TypeAlias = Callable[[Query, RetrievedHits, QueryRun], Awaitable[Evidence]]
Estimate: TypeAlias = Callable[[Evidence, QueryRun], Awaitable[Evidence]]

# Reading costs most of a question's time: of all readings only so many are read.
_MAX_READ = 2
# How much it counts, in logits, that a passage holds the words that are new in this message.
_OVERLAP = 1.5
_MIN_PROBABILITY = 0.002
_MARKER = re.compile(r"\s*\[(?:Source \d+|[\w.-]{1,80}:\d{1,6})\]")
# A sentence counts as said when so many of its words are in the earlier answer.
_SAID = 0.8
_CAUSE = re.compile(
    r"\b(?:because|due to|owing to|the reason|this is why|so that|in order to|otherwise|"
    r"to (?:avoid|prevent|protect|ensure)|(?:^|(?<=[,;] ))since(?! \d)|weil|denn|"
    r"deshalb|damit|wegen|aufgrund|grund|porque|debido a|parce que|"
    r"car|en raison|perché|omdat|doordat|потому|так как|"
    r"ponieważ)\b|因为|由于",
    re.IGNORECASE,
)
_MIN_UNIT_WORDS = 4
_MAX_UNITS = 3
# A reason that stands elsewhere shares so many words with what it explains.
_MIN_SHARED = 3
_FAR = 1_000


async def choose_reading(
    query: Query, run: QueryRun, search: Search, grade: Grade, batcher: QuestionBatcher | None
) -> Evidence:
    """Search every reading, read the most promising, and return the evidence of the best."""
    queries = [resolve_reading(query, reading) for reading in query.readings]
    if batcher is not None:
        await asyncio.gather(*(batcher.embed(one.text) for one in queries))
    found: list[tuple[RetrievedHits, Waterfall]] = []
    for one in queries:
        run.trace.waterfall = Waterfall()
        found.append((await search(one, run), run.trace.waterfall))
    order = _rank_readings(query, queries, [retrieved for retrieved, _ in found])
    best: tuple[tuple[bool, float], Evidence, Waterfall] | None = None
    with run.span("understand.contest") as span:
        for place in order[:_MAX_READ]:
            run.trace.waterfall = found[place][1]
            evidence = await grade(queries[place], found[place][0], run)
            # Whatever its form, a reading without an answer is worth less than one with it.
            score = evidence.holds_answer, score_reading(query, query.readings[place], evidence)
            if best is None or score > best[0]:
                best = score, evidence, run.trace.waterfall
        assert best is not None, "a contest has at least one reading"
        run.trace.waterfall = best[2]
        span.count(
            readings=len(queries),
            read=min(_MAX_READ, len(queries)),
            kind=query.readings[[one.text for one in queries].index(best[1].query.text)].kind,
        )
    return best[1]


def _rank_readings(
    query: Query, queries: Sequence[Query], found: Sequence[RetrievedHits]
) -> list[int]:
    """Return the places of the readings, the most promising first, before anything is read."""
    fresh = _list_fresh_terms(query)
    scores = []
    for reading, retrieved in zip(query.readings, found, strict=True):
        first = retrieved.hits[:3]
        best = max((hit.scores.similarity or 0.0 for hit in first), default=0.0)
        terms = set(extract_terms(" \n ".join(hit.chunk.contextual_text for hit in first)))
        share = len(fresh & terms) / len(fresh) if fresh else 1.0
        scores.append(reading.prior + 2.0 * best + _OVERLAP * share)
    return sorted(range(len(queries)), key=lambda place: -scores[place])


def score_reading(query: Query, reading: Reading, evidence: Evidence) -> float:
    """Weigh how well the documents answer a reading against what its form suggests."""
    bounded = min(max(evidence.probability, _MIN_PROBABILITY), 1 - _MIN_PROBABILITY)
    fresh = _list_fresh_terms(query)
    near = " \n ".join(s.hit.chunk.contextual_text for s in evidence.sources[:3])
    share = len(fresh & set(extract_terms(near))) / len(fresh) if fresh else 1.0
    return math.log(bounded / (1 - bounded)) + reading.prior + _OVERLAP * share


def _list_fresh_terms(query: Query) -> set[str]:
    """Return the terms of the message itself, as it was typed."""
    return set(extract_terms(strip_small_talk(query.original_text or query.text)))


def find_last_answer(history: Sequence[Message]) -> str:
    """Return the text of the last answer without its markers."""
    last = next((one.content for one in reversed(history) if one.role == "assistant"), "")
    return _MARKER.sub("", last).strip()


def asks_again(query: Query) -> bool:
    """Return True when a message repeats the last question, so that its answer is wanted again."""
    last = next((one for one in reversed(query.history) if one.role == "user"), None)
    asked = query.original_text or query.text
    return last is not None and split_words(last.content) == split_words(asked)


def repeats_answer(text: str, earlier: str) -> bool:
    """Return True when a text says nothing that an earlier answer did not say."""
    said, before = split_words(_MARKER.sub("", text)), split_words(earlier)
    return bool(said) and bool(before) and said == before and NO_ANSWER not in text


def is_about_message(query: Query, text: str) -> bool:
    """Return True when a text holds most of the words that are new in this message."""
    fresh = _list_fresh_terms(query)
    return len(fresh & set(extract_terms(text))) >= len(fresh) / 2


async def avoid_repetition(
    evidence: Evidence, run: QueryRun, answerer: Answerer, estimate: Estimate
) -> Evidence:
    """Leave out what the last answer said, if a quoted answer would say it again.

    A sentence that holds the words of the new question may answer it too; it then stays, unless
    the other sentences hold an answer.
    """
    query, earlier = evidence.query, find_last_answer(evidence.query.history)
    if not earlier or query.wants_more or asks_again(query):
        return evidence
    draft = ""
    async for piece in answerer.write(query, evidence.sources, QueryRun(run.request_id)):
        draft = piece.text if isinstance(piece, Draft) else draft
    if not repeats_answer(draft, earlier):
        return evidence
    if query.readings and not _list_fresh_terms(query):
        # "Where?" has no words of its own: only a sentence that names the place is an answer, and
        # another one with the words of the last question is none.
        return evidence if evidence.short_answer else replace(evidence, sources=(), probability=0.0)
    with run.span("understand.repetition") as span:
        hidden = hide_said(evidence.sources, earlier)
        other = await estimate(replace(evidence, sources=hidden), run)
        is_better = other.probability >= evidence.probability
        changed = is_better or not is_about_message(query, draft)
        span.count(probability=round(other.probability, 4), changed=changed)
    return other if changed else evidence


def leave_document(evidence: Evidence) -> Query | None:
    """Leave the document of the last answer out of the search, where another one is asked for.

    None if no source holds the last answer.
    """
    query = evidence.query
    words = set(split_words(find_last_answer(query.history)))
    # Two contracts may say nearly the same: only what was said word for word counts.
    counts = [_count_said_words(source, words, share=1.0) for source in evidence.sources]
    if not any(counts):
        return None
    quoted = evidence.sources[counts.index(max(counts))].hit.chunk.document_id
    others = Not(Condition("document_id", "eq", quoted))
    return replace(query, filter=combine_filters(query.filter, others))


def hide_said(sources: Sequence[Source], earlier: str) -> tuple[Source, ...]:
    """Blank the sentences of an earlier answer out of the sources; every offset stays."""
    words = set(split_words(earlier))
    hidden = []
    for source in sources:
        text = source.text
        for unit in split_units(text):
            if _is_said(unit.text, words):
                text = f"{text[: unit.start]}{' ' * (unit.end - unit.start)}{text[unit.end :]}"
        hidden.append(replace(source, text=text, excerpt=""))
    return tuple(hidden)


def _is_said(text: str, words: set[str], share: float = _SAID) -> bool:
    own = split_words(text)
    return bool(own) and sum(word in words for word in own) >= share * len(own)


def _split_clean(source: Source) -> list[Unit]:
    """Return the units of a source without front matter, shortcodes and markup."""
    return split_units(clean_for_reading(source.text).text)


def _count_said_words(source: Source, words: set[str], share: float = _SAID) -> int:
    said = [unit.text for unit in _split_clean(source) if _is_said(unit.text, words, share)]
    lengths = [len(split_words(text)) for text in said]
    return sum(length for length in lengths if length >= _MIN_UNIT_WORDS)


def list_further_units(sources: Sequence[Source], earlier: str) -> list[tuple[Source, str]]:
    """Return what follows an earlier answer in the place that it was taken from."""
    if not sources:
        return []
    words = set(split_words(earlier))
    counts = [_count_said_words(source, words) for source in sources]
    place = max(range(len(sources)), key=lambda at: (counts[at], -at))
    here = sources[place]
    same = [s for s in sources if s.hit.chunk.document_id == here.hit.chunk.document_id]
    later = sorted((s for s in same if s.start > here.start), key=lambda s: s.start)
    earlier_parts = [s for s in same if s.start < here.start]
    found: list[tuple[Source, str]] = []
    for source in (here, *later, *earlier_parts):
        units = _split_clean(source)
        said = [at for at, unit in enumerate(units) if _is_said(unit.text, words)]
        # First what comes after the answer, then what stood before it.
        first = said[-1] + 1 if said and source is here else 0
        for unit in (*units[first:], *units[:first]):
            text = unit.sentence
            is_new = not _is_said(unit.text, words) and text not in (one for _, one in found)
            if is_new and len(split_words(text)) >= _MIN_UNIT_WORDS and not text.startswith("#"):
                found.append((source, " ".join(text.split())))
            if len(found) == _MAX_UNITS:
                return found
    return found


def list_asked_units(query: Query, sources: Sequence[Source]) -> list[tuple[Source, str]] | None:
    """Return the units that "tell me more" or "why?" asks for; None if they are to be searched."""
    earlier = find_last_answer(query.history)
    if query.wants_more:
        return list_further_units(sources, earlier)
    if is_bare_why(query.original_text):
        return list_causes(sources, earlier)
    return None


def list_causes(sources: Sequence[Source], earlier: str) -> list[tuple[Source, str]]:
    """Return the sentence that gives the reason of what an earlier answer said; else nothing.

    It is that sentence itself, one beside it that speaks of the same, or another one that has
    several of its words. Any other reason is that of something else.
    """
    words, topic = set(split_words(earlier)), set(extract_terms(earlier))
    found: list[tuple[int, int, Source, str]] = []
    for source in sources:
        units = _split_clean(source)
        said = [
            at
            for at, unit in enumerate(units)
            if len(split_words(unit.text)) >= _MIN_UNIT_WORDS and _is_said(unit.text, words)
        ]
        for at, unit in enumerate(units):
            if not _CAUSE.search(unit.text):
                continue
            shared = len(topic & set(extract_terms(unit.text)))
            distance = min((abs(at - one) for one in said), default=_FAR)
            if distance == 0:
                found.append((0, 0, source, unit.sentence))
            elif distance == 1 and (shared or (at - 1 in said and _points_back(unit.text))):
                found.append((1, -shared, source, unit.sentence))
            elif shared >= _MIN_SHARED:
                found.append((2, -shared, source, unit.sentence))
    if not found:
        return []
    _, _, source, text = min(found, key=lambda one: one[:2])
    return [(source, " ".join(text.split()))]


def _points_back(text: str) -> bool:
    """Return True for a sentence about what the one before it names ("This is because …")."""
    return split_words(text)[0] in PRONOUNS


async def quote_units(units: Sequence[tuple[Source, str]]) -> AsyncGenerator[str | Draft, None]:
    """Quote units as an answerer does: pieces, then the draft."""
    draft = Draft("extractive")
    for source, text in units:
        piece = f"{' ' if draft.text else ''}{escape_markers(text)} [Source {source.number}]"
        draft.text += piece
        yield piece
    if not units:
        draft.text = NO_ANSWER
        yield NO_ANSWER
    yield draft
