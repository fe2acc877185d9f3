"""How a process that serves for weeks treats its memory."""

from __future__ import annotations

import asyncio
import gc

from ragstone.system import find_libc_function

# glibc's numbers of these (malloc.h).
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_TRIM_S = 20.0


def settle_collector() -> None:
    """What is there when the server starts stays for good: the collector need not look at it.

    Half a million objects of libraries and models cost 0.4 ms of every repeated answer.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)


def settle_allocator() -> None:
    """Two arenas for all threads, and large blocks given back when they are free.

    glibc gives each thread an arena of its own, and takes ever larger blocks from them once one
    was freed; what lies between two blocks in use is never given back.
    """
    mallopt = find_libc_function("mallopt")
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 2)
        mallopt(_M_MMAP_THRESHOLD, 1 << 20)


async def give_back_memory() -> None:
    """From time to time, what is free inside of the allocator goes back to the system."""
    trim = find_libc_function("malloc_trim")
    while trim is not None:
        await asyncio.sleep(_TRIM_S)
        await asyncio.to_thread(trim, 0)
