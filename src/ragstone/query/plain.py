"""A chat without documents: the messages go to the provider exactly as they came.

messages → tokens, and at the end an answer that cites nothing and is checked against nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Sequence

from ragstone.errors import InputError
from ragstone.protocols import Provider
from ragstone.text import storable
from ragstone.trace import Trace
from ragstone.types import Answer, Event, Finished, Message, Prompt, Token, Usage


async def plain_chat(
    provider: Provider,
    messages: Sequence[Message],
    *,
    temperature: float,
    model: str,
    trace: Trace,
) -> AsyncGenerator[Event, None]:
    if provider.name == "extractive":
        raise InputError(
            "The extractive answerer only quotes documents; a plain chat needs a model.",
            hint="Choose one with LLM_PROVIDER, or leave rag_enabled on.",
        )
    question = next((m.content for m in reversed(messages) if m.role == "user"), "")
    prompt = Prompt(question, (), tuple(messages), temperature, model)
    text = ""
    with trace.span("ground.generate") as span:
        async for piece in provider.stream(prompt):
            if isinstance(piece, Usage):
                span.count(
                    input_tokens=piece.input_tokens,
                    output_tokens=piece.output_tokens,
                    cost_usd=piece.cost_usd,
                )
            elif ready := storable(piece):
                text += ready
                yield Token(ready)
        span.count(provider=provider.name, model=model or provider.model, chars=len(text))
    yield Finished(
        Answer(
            query_id=uuid.uuid4().hex,
            question=question,
            collection="",
            text=text,
            status="answered",
            degraded=tuple(trace.degraded),
            provider=provider.name,
            model=model or provider.model,
            trace=trace.as_dict(),
        )
    )
