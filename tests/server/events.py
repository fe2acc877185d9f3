"""Reading server-sent events: each `data:` line as JSON, with the time it came in."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx


def stream(
    client: httpx.Client, path: str, body: object, **headers: str
) -> Iterator[tuple[float, dict[str, Any]]]:
    """The events of a reply as they arrive; `[DONE]` is the last and is not passed on."""
    sent = {"accept": "text/event-stream", **headers}
    with client.stream("POST", path, json=body, headers=sent) as reply:
        assert reply.status_code == 200, reply.read()
        assert reply.headers["content-type"].startswith("text/event-stream")
        for line in reply.iter_lines():
            if line and line != "data: [DONE]":
                yield time.monotonic(), json.loads(line.removeprefix("data: "))


def events(client: httpx.Client, path: str, body: object) -> list[dict[str, Any]]:
    return [event for _, event in stream(client, path, body)]
