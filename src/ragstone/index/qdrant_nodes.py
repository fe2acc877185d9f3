"""Send requests to the nodes of a Qdrant cluster: the next node takes over when one fails.

A node that does not answer is left out for some seconds; then a probe in the background asks it,
and no question waits for it. Errors name no address: the log does.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import httpx

from ragstone.errors import SettingsError, StoreError, StoreUnavailableError
from ragstone.index.chunk_store import MissingCollectionError
from ragstone.settings import IndexSettings

log = logging.getLogger(__name__)

Method: TypeAlias = Literal["GET", "PUT", "POST", "DELETE"]

_LEAVE_OUT_S = 5.0
# With no other node left a failure is remembered for this long: requests do not queue behind it.
_FAIL_FAST_S = 1.0
_FIRST_DELAY_S = 0.2
_MIN_TIMEOUT_S = 0.2


@dataclass(slots=True)
class _Node:
    url: str
    client: httpx.Client
    down_until: float = 0.0
    is_probed: bool = False
    failure: str = ""
    """Why it failed last."""

    @property
    def is_up(self) -> bool:
        return time.monotonic() >= self.down_until


class QdrantNodes:
    """Call Qdrant's REST interface on whichever node answers."""

    def __init__(self, settings: IndexSettings) -> None:
        key = settings.qdrant_api_key.get_secret_value()
        urls = [url.strip().rstrip("/") for url in settings.qdrant_url.split(",") if url.strip()]
        if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
            raise SettingsError(
                "Invalid value of RAGSTONE_INDEX_QDRANT_URL: an address is missing or has no "
                "http:// or https://.",
                hint="Use http://HOST:6333; separate the nodes of a cluster by commas.",
            )
        headers = {"api-key": key} if key else {}
        self._nodes = [_Node(url, httpx.Client(base_url=url, headers=headers)) for url in urls]
        # All nodes together answer within the time limit, or the request has failed.
        self._read_timeout_s = max(_MIN_TIMEOUT_S, settings.qdrant_timeout_s / len(urls))
        self._write_timeout_s = settings.qdrant_write_timeout_s
        self._write_rounds = settings.qdrant_retries + 1
        self._lock = threading.Lock()

    def read(self, method: Method, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the result of a request that changes nothing, of the first node that answers."""
        return self._try_nodes(method, path, body, self._read_timeout_s)

    def write(self, method: Method, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request that may safely be sent twice; try again, because nobody waits for it."""
        delay_s = _FIRST_DELAY_S
        for attempt in range(self._write_rounds):
            try:
                return self._try_nodes(method, path, body, self._write_timeout_s)
            except StoreUnavailableError:
                if attempt + 1 == self._write_rounds:
                    raise
            time.sleep(delay_s)
            delay_s *= 2
        raise AssertionError("the loop returns or raises")

    def close(self) -> None:
        for node in self._nodes:
            node.client.close()

    def _try_nodes(
        self, method: Method, path: str, body: Mapping[str, Any] | None, timeout_s: float
    ) -> Any:
        for node in self._list_usable():
            try:
                reply = node.client.request(method, path, json=body, timeout=timeout_s)
            except httpx.TransportError as error:
                self._leave_out(node, str(error) or type(error).__name__)
                continue
            if reply.status_code < 500 and reply.status_code != 429:
                body = _read_body(reply)
                if body is not None:
                    node.down_until, node.failure = 0.0, ""
                    return _read_result(reply, body)
            self._leave_out(node, f"{reply.status_code} {_read_reason(reply)}")
        raise StoreUnavailableError(
            "The index server (Qdrant) does not answer.",
            hint="Try again in a moment. If it stays so, check that its nodes run and "
            "RAGSTONE_INDEX_QDRANT_URL; the log names the node and the reason.",
            reason="; ".join(node.failure for node in self._nodes if node.failure),
        )

    def _list_usable(self) -> Iterator[_Node]:
        """Yield the nodes to ask: those that are well, then those whose time out is over."""
        well = [node for node in self._nodes if not node.down_until]
        due = [node for node in self._nodes if node.down_until and node.is_up]
        if well:
            # While others answer, a node that failed is asked by a probe and not by a question.
            for node in due:
                self._probe_in_background(node)
        yield from well
        yield from due

    def _leave_out(self, node: _Node, reason: str) -> None:
        others = [one for one in self._nodes if one is not node and one.is_up]
        with self._lock:
            node.down_until = time.monotonic() + (_LEAVE_OUT_S if others else _FAIL_FAST_S)
        node.failure = f"{node.url}: {reason}"
        log.warning("the Qdrant node %s failed: %s", node.url, reason)

    def _probe_in_background(self, node: _Node) -> None:
        with self._lock:
            if node.is_probed:
                return
            node.is_probed = True
        threading.Thread(target=self._probe, args=(node,), daemon=True).start()

    def _probe(self, node: _Node) -> None:
        try:
            node.client.get("/readyz", timeout=self._read_timeout_s).raise_for_status()
            node.down_until = 0.0
            log.info("the Qdrant node %s answers again", node.url)
        except httpx.HTTPError:
            node.down_until = time.monotonic() + _LEAVE_OUT_S
        finally:
            node.is_probed = False


def _read_body(reply: httpx.Response) -> dict[str, Any] | None:
    """Return what Qdrant replied; None if another service or a proxy is at its address."""
    if reply.status_code in (401, 403):
        return {}  # its only replies in plain text
    try:
        body = reply.json()
    except ValueError:
        return None
    return body if isinstance(body, dict) and "status" in body else None


def _read_result(reply: httpx.Response, body: dict[str, Any]) -> Any:
    if reply.status_code < 400:
        return body["result"]
    reason = _read_reason(reply)
    if reply.status_code == 404:
        raise MissingCollectionError(reason)
    if reply.status_code in (401, 403):
        raise StoreError(
            "The index server (Qdrant) refuses the API key.",
            hint="Check RAGSTONE_INDEX_QDRANT_API_KEY.",
        )
    raise StoreError(
        f"The index server (Qdrant) refuses a request: {reason}.",
        hint="Check its version and its disk; build the index again with: ragstone reindex",
    )


def _read_reason(reply: httpx.Response) -> str:
    try:
        status = reply.json().get("status")
        reason = status.get("error", "") if isinstance(status, dict) else str(status)
    except (ValueError, AttributeError):
        reason = reply.text
    return str(reason).strip().partition("\n")[0][:200].rstrip(".")
