"""Send requests to Pinecone's REST API: find the host of the index, retry writes, explain errors.

The control plane says where an index is and what it holds; everything else goes to that host. The
key is sent in a header and is never part of a message.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any, Literal

import httpx

from ragstone.errors import SettingsError, StoreError, StoreUnavailableError
from ragstone.index.chunk_store import MissingCollectionError
from ragstone.settings import IndexSettings

log = logging.getLogger(__name__)

# The API is versioned by date; a version is supported for at least a year after the next one.
API_VERSION = "2025-10"
_RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})
_FIRST_DELAY_S = 0.2
# A failure is remembered for this long: requests do not queue behind it.
_FAIL_FAST_S = 1.0


class PineconeClient:
    """Call one Pinecone index."""

    def __init__(self, settings: IndexSettings, *, dimension: int) -> None:
        key = settings.pinecone_api_key.get_secret_value()
        if not key:
            raise SettingsError(
                "Pinecone needs an API key.", hint="Set PINECONE_API_KEY, or another index.kind."
            )
        headers = {"Api-Key": key, "X-Pinecone-Api-Version": API_VERSION}
        self._control = httpx.Client(base_url=settings.pinecone_url, headers=headers)
        self._headers = headers
        self._settings = settings
        self._dimension = dimension
        self._host: httpx.Client | None = None
        self._opening = threading.Lock()
        self._down_until = 0.0

    def read(
        self, method: Literal["GET", "POST"], path: str, body: Mapping[str, Any] | None = None
    ) -> httpx.Response:
        """Send a request that changes nothing; somebody waits for it, so it is tried once."""
        try:
            return self._send(self._open(), method, path, body, self._settings.pinecone_timeout_s)
        except MissingCollectionError as error:
            raise self._make_gone() from error

    def write(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        """Send a request that may safely be sent twice; try again, because nobody waits for it."""
        delay_s, timeout_s = _FIRST_DELAY_S, self._settings.pinecone_write_timeout_s
        for left in reversed(range(self._settings.pinecone_retries + 1)):
            try:
                return self._send(self._open(), "POST", path, body, timeout_s)
            except StoreUnavailableError:
                if not left:
                    raise
            time.sleep(max(delay_s, self._down_until - time.monotonic()))
            delay_s *= 2
        raise AssertionError("the loop returns or raises")

    def _make_gone(self) -> StoreError:
        return StoreError(
            f"The Pinecone index '{self._settings.pinecone_index}' is gone.",
            hint="Create it again, start Ragstone again and run: ragstone reindex",
        )

    def close(self) -> None:
        self._control.close()
        if self._host is not None:
            self._host.close()

    def _open(self) -> httpx.Client:
        """Return the client of the index, whose host and form the control plane knows."""
        with self._opening:
            if self._host is None:
                self._host = self._find_host()
            return self._host

    def _find_host(self) -> httpx.Client:
        name = self._settings.pinecone_index
        timeout_s = self._settings.pinecone_write_timeout_s
        create = (
            f"Create a serverless index '{name}' with dimension {self._dimension} and metric "
            "dotproduct, or set RAGSTONE_INDEX_PINECONE_INDEX."
        )
        try:
            reply = self._send(self._control, "GET", f"/indexes/{name}", None, timeout_s).json()
        except MissingCollectionError as error:
            raise StoreError(f"Pinecone has no index '{name}'.", hint=create) from error
        found = (reply.get("dimension"), reply.get("metric"))
        if found != (self._dimension, "dotproduct"):
            raise StoreError(
                f"The Pinecone index '{name}' has dimension {found[0]} and metric {found[1]}; this "
                f"embedder needs {self._dimension} and dotproduct.",
                hint=f"A form cannot be changed later. {create}",
            )
        if not reply.get("status", {}).get("ready"):
            raise StoreUnavailableError(
                f"The Pinecone index '{name}' is not ready yet.", hint="Try again in a minute."
            )
        host = str(reply["host"])
        if "://" not in host:  # Pinecone names the host alone; a local one has no certificate
            host = f"{self._settings.pinecone_url.partition('://')[0]}://{host}"
        return httpx.Client(base_url=host, headers=self._headers)

    def _send(
        self,
        client: httpx.Client,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        timeout_s: float,
    ) -> httpx.Response:
        if time.monotonic() < self._down_until:
            raise _make_unavailable()
        try:
            reply = client.request(method, path, json=body, timeout=timeout_s)
        except httpx.TransportError as error:
            self._down_until = time.monotonic() + _FAIL_FAST_S
            log.warning("Pinecone failed: %s", type(error).__name__)
            raise _make_unavailable() from error
        if reply.status_code in _RETRYABLE:
            self._down_until = time.monotonic() + _read_pause(reply)
            log.warning("Pinecone failed: %s %s", reply.status_code, _read_reason(reply))
            raise _make_unavailable()
        _check_status(reply)
        return reply


def _check_status(reply: httpx.Response) -> None:
    if reply.status_code < 400:
        return
    if reply.status_code in (401, 403):
        raise StoreError("Pinecone refuses the API key.", hint="Check PINECONE_API_KEY.")
    reason = _read_reason(reply)
    if reply.status_code == 404:
        raise MissingCollectionError(reason)
    raise StoreError(
        f"Pinecone refuses a request: {reason}.",
        hint="If it speaks of a quota, check the plan; else build the index again with: "
        "ragstone reindex",
    )


def _read_reason(reply: httpx.Response) -> str:
    """Return the message of an error: of the data plane, the control plane, or plain text."""
    try:
        body = reply.json()
        error = body.get("error", body)
        reason = str(error.get("message", "")) if isinstance(error, dict) else str(error)
    except (ValueError, AttributeError):
        reason = reply.text
    return reason.strip().partition("\n")[0][:200].rstrip(".")


def _read_pause(reply: httpx.Response) -> float:
    try:
        return min(float(reply.headers.get("retry-after", _FAIL_FAST_S)), 30.0)
    except ValueError:
        return _FAIL_FAST_S


def _make_unavailable() -> StoreUnavailableError:
    return StoreUnavailableError(
        "The index server (Pinecone) does not answer.",
        hint="Try again in a moment. If it stays so, check the network and "
        "RAGSTONE_INDEX_PINECONE_URL; the log has the reason.",
    )
