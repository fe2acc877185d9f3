"""Waiting for facts and not for a time: a busy machine may take minutes for a second's work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

# A limit that only something which hangs can reach.
LONG_S = 300.0


def wait_until(fact: Callable[[], bool]) -> None:
    """Return as soon as `fact` holds."""
    end = time.monotonic() + LONG_S
    while not fact():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


async def until(fact: Callable[[], bool]) -> None:
    """Let the event loop go on until `fact` holds."""
    async with asyncio.timeout(LONG_S):
        while not fact():  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0.01)
