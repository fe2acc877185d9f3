"""Cancel work as soon as the client that waits for it has disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from fastapi import Request
from starlette.types import Receive

from ragstone.server.errors import ClientGoneError

T = TypeVar("T")


async def run_until_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`; cancel it if the client disconnects first."""
    return await run_until(wait_for_disconnect(request.receive), work)


async def run_until(end: Coroutine[Any, Any, Any], work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`; cancel it and raise if `end` returns first."""
    task, ending = asyncio.create_task(work), asyncio.create_task(end)
    try:
        await asyncio.wait({task, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        return task.result()
    finally:
        await cancel_tasks(task, ending)


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has disconnected. The body was read before, so nothing else comes."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def cancel_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel what still runs, and wait until it has cleaned up."""
    for task in tasks:
        task.cancel()
    waiting: list[Awaitable[Any]] = [*tasks]
    await asyncio.gather(*waiting, return_exceptions=True)
