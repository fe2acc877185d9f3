"""Reading server-sent events: each `data:` line as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx


def stream(
    client: httpx.Client, path: str, body: object, **headers: str
) -> Iterator[dict[str, Any]]:
    """The events of a reply as they arrive; `[DONE]` is the last and is not passed on."""
    sent = {"accept": "text/event-stream", **headers}
    with client.stream("POST", path, json=body, headers=sent) as reply:
        assert reply.status_code == 200, reply.read()
        assert reply.headers["content-type"].startswith("text/event-stream")
        for line in reply.iter_lines():
            if line and line != "data: [DONE]":
                yield json.loads(line.removeprefix("data: "))


def events(client: httpx.Client, path: str, body: object) -> list[dict[str, Any]]:
    return [*stream(client, path, body)]
