"""Describe calls to language models: what one used, what it cost, and why it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

StopReason: TypeAlias = Literal["stop", "length", "blocked"]
"""`length`: the token limit was reached. `blocked`: a filter of the service ended the reply."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Count the tokens of one call to a model, with their price where it is known."""

    input_tokens: int
    """All tokens that were read, from the prompt cache or not."""
    output_tokens: int
    """All tokens that were written, thoughts included."""
    cost_usd: float | None = None
    cached_tokens: int = 0
    """The part of `input_tokens` that came from the prompt cache of the service."""
    cache_writes: int = 0
    """The part of `input_tokens` that was written into that cache, where this is billed."""
    provider: str = ""
    model: str = ""
    stage: str = ""
    """The stage of the query that made the call, such as `ground.generate`."""
    stop_reason: StopReason = "stop"
    is_estimate: bool = False
    """True when the server did not count: the tokens are estimated from the characters."""


def sum_usage(calls: Sequence[Usage]) -> Usage:
    """Add up calls; the cost is None if the price of none of them is known."""
    costs = [one.cost_usd for one in calls if one.cost_usd is not None]
    return Usage(
        sum(one.input_tokens for one in calls),
        sum(one.output_tokens for one in calls),
        round(sum(costs), 9) if costs else None,
        sum(one.cached_tokens for one in calls),
        sum(one.cache_writes for one in calls),
        is_estimate=any(one.is_estimate for one in calls),
    )
