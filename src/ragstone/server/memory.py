"""Keep the memory of a server process small: garbage collector and allocator."""

from __future__ import annotations

import asyncio
import gc

from ragstone.system import find_libc_function
from ragstone.threads import run_in_thread

# The numbers of these options in glibc (malloc.h).
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_TRIM_INTERVAL_S = 20.0


def tune_collector() -> None:
    """Exclude everything that exists at the start from garbage collection.

    Half a million objects of libraries and models cost 0.4 ms of every repeated answer.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)


def tune_allocator() -> None:
    """Use two arenas for all threads, and return large blocks to the system when they are free.

    glibc gives each thread an arena of its own, and takes ever larger blocks from them once one
    was freed; what lies between two blocks in use is never returned.
    """
    mallopt = find_libc_function("mallopt")
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 2)
        mallopt(_M_MMAP_THRESHOLD, 1 << 20)


async def trim_memory() -> None:
    """Return what is free inside the allocator to the system, every few seconds."""
    trim = find_libc_function("malloc_trim")
    while trim is not None:
        await asyncio.sleep(_TRIM_INTERVAL_S)
        await run_in_thread("store", trim, 0)
