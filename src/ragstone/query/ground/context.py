"""Turn hits into numbered sources that fit the prompt.

A source that does not fit is cut at the end of a sentence. On request neighbouring hits become one
source, and the sentences with least to do with the question are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragstone.index.analyze import extract_terms
from ragstone.models.cache import add_vector_cache
from ragstone.plugins import PartContext
from ragstone.protocols import Catalog, Embedder
from ragstone.reading.injection import has_instructions
from ragstone.settings import GroundSettings
from ragstone.text import find_sentence_spans
from ragstone.trace import Span
from ragstone.types import Chunk, Hit, Hits, Query, Source

_GAP = " … "
# The limit of the chat style where nothing else is set.
CHAT_CONTEXT_CHARS = 8000


@dataclass(frozen=True, slots=True)
class BudgetContextBuilder:
    """Number the hits in their order, as long as tokens and characters last."""

    embedder: Embedder
    options: GroundSettings
    catalog: Catalog | None = None
    """The neighbours of a hit are read from it."""

    def build(self, query: Query, hits: Hits, span: Span) -> tuple[Source, ...]:
        hits = self._merge(hits, span)
        excerpts = self._compress(query.text, hits, span)
        sources: list[Source] = []
        max_chars = self.options.max_context_chars
        if max_chars is None and query.citation_style == "chunk":
            max_chars = CHAT_CONTEXT_CHARS
        tokens = chars = 0
        for hit, excerpt in zip(hits, excerpts, strict=True):
            header = format_source_header(len(sources) + 1, hit)
            tokens_left = self.options.max_context_tokens - tokens - self._count_tokens(header)
            chars_left = None if max_chars is None else max_chars - chars - len(header)
            fitted = self._fit(excerpt, tokens_left, chars_left)
            if shown := fitted.prompt_text:
                shortened = "" if fitted.is_whole else shown
                sources.append(Source(len(sources) + 1, hit, fitted.text, shortened))
                tokens += self._count_tokens(header) + self._count_tokens(shown)
                chars += len(header) + len(shown)
            if len(shown) < len(excerpt.prompt_text):
                left_out = len(hits) - len(sources)
                span.count(is_truncated=True, sources_left_out=left_out)
                span.note(f"The context is full: a source was cut and {left_out} left out.")
                break
        _count_instructions(sources, span)
        span.count(
            final_chunks_count=len(sources), context_size_chars=chars, context_size_tokens=tokens
        )
        return tuple(sources)

    def _merge(self, hits: Hits, span: Span) -> Hits:
        around = self.options.neighbours
        if self.catalog is None or not hits or not (around or self.options.merge_neighbours):
            return hits
        found = merge_neighbours(hits, self.catalog, around)
        span.count(hits_merged=len(hits) - len(found))
        return found

    def _compress(self, question: str, hits: Hits, span: Span) -> Sequence[Excerpt]:
        texts = [hit.chunk.text for hit in hits]
        if self.options.compression_ratio >= 1 or not question:
            return [keep_whole(text) for text in texts]
        excerpts = select_sentences(question, texts, self.embedder, self.options.compression_ratio)
        before, after = sum(map(len, texts)), sum(len(one.prompt_text) for one in excerpts)
        span.count(compressed_from_chars=before, compressed_to_chars=after)
        return excerpts

    def _fit(self, excerpt: Excerpt, tokens_left: int, chars_left: int | None) -> Excerpt:
        def fits(text: str) -> bool:
            if chars_left is not None and len(text) > chars_left:
                return False
            return self._count_tokens(text) <= tokens_left

        if fits(excerpt.prompt_text):
            return excerpt
        if excerpt.is_whole:
            return keep_whole(cut_at_sentence(excerpt.text, fits))
        while excerpt.spans and not fits(excerpt.prompt_text):
            excerpt = excerpt.drop_last()
        return excerpt

    def _count_tokens(self, text: str) -> int:
        return len(self.embedder.token_starts(text))


def build(context: PartContext) -> BudgetContextBuilder:
    reading = add_vector_cache(context.reads_with)
    return BudgetContextBuilder(reading, context.settings.ground, context.catalog)


def _count_instructions(sources: Sequence[Source], span: Span) -> None:
    suspicious = sum(has_instructions(source.text) for source in sources)
    if suspicious:
        span.count(instruction_like=suspicious)
        span.note(f"{suspicious} of the sources hold text that reads like instructions.")


def cut_at_sentence(text: str, fits: Callable[[str], bool]) -> str:
    """Return the longest beginning of whole sentences that fits; empty if the first does not."""
    for _, end in reversed(find_sentence_spans(text)):
        if fits(text[:end]):
            return text[:end]
    return ""


def format_source_header(number: int, hit: Hit) -> str:
    """Return the lines over a source in the prompt."""
    lines = [f"[Source {number}]", f"Document: {hit.chunk.document_name}"]
    if hit.chunk.page is not None:
        lines.append(f"Page: {hit.chunk.page}")
    if hit.chunk.heading_path:
        lines.append(f"Section: {' > '.join(hit.chunk.heading_path)}")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Hold the sentences that stay of a text, in their order, or all of it."""

    text: str
    spans: tuple[tuple[int, int], ...]
    is_whole: bool = False

    @property
    def prompt_text(self) -> str:
        if self.is_whole:
            return self.text
        pieces: list[str] = []
        previous = 0
        for start, end in self.spans:
            gap = self.text[previous:start]
            pieces.append(gap if not gap.strip() else _GAP.lstrip() if not previous else _GAP)
            pieces.append(self.text[start:end])
            previous = end
        return "".join(pieces).strip()

    def drop_last(self) -> Excerpt:
        spans = self.spans[:-1]
        return Excerpt(self.text[: spans[-1][1]] if spans else "", spans)


def keep_whole(text: str) -> Excerpt:
    return Excerpt(text, ((0, len(text)),) if text else (), is_whole=True)


def select_sentences(
    question: str, texts: Sequence[str], embedder: Embedder, ratio: float
) -> list[Excerpt]:
    """Select the sentences nearest to the question, until `ratio` of all text is reached.

    Every text keeps its best sentence: a source without one would have no number to cite.
    """
    spans = [find_sentence_spans(text) for text in texts]
    places = [(at, span) for at, found in enumerate(spans) for span in found]
    if not places:
        return [keep_whole(text) for text in texts]
    scores = _score_sentences(
        question, [texts[at][start:end] for at, (start, end) in places], embedder
    )
    order = sorted(range(len(places)), key=lambda place: (-scores[place], place))
    budget = ratio * sum(len(text) for text in texts)
    kept: dict[int, list[tuple[int, int]]] = {}
    used = 0
    for place in order:
        at, (start, end) = places[place]
        if at in kept and used + end - start > budget:
            continue
        kept.setdefault(at, []).append((start, end))
        used += end - start
    return [
        keep_whole(text)
        if len(kept.get(at, [])) == len(spans[at])
        else Excerpt(text, tuple(sorted(kept[at])))
        for at, text in enumerate(texts)
    ]


def _score_sentences(question: str, sentences: Sequence[str], embedder: Embedder) -> list[float]:
    """Score sentences by meaning and by words, in equal parts."""
    vectors = embedder.embed([question, *sentences])
    meaning = np.clip(vectors[1:] @ vectors[0], 0, 1)
    wanted = set(extract_terms(question))
    shared = [len(wanted & set(extract_terms(one))) / (len(wanted) or 1) for one in sentences]
    return [float(a) + b for a, b in zip(meaning, shared, strict=True)]


@dataclass(slots=True)
class _Passage:
    """Hold consecutive chunks of a document, and the best hit among them."""

    rank: int
    hit: Hit
    first: Chunk
    last: Chunk


def merge_neighbours(hits: Hits, catalog: Catalog, around: int) -> Hits:
    """Join hits that touch, each with `around` more chunks on either side, best hit first."""
    passages: list[_Passage] = []
    alone = _add_neighbours(hits, catalog, around)
    for document_id in dict.fromkeys(hit.chunk.document_id for hit in hits):
        mine = [one for one in alone if one.hit.chunk.document_id == document_id]
        passages += _join_touching(sorted(mine, key=lambda one: one.first.index))
    passages.sort(key=lambda one: one.rank)
    return tuple(_read_passage(one, catalog) for one in passages)


def _add_neighbours(hits: Hits, catalog: Catalog, around: int) -> list[_Passage]:
    """Add its neighbours to every hit: the keys of a document's chunks are consecutive."""
    steps = range(-around, around + 1)
    known = catalog.chunks(sorted({h.chunk.key + step for h in hits for step in steps}))
    found = []
    for rank, hit in enumerate(hits):
        near = [known[key] for step in steps if (key := hit.chunk.key + step) in known]
        row = [hit.chunk, *(c for c in near if c.document_id == hit.chunk.document_id)]
        row.sort(key=lambda chunk: chunk.index)
        found.append(_Passage(rank, hit, row[0], row[-1]))
    return found


def _join_touching(passages: Iterable[_Passage]) -> list[_Passage]:
    found: list[_Passage] = []
    for one in passages:
        before = found[-1] if found else None
        if before is None or one.first.index > before.last.index + 1:
            found.append(one)
            continue
        before.last = max(before.last, one.last, key=lambda chunk: chunk.index)
        if one.rank < before.rank:
            before.rank, before.hit = one.rank, one.hit
    return found


def _read_passage(one: _Passage, catalog: Catalog) -> Hit:
    chunk = one.hit.chunk
    start, end = one.first.start, max(one.first.end, one.last.end)
    text = catalog.read_passage(chunk.document_id, start, end)
    if len(text) != end - start:  # not in this catalog, or replaced since it was found
        return one.hit
    return replace(one.hit, chunk=replace(chunk, text=text, start=start, end=end, units=()))
