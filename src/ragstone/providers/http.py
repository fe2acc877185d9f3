"""JSON in, lines out: the one HTTP client under every wire.

The services' own SDKs are not used: each retries in its own way, changes shape with its major
versions and brings its own client; the protocols are a page of JSON each and stable.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from ragstone.providers.chat import Failure, status_failure
from ragstone.threads import PerLoop

# With 500 calls at once, httpx takes 30 CPU ms for each in one pool and 5 in pools of about 32. How
# many pools there are is the server's to say (`server.max_generations`): a call that waits here for
# a connection would only lose its time-out to it.
_CALLS_PER_POOL = 32
_LAST_BYTES_S = 0.2
_SECRET_HEADERS = frozenset({"authorization", "x-api-key", "x-goog-api-key"})
# A shorter one would be found inside of words.
_SHORTEST_SECRET = 4


class StatusError(Exception):
    """The service answered with an error's status."""

    def __init__(self, status: int, retry_after: str | None, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status, self.retry_after, self.detail = status, retry_after, detail


@dataclass(slots=True)
class _Pool:
    """Connections, and how many calls they carry now."""

    client: httpx.AsyncClient
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address with its headers. Connections are pooled, for each event loop by itself."""

    name: str
    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    _pools: PerLoop[list[_Pool]] = field(default_factory=lambda: PerLoop(list))

    async def lines(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        """The lines of the reply as they come; leaving early closes the connection."""
        with self._client() as client:
            async with client.stream("POST", path, json=dict(body)) as reply:
                if reply.status_code >= 400:
                    text = (await reply.aread()).decode("utf-8", "replace")
                    raise StatusError(
                        reply.status_code,
                        reply.headers.get("retry-after"),
                        detail(hide_secrets(text, self.headers)),
                    )
                async for line in reply.aiter_lines():
                    yield line

    async def events(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The JSON of each `data:` line of an event stream, up to `[DONE]`."""
        lines = self.lines(path, body)
        async with aclosing(lines):
            async for line in lines:
                data = line[5:].strip() if line.startswith("data:") else ""
                if data == "[DONE]":
                    await _run_out(lines)
                    return
                if data:
                    yield decoded(data)

    def explain(self, error: Exception) -> Failure | None:
        if isinstance(error, StatusError):
            return status_failure(self.name, error.status, error.retry_after, error.detail)
        return None

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        for pool in self._pools.pop() or []:
            await pool.client.aclose()

    @contextmanager
    def _client(self) -> Iterator[httpx.AsyncClient]:
        """The first pool with room: one alone looks at all of its connections at every call."""
        pools = self._pools.get()
        pool = next((one for one in pools if one.calls < _CALLS_PER_POOL), None)
        if pool is None:
            pool = _Pool(
                httpx.AsyncClient(
                    base_url=self.base_url, headers=self.headers, timeout=None,  # noqa: S113  calls.py times everything
                    limits=httpx.Limits(max_connections=None),
                )
            )  # fmt: skip
            pools.append(pool)
        pool.calls += 1
        try:
            yield pool.client
        finally:
            pool.calls -= 1


@dataclass(frozen=True, slots=True)
class HttpWire:
    """What every wire over HTTP has in common: an address, its failures, and its end."""

    endpoint: Endpoint

    def explain(self, error: Exception) -> Failure | None:
        return self.endpoint.explain(error)

    async def aclose(self) -> None:
        await self.endpoint.aclose()


async def _run_out(lines: AsyncIterator[str]) -> None:
    """Read to the end of a reply that has said its last word: only then can its connection serve
    the next call."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_BYTES_S):
            async for _ in lines:
                pass


def decoded(text: str) -> dict[str, Any]:
    """One JSON object; anything else is a ValueError, which the policy understands."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  the reply is wrong, not the caller
    return value


def hide_secrets(text: str, headers: Mapping[str, str]) -> str:
    """Take the keys that were sent out of a reply: some services repeat a wrong one."""
    for name, value in headers.items():
        secret = value.removeprefix("Bearer ")
        if name in _SECRET_HEADERS and len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "********")
    return text


def detail(text: str) -> str:
    """What an error's body says, wherever the service puts it."""
    try:
        body = json.loads(text)
    except ValueError:
        return text.strip()
    error = body.get("error", body) if isinstance(body, dict) else body
    return str(error.get("message", error) if isinstance(error, dict) else error)
