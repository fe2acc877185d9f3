"""Waiting for facts and not for a time: a busy machine may take minutes for a second's work."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable

# A limit that only something which hangs can reach.
LONG_S = 300.0


def wait_until(fact: Callable[[], bool]) -> None:
    """Return as soon as `fact` holds."""
    end = time.monotonic() + LONG_S
    while not fact():
        assert time.monotonic() < end, _name_missing(fact)
        time.sleep(0.02)


async def until(fact: Callable[[], bool]) -> None:
    """Let the event loop go on until `fact` holds."""
    end = time.monotonic() + LONG_S
    while not fact():
        assert time.monotonic() < end, _name_missing(fact)
        await asyncio.sleep(0.01)


def _name_missing(fact: Callable[[], bool]) -> str:
    """Name the condition that did not come true: its source says more than a lambda's name."""
    try:
        condition = inspect.getsource(fact).strip()
    except (OSError, TypeError):  # built in, or bound before it was called
        condition = repr(fact)
    return f"Not true after {LONG_S:g} s: {condition}"
