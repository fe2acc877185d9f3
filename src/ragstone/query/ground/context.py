"""Hits → numbered sources that fit the prompt; what does not fit is cut at a sentence's end.

On request hits that touch become one source, and the sentences that matter least are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragstone.index.analyze import terms
from ragstone.models.cache import remembered
from ragstone.plugins import PartContext
from ragstone.protocols import Catalog, Embedder
from ragstone.reading.units import reads_like_instructions
from ragstone.settings import GroundSettings
from ragstone.text import sentence_spans
from ragstone.trace import Span
from ragstone.types import Chunk, Hit, Hits, Query, Source

_GAP = " … "


@dataclass(frozen=True, slots=True)
class Kept:
    """What stays of a text: whole sentences in their order, or all of it."""

    text: str
    spans: tuple[tuple[int, int], ...]
    is_whole: bool = False

    @property
    def shown(self) -> str:
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

    def without_last(self) -> Kept:
        spans = self.spans[:-1]
        return Kept(self.text[: spans[-1][1]] if spans else "", spans)


def whole(text: str) -> Kept:
    return Kept(text, ((0, len(text)),) if text else (), is_whole=True)


def kept_sentences(
    question: str, texts: Sequence[str], embedder: Embedder, ratio: float
) -> list[Kept]:
    """The sentences with most to do with the question, until `ratio` of all text is reached.

    Every text keeps its best sentence: a source without one would have no number to cite.
    """
    spans = [sentence_spans(text) for text in texts]
    places = [(at, span) for at, found in enumerate(spans) for span in found]
    if not places:
        return [whole(text) for text in texts]
    scores = _scores(question, [texts[at][start:end] for at, (start, end) in places], embedder)
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
        whole(text) if len(kept.get(at, [])) == len(spans[at])
        else Kept(text, tuple(sorted(kept[at])))
        for at, text in enumerate(texts)
    ]  # fmt: skip


def _scores(question: str, sentences: Sequence[str], embedder: Embedder) -> list[float]:
    """Meaning and words in equal parts."""
    vectors = embedder.embed([question, *sentences])
    meaning = np.clip(vectors[1:] @ vectors[0], 0, 1)
    wanted = set(terms(question))
    shared = [len(wanted & set(terms(one))) / (len(wanted) or 1) for one in sentences]
    return [float(a) + b for a, b in zip(meaning, shared, strict=True)]


@dataclass(slots=True)
class _Passage:
    """Chunks of a document that stand in a row, and the best hit among them."""

    rank: int
    hit: Hit
    first: Chunk
    last: Chunk


def merged(hits: Hits, catalog: Catalog, around: int) -> Hits:
    """Passages in the order of their best hits, with `around` more chunks on either side."""
    passages: list[_Passage] = []
    alone = _with_neighbours(hits, catalog, around)
    for document_id in dict.fromkeys(hit.chunk.document_id for hit in hits):
        mine = [one for one in alone if one.hit.chunk.document_id == document_id]
        passages += _joined(sorted(mine, key=lambda one: one.first.index))
    passages.sort(key=lambda one: one.rank)
    return tuple(_widened(one, catalog) for one in passages)


def _with_neighbours(hits: Hits, catalog: Catalog, around: int) -> list[_Passage]:
    """Every hit with its neighbours: the keys of a document's chunks are consecutive."""
    steps = range(-around, around + 1)
    known = catalog.chunks(sorted({h.chunk.key + step for h in hits for step in steps}))
    found = []
    for rank, hit in enumerate(hits):
        near = [known[key] for step in steps if (key := hit.chunk.key + step) in known]
        row = [hit.chunk, *(c for c in near if c.document_id == hit.chunk.document_id)]
        row.sort(key=lambda chunk: chunk.index)
        found.append(_Passage(rank, hit, row[0], row[-1]))
    return found


def _joined(passages: Iterable[_Passage]) -> list[_Passage]:
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


def _widened(one: _Passage, catalog: Catalog) -> Hit:
    chunk = one.hit.chunk
    start, end = one.first.start, max(one.first.end, one.last.end)
    text = catalog.passage(chunk.document_id, start, end)
    if len(text) != end - start:  # not in this catalog, or replaced since it was found
        return one.hit
    return replace(one.hit, chunk=replace(chunk, text=text, start=start, end=end))


# What the chat style allows where nothing else is set.
CHAT_CONTEXT_CHARS = 8000


def source_header(number: int, hit: Hit) -> str:
    """What stands over a source in the prompt."""
    lines = [f"[Source {number}]", f"Document: {hit.chunk.document_name}"]
    if hit.chunk.page is not None:
        lines.append(f"Page: {hit.chunk.page}")
    if hit.chunk.heading_path:
        lines.append(f"Section: {' > '.join(hit.chunk.heading_path)}")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class BudgetContext:
    """Numbers the hits in their order, as long as tokens and characters last."""

    embedder: Embedder
    options: GroundSettings
    catalog: Catalog | None = None
    """Where the neighbours of a hit are read from."""

    def build(self, query: Query, hits: Hits, span: Span) -> tuple[Source, ...]:
        hits = self._merged(hits, span)
        kept = self._compressed(query.text, hits, span)
        sources: list[Source] = []
        most_chars = self.options.max_context_chars
        if most_chars is None and query.citation_style == "chunk":
            most_chars = CHAT_CONTEXT_CHARS
        tokens = chars = 0
        for hit, part in zip(hits, kept, strict=True):
            header = source_header(len(sources) + 1, hit)
            tokens_left = self.options.max_context_tokens - tokens - self._tokens(header)
            chars_left = None if most_chars is None else most_chars - chars - len(header)
            fitted = self._fitted(part, tokens_left, chars_left)
            if fitted.shown:
                excerpt = "" if fitted.is_whole else fitted.shown
                sources.append(Source(len(sources) + 1, hit, fitted.text, excerpt))
                tokens += self._tokens(header) + self._tokens(fitted.shown)
                chars += len(header) + len(fitted.shown)
            if len(fitted.shown) < len(part.shown):
                left_out = len(hits) - len(sources)
                span.note(f"The context is full: a source was cut and {left_out} left out.")
                break
        _count_instructions(sources, span)
        span.count(
            final_chunks_count=len(sources), context_size_chars=chars, context_size_tokens=tokens
        )
        return tuple(sources)

    def _merged(self, hits: Hits, span: Span) -> Hits:
        around = self.options.neighbours
        if self.catalog is None or not hits or not (around or self.options.merge_neighbours):
            return hits
        found = merged(hits, self.catalog, around)
        span.count(hits_merged=len(hits) - len(found))
        return found

    def _compressed(self, question: str, hits: Hits, span: Span) -> Sequence[Kept]:
        texts = [hit.chunk.text for hit in hits]
        if self.options.compression_ratio >= 1 or not question:
            return [whole(text) for text in texts]
        kept = kept_sentences(question, texts, self.embedder, self.options.compression_ratio)
        before, after = sum(map(len, texts)), sum(len(one.shown) for one in kept)
        span.count(compressed_from_chars=before, compressed_to_chars=after)
        return kept

    def _fitted(self, part: Kept, tokens_left: int, chars_left: int | None) -> Kept:
        def fits(text: str) -> bool:
            if chars_left is not None and len(text) > chars_left:
                return False
            return self._tokens(text) <= tokens_left

        if fits(part.shown):
            return part
        if part.is_whole:
            return whole(cut_at_sentence(part.text, fits))
        shorter = part
        while shorter.spans and not fits(shorter.shown):
            shorter = shorter.without_last()
        return shorter

    def _tokens(self, text: str) -> int:
        return len(self.embedder.token_starts(text))


def _count_instructions(sources: Sequence[Source], span: Span) -> None:
    suspicious = sum(reads_like_instructions(source.text) for source in sources)
    if suspicious:
        span.count(instruction_like=suspicious)
        span.note(f"{suspicious} of the sources hold text that reads like instructions.")


def cut_at_sentence(text: str, fits: Callable[[str], bool]) -> str:
    """The longest beginning of whole sentences that fits; empty when not even the first does."""
    for _, end in reversed(sentence_spans(text)):
        if fits(text[:end]):
            return text[:end]
    return ""


def build(context: PartContext) -> BudgetContext:
    reading = remembered(context.reads_with)
    return BudgetContext(reading, context.settings.ground, context.catalog)
