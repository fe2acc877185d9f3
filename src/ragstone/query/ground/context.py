"""Hits → numbered sources that fit the prompt; what does not fit is cut at a sentence's end.

On request hits that touch become one source, and the sentences that matter least are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragstone.query.ground.compress import Kept, kept_sentences, whole
from ragstone.query.ground.inject import reads_like_instructions
from ragstone.query.ground.merge import merged
from ragstone.sentences import sentence_spans
from ragstone.settings import GroundSettings
from ragstone.stages import Catalog, Embedder
from ragstone.trace import Span
from ragstone.types import CitationStyle, Hit, Hits, Source

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
class ContextBuilder:
    """Numbers the hits in their order, as long as tokens and characters last."""

    embedder: Embedder
    options: GroundSettings
    catalog: Catalog | None = None
    """Where the neighbours of a hit are read from."""

    def build(
        self, hits: Hits, span: Span, *, style: CitationStyle = "source", question: str = ""
    ) -> tuple[Source, ...]:
        hits = self._merged(hits, span)
        kept = self._compressed(question, hits, span)
        sources: list[Source] = []
        most_chars = self.options.max_context_chars
        if most_chars is None and style == "chunk":
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
