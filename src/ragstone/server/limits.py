"""Limit what callers may ask for: requests per address and key, and answers written at once."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.types import Scope

from ragstone.errors import OverloadedError, SettingsError, TooManyRequestsError
from ragstone.observe.metrics import WAITING, WRITING
from ragstone.settings import Settings
from ragstone.settings.services import ServerSettings

if TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.aio.storage import Storage
    from limits.aio.strategies import FixedWindowRateLimiter

log = logging.getLogger(__name__)

# Every request would wait this long for a Redis that does not answer, if it were asked each time.
_REDIS_TIMEOUTS = {"socket_timeout": 0.5, "socket_connect_timeout": 0.5}
_REDIS_RETRY_S = 5.0


class AnswerSlots:
    """Allow `max_generations` answers at once, let `max_waiting` requests wait, refuse the rest.

    Each of several processes has an equal share of both, so that the sum is never exceeded.
    """

    def __init__(self, options: ServerSettings) -> None:
        if options.max_generations < options.workers:
            raise SettingsError(
                f"{options.workers} workers cannot share {options.max_generations} answers.",
                hint="Raise server.max_generations, or start fewer workers.",
            )
        self._timeout_s = options.queue_timeout_s
        self._slots = asyncio.Semaphore(options.max_generations // options.workers)
        self._max_waiting = options.max_waiting // options.workers
        self._waiting = 0

    @asynccontextmanager
    async def hold_slot(self) -> AsyncIterator[None]:
        await self._acquire()
        WRITING.inc()
        try:
            yield
        finally:
            WRITING.dec()
            self._slots.release()

    async def _acquire(self) -> None:
        if not self._slots.locked():
            await self._slots.acquire()  # free: this does not wait
            return
        if self._waiting >= self._max_waiting:
            raise self._build_error(
                "The server is writing as many answers as it can, and the queue is full."
            )
        self._waiting += 1
        WAITING.inc()
        try:
            await asyncio.wait_for(self._slots.acquire(), self._timeout_s)
        except TimeoutError as error:
            raise self._build_error(
                f"The request waited {self._timeout_s:g} s, and no other answer was finished."
            ) from error
        finally:
            self._waiting -= 1
            WAITING.dec()

    def _build_error(self, message: str) -> OverloadedError:
        return OverloadedError(
            message,
            hint="Try again in a few seconds.",
            retry_after_s=max(1, int(self._timeout_s / 4)),
        )


class RequestCounter:
    """Count in a storage that all processes share; while it fails, in this process alone."""

    def __init__(self, storage: Storage) -> None:
        from limits.aio.storage import MemoryStorage
        from limits.aio.strategies import FixedWindowRateLimiter

        self._storage = storage
        self._shared = FixedWindowRateLimiter(storage)
        self._own = FixedWindowRateLimiter(MemoryStorage())
        self._is_lost = False
        self._retry_at = 0.0

    async def count(self, item: RateLimitItem, *names: str) -> float | None:
        """Count one request; return None, or above the limit the time when the window ends."""
        from limits.errors import StorageError

        if not self._is_lost or time.monotonic() >= self._retry_at:
            try:
                reset_at = await _count(self._shared, item, names)
            except StorageError as error:
                self._note_loss(type(error.storage_error).__name__)
            else:
                self._note_return()
                return reset_at
        return await _count(self._own, item, names)

    async def close(self) -> None:
        bridge = getattr(self._storage, "bridge", None)  # memory has none
        if bridge is not None:
            await bridge.get_connection().aclose()

    def _note_loss(self, kind: str) -> None:
        if not self._is_lost:
            log.warning("requests are counted in each process alone: %s", kind)
        self._is_lost, self._retry_at = True, time.monotonic() + _REDIS_RETRY_S

    def _note_return(self) -> None:
        if self._is_lost:
            log.warning("requests are counted for all processes together again")
        self._is_lost = False


async def _count(
    limiter: FixedWindowRateLimiter, item: RateLimitItem, names: tuple[str, ...]
) -> float | None:
    if await limiter.hit(item, *names):
        return None
    return (await limiter.get_window_stats(item, *names)).reset_time


class RateLimit:
    """Apply one limit, e.g. 1200/minute, to any number of callers of one kind."""

    def __init__(self, limit: str, counter: RequestCounter, *, kind: str) -> None:
        self._items = _parse_limit(limit)
        self._counter = counter
        self._kind = kind

    async def count(self, name: str) -> None:
        """Count a request, or refuse it and say when to try again."""
        for item in self._items:
            reset_at = await self._counter.count(item, self._kind, name)
            if reset_at is not None:
                wait_s = max(1, math.ceil(reset_at - time.time()))
                raise TooManyRequestsError(
                    f"This {self._kind} has sent more than {item.amount} requests "
                    f"in {item.get_expiry()} s.",
                    hint=f"Try again in {wait_s} s.",
                    retry_after_s=wait_s,
                )


def _parse_limit(limit: str) -> list[RateLimitItem]:
    from limits import parse_many

    try:
        return parse_many(limit) if limit else []
    except ValueError as error:
        raise SettingsError(
            f"Invalid rate limit '{limit}'.",
            hint="Use e.g. '1200/minute' or '20/second;5000/hour'.",
        ) from error


class RateLimits:
    """Apply the limits per address and per key of a server."""

    def __init__(self, settings: Settings) -> None:
        server = settings.server
        self._counter = RequestCounter(_open_storage(server.rate_storage.get_secret_value()))
        self._per_address = RateLimit(server.rate_per_ip, self._counter, kind="address")
        self._per_key = RateLimit(server.rate_per_key, self._counter, kind="key")

    async def count_key(self, key_id: str) -> None:
        """Count a request of a key. A caller without one is local and has no limit."""
        if key_id:
            await self._per_key.count(key_id)

    async def count_address(self, scope: Scope) -> None:
        host = (scope.get("client") or ("",))[0]
        if not is_loopback(host):
            await self._per_address.count(host)

    async def close(self) -> None:
        await self._counter.close()


def is_loopback(host: str) -> bool:
    if host in ("", "localhost"):
        return host == "localhost"
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _open_storage(url: str) -> Storage:
    from limits.aio.storage import Storage
    from limits.errors import ConfigurationError
    from limits.storage import storage_from_string

    scheme, _, rest = url.partition("://")
    # redis-py is what the extra brings; the library would look for another client.
    options: dict[str, str | float] = {}
    if scheme != "memory":
        options = {"implementation": "redispy", **_REDIS_TIMEOUTS}
    try:
        storage = storage_from_string(f"async+{scheme}://{rest}", wrap_exceptions=True, **options)
    except ConfigurationError:
        raise SettingsError(
            "Invalid server.rate_storage: unknown kind of address, or its client is missing.",
            hint="Use memory:// or redis://HOST:6379 with pip install 'ragstone[redis]'.",
        ) from None  # the library's message holds the whole address, with its password
    assert isinstance(storage, Storage)
    return storage
