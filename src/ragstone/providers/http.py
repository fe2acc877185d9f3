"""Send JSON and stream lines: the one HTTP client of all chat services.

The SDKs of the services are not used: each retries in its own way, changes with its major versions
and brings its own client, while the protocols are short and stable.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from ragstone.providers.retry import (
    Failure,
    MissingKeyError,
    Service,
    StatusError,
    explain_missing_key,
    explain_status,
)
from ragstone.threads import PerLoop

# With 500 calls at once, httpx takes 30 CPU ms for each in one pool and 5 in pools of about 32. The
# number of calls is limited by `server.max_generations`, not here: a call that waits for a
# connection would lose time of its time-out.
_MAX_CALLS_PER_POOL = 32
_LAST_BYTES_S = 0.2
_SECRET_HEADERS = frozenset({"authorization", "api-key", "x-api-key", "x-goog-api-key"})
# These services need a key; a compatible server at another address may need none.
_HOSTS_WITH_KEYS = frozenset(
    {"api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com"}
)
# A shorter one occurs inside of words.
_MIN_SECRET_CHARS = 4


@dataclass(slots=True)
class _Pool:
    """Hold connections, and the number of calls that use them now."""

    client: httpx.AsyncClient
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Call one address with its headers. Each event loop has its own pools of connections."""

    service: Service
    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    _pools: PerLoop[list[_Pool]] = field(default_factory=lambda: PerLoop(list))

    async def stream_lines(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        """Yield the lines of the reply as they come; leaving early closes the connection."""
        if lacks_key(self.base_url, self.headers):
            raise MissingKeyError
        with self._client() as client:
            async with client.stream("POST", path, json=dict(body)) as reply:
                if reply.status_code >= 400:
                    text = (await reply.aread()).decode("utf-8", "replace")
                    raise StatusError(
                        reply.status_code,
                        reply.headers.get("retry-after"),
                        extract_detail(hide_secrets(text, self.headers)),
                    )
                async for line in reply.aiter_lines():
                    yield line

    async def stream_events(
        self, path: str, body: Mapping[str, Any]
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the JSON of each `data:` line of an event stream, up to `[DONE]`."""
        lines = self.stream_lines(path, body)
        async with aclosing(lines):
            async for line in lines:
                data = line[5:].strip() if line.startswith("data:") else ""
                if data == "[DONE]":
                    await _drain(lines)
                    return
                if data:
                    yield parse_object(data)

    def explain(self, error: Exception, model: str = "") -> Failure | None:
        if isinstance(error, MissingKeyError):
            return explain_missing_key(self.service)
        if not isinstance(error, StatusError):
            return None
        return explain_status(
            self.service,
            error.status,
            error.retry_after,
            error.detail,
            model=model,
            has_key=_has_key(self.headers),
        )

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        for pool in self._pools.pop() or []:
            await pool.client.aclose()

    @contextmanager
    def _client(self) -> Iterator[httpx.AsyncClient]:
        """Use the first pool with room: httpx looks at all connections of a pool at every call."""
        pools = self._pools.get()
        pool = next((one for one in pools if one.calls < _MAX_CALLS_PER_POOL), None)
        if pool is None:
            pool = _Pool(
                httpx.AsyncClient(
                    base_url=self.base_url,
                    headers=self.headers,
                    timeout=None,  # noqa: S113  `stream_with_retries` has the time-out
                    limits=httpx.Limits(max_connections=None),
                )
            )
            pools.append(pool)
        pool.calls += 1
        try:
            yield pool.client
        finally:
            pool.calls -= 1


@dataclass(frozen=True, slots=True)
class HttpWire:
    """Share what every wire over HTTP needs: an endpoint, its errors, and closing it."""

    endpoint: Endpoint

    @property
    def service(self) -> Service:
        return self.endpoint.service

    def explain(self, error: Exception, model: str) -> Failure | None:
        return self.endpoint.explain(error, model)

    async def aclose(self) -> None:
        await self.endpoint.aclose()


async def _drain(lines: AsyncIterator[str]) -> None:
    """Read a finished reply to its end: only then can its connection serve the next call."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_BYTES_S):
            async for _ in lines:
                pass


def parse_object(text: str) -> dict[str, Any]:
    """Parse one JSON object; raise a ValueError for anything else."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  the reply is wrong, not the caller
    return value


def lacks_key(url: str, headers: Mapping[str, str]) -> bool:
    """Return whether an address needs a key and the headers have none."""
    return urlsplit(url).hostname in _HOSTS_WITH_KEYS and not _has_key(headers)


def _has_key(headers: Mapping[str, str]) -> bool:
    return any(name in _SECRET_HEADERS and value for name, value in headers.items())


def hide_secrets(text: str, headers: Mapping[str, str]) -> str:
    """Remove the keys that were sent from a reply: some services repeat a wrong one."""
    for name, value in headers.items():
        secret = value.removeprefix("Bearer ")
        if name in _SECRET_HEADERS and len(secret) >= _MIN_SECRET_CHARS:
            text = text.replace(secret, "********")
    return text


def extract_detail(text: str) -> str:
    """Return the message of an error body, in any of the usual forms, and the field it names."""
    try:
        body = json.loads(text)
    except ValueError:
        return text.strip()
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return str(error)
    message = str(error.get("message", error))
    named = [str(error[name]) for name in ("param", "code") if error.get(name)]
    if error.get("n_ctx"):  # the window of a llama.cpp server
        named.append(f"n_ctx={error['n_ctx']}")
    return " ".join([message, *(f"({one})" for one in named if one not in message)])
