"""How often one address and one key may ask: counted in this process, or in Redis for many."""

from __future__ import annotations

import ipaddress
import logging
import math
import time
from typing import TYPE_CHECKING

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from ragstone.errors import SettingsError, TooManyRequestsError
from ragstone.server.errors import explained
from ragstone.settings import Settings

if TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.aio.storage import Storage
    from limits.aio.strategies import FixedWindowRateLimiter


log = logging.getLogger(__name__)

# Every request would wait this long for a Redis that does not answer, if it were asked each time.
_PATIENCE = {"socket_timeout": 0.5, "socket_connect_timeout": 0.5}
_ASKED_AGAIN_S = 5.0


class Tally:
    """Counts in the storage of all processes; while that is away, in this process alone."""

    def __init__(self, storage: Storage) -> None:
        from limits.aio.storage import MemoryStorage
        from limits.aio.strategies import FixedWindowRateLimiter

        self._storage = storage
        self._together = FixedWindowRateLimiter(storage)
        self._alone = FixedWindowRateLimiter(MemoryStorage())
        self._away = False
        self._ask_at = 0.0

    async def hit(self, item: RateLimitItem, *names: str) -> float | None:
        """Count one; None, or where there were too many already the time when there are fewer."""
        from limits.errors import StorageError

        if not self._away or time.monotonic() >= self._ask_at:
            try:
                wait = await _hit(self._together, item, names)
            except StorageError as error:
                self._lost(type(error.storage_error).__name__)
            else:
                self._found()
                return wait
        return await _hit(self._alone, item, names)

    async def close(self) -> None:
        bridge = getattr(self._storage, "bridge", None)  # memory has none
        if bridge is not None:
            await bridge.get_connection().aclose()

    def _lost(self, kind: str) -> None:
        if not self._away:
            log.warning("requests are counted in each process alone: %s", kind)
        self._away, self._ask_at = True, time.monotonic() + _ASKED_AGAIN_S

    def _found(self) -> None:
        if self._away:
            log.warning("requests are counted for all processes together again")
        self._away = False


async def _hit(
    limiter: FixedWindowRateLimiter, item: RateLimitItem, names: tuple[str, ...]
) -> float | None:
    if await limiter.hit(item, *names):
        return None
    return (await limiter.get_window_stats(item, *names)).reset_time


class Rate:
    """One limit, e.g. 1200/minute, for any number of callers."""

    def __init__(self, limit: str, tally: Tally, *, who: str) -> None:
        self._items = _parsed(limit)
        self._tally = tally
        self._who = who

    async def spend(self, name: str) -> None:
        """Count a request, or refuse it and say when to come back."""
        for item in self._items:
            until = await self._tally.hit(item, self._who, name)
            if until is not None:
                wait = max(1, math.ceil(until - time.time()))
                raise TooManyRequestsError(
                    f"This {self._who} has sent more than {item.amount} requests "
                    f"in {item.get_expiry()} s.",
                    hint=f"Come back in {wait} s.",
                    retry_after_s=wait,
                )


def _parsed(limit: str) -> list[RateLimitItem]:
    from limits import parse_many

    try:
        return parse_many(limit) if limit else []
    except ValueError as error:
        raise SettingsError(
            f"'{limit}' is no rate.", hint="Write 1200/minute, or 20/second;5000/hour."
        ) from error


class Rates:
    """The limits of a server."""

    def __init__(self, settings: Settings) -> None:
        server = settings.server
        self._tally = Tally(_storage(server.rate_storage.get_secret_value()))
        self._per_ip = Rate(server.rate_per_ip, self._tally, who="address")
        self._per_key = Rate(server.rate_per_key, self._tally, who="key")

    async def spend_key(self, key_id: str) -> None:
        """Whoever needs no key sits at the machine and is not counted."""
        if key_id:
            await self._per_key.spend(key_id)

    async def spend_ip(self, scope: Scope) -> None:
        host = (scope.get("client") or ("",))[0]
        if not is_loopback(host):
            await self._per_ip.spend(host)

    async def close(self) -> None:
        await self._tally.close()


def is_loopback(host: str) -> bool:
    if host in ("", "localhost"):
        return host == "localhost"
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _storage(url: str) -> Storage:
    from limits.aio.storage import Storage
    from limits.errors import ConfigurationError
    from limits.storage import storage_from_string

    try:
        scheme, _, rest = url.partition("://")
        # redis-py is what the extra brings; the library would look for another client.
        options: dict[str, str | float] = {}
        if scheme != "memory":
            options = {"implementation": "redispy", **_PATIENCE}
        address = f"async+{scheme}://{rest}"
        storage = storage_from_string(address, wrap_exceptions=True, **options)
    except ConfigurationError:
        raise SettingsError(
            "The requests cannot be counted there: no such address, or no client for it.",
            hint="Use memory:// or redis://HOST:6379 with pip install 'ragstone[redis]'.",
        ) from None  # the library's own words hold the whole address, with its password
    assert isinstance(storage, Storage)
    return storage


class AddressLimit:
    """Refuses an address that asks too often, before anything is read or looked up."""

    def __init__(self, app: ASGIApp, *, rates: Rates) -> None:
        self._app = app
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                await self._rates.spend_ip(scope)
            except TooManyRequestsError as error:
                await explained(Request(scope), error)(scope, receive, send)
                return
        await self._app(scope, receive, send)
