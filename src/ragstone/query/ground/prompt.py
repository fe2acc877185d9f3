"""Question and sources → messages, in the order that lets a provider's prefix cache serve them."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.prompts import render
from ragstone.query.ground.context import source_header
from ragstone.types import NO_ANSWER, Message, Prompt, Query, Source


def build_prompt(query: Query, sources: Sequence[Source]) -> Prompt:
    """System text with the documents first, then the question."""
    excerpts = "\n\n".join(
        f"{source_header(source.number, source.hit)}\n{source.text}" for source in sources
    )
    system = render("answer", no_answer=NO_ANSWER, sources=excerpts)
    return Prompt(
        question=query.text,
        sources=tuple(sources),
        messages=(Message("system", system), Message("user", query.text)),
        temperature=query.temperature,
    )
