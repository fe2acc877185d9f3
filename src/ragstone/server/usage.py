"""Shape the tokens and the cost of an answer's calls to models for replies."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from ragstone.types import Answer


class CallReply(BaseModel):
    """One call to a model."""

    model_config = ConfigDict(from_attributes=True)

    stage: str
    provider: str
    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_usd: float | None
    stop_reason: str
    is_estimate: bool


class UsageReply(BaseModel):
    """The tokens of all calls to models, internal ones included."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_usd: float | None = Field(description="In US dollars; null if no price is known.")
    calls: list[CallReply]

    @classmethod
    def of(cls, answer: Answer) -> Self:
        total = answer.total_usage
        return cls(
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            cached_tokens=total.cached_tokens,
            cost_usd=total.cost_usd,
            calls=[CallReply.model_validate(one) for one in answer.usage],
        )


class CompletionUsage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


def name_finish(answer: Answer) -> Literal["stop", "length", "content_filter"]:
    """Return why an answer ended, in the words of OpenAI's protocol."""
    return "content_filter" if answer.stop_reason == "blocked" else answer.stop_reason
