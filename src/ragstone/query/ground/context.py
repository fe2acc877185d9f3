"""Hits → numbered sources that fit the prompt; what does not fit is cut at a sentence's end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ragstone.query.ground.inject import reads_like_instructions
from ragstone.sentences import sentence_spans
from ragstone.stages import Embedder
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
    max_tokens: int
    max_chars: int | None

    def build(self, hits: Hits, span: Span, style: CitationStyle = "source") -> tuple[Source, ...]:
        sources: list[Source] = []
        max_chars = self.max_chars
        if max_chars is None and style == "chunk":
            max_chars = CHAT_CONTEXT_CHARS
        tokens = chars = 0
        for hit in hits:
            number = len(sources) + 1
            header = source_header(number, hit)
            tokens_left = self.max_tokens - tokens - self._tokens(header)
            chars_left = None if max_chars is None else max_chars - chars - len(header)
            text = self._fitted(hit.chunk.text, tokens_left, chars_left)
            if text:
                sources.append(Source(number, hit, text))
                tokens += self._tokens(header) + self._tokens(text)
                chars += len(header) + len(text)
            if len(text) < len(hit.chunk.text):
                left_out = len(hits) - len(sources)
                span.note(f"The context is full: a source was cut and {left_out} left out.")
                break
        suspicious = sum(reads_like_instructions(source.text) for source in sources)
        if suspicious:
            span.count(instruction_like=suspicious)
            span.note(f"{suspicious} of the sources hold text that reads like instructions.")
        span.count(
            final_chunks_count=len(sources), context_size_chars=chars, context_size_tokens=tokens
        )
        return tuple(sources)

    def _fitted(self, text: str, tokens_left: int, chars_left: int | None) -> str:
        def fits(part: str) -> bool:
            if chars_left is not None and len(part) > chars_left:
                return False
            return self._tokens(part) <= tokens_left

        return text if fits(text) else cut_at_sentence(text, fits)

    def _tokens(self, text: str) -> int:
        return len(self.embedder.token_starts(text))


def cut_at_sentence(text: str, fits: Callable[[str], bool]) -> str:
    """The longest beginning of whole sentences that fits; empty when not even the first does."""
    for _, end in reversed(sentence_spans(text)):
        if fits(text[:end]):
            return text[:end]
    return ""
