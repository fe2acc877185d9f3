"""Answers of a model come from the cache where that is asked for, and every endpoint says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ..patience import LONG_S
from ..providers.stand_in import StandIn
from .conftest import serve_with_model
from .test_rag_enabled import ENDPOINTS, ask_mcp


@pytest.fixture(params=["off", "on"])
def cache(
    request: pytest.FixtureRequest, tmp_path: Path, model: StandIn
) -> Iterator[tuple[bool, httpx.Client]]:
    flags = {"data.answer_cache": 100, "data.cache_model_answers": request.param == "on"}
    for address in serve_with_model(tmp_path, model, collections=("default", "chat_7"), **flags):
        with httpx.Client(base_url=address, timeout=LONG_S) as client:
            yield request.param == "on", client


def read_mark(reply: httpx.Response) -> bool:
    """Return `cached` of a reply, or of the event of a stream that has it."""
    if "event-stream" not in reply.headers["content-type"]:
        body = reply.json()
        return bool(body.get("data", body)["cached"])
    lines = [line[6:] for line in reply.text.splitlines() if line.startswith("data: {")]
    events: list[dict[str, Any]] = [json.loads(line) for line in lines]
    (marked,) = [one for one in (event.get("data", event) for event in events) if "cached" in one]
    return bool(marked["cached"])


def test_every_endpoint_marks_a_cached_answer(
    cache: tuple[bool, httpx.Client], model: StandIn
) -> None:
    is_on, client = cache
    for path, body in ENDPOINTS:
        # A conversation is part of the question: the second turn of one is another question.
        sessions = [{"session_id": name} if "/chat/7" in path else {} for name in ("a", "b")]
        replies = [client.post(path, json={**body, **session}) for session in sessions]
        assert [reply.status_code for reply in replies] == [200, 200], path
        assert read_mark(replies[1]) is is_on, path
    accept = {"Accept": "text/event-stream"}
    assert read_mark(client.post("/v1/query", json=ENDPOINTS[0][1], headers=accept)) is is_on
    assert ask_mcp(client)["cached"] is is_on  # the same key as at /v1/query
    assert is_on == (len(model.calls) < 2 * len(ENDPOINTS))


def test_a_comparison_is_written_anew(cache: tuple[bool, httpx.Client], model: StandIn) -> None:
    _, client = cache
    body = {"messages": [{"role": "user", "content": "Is the gate green?"}]}
    for expected in (2, 4):
        assert client.post("/api/chat/compare", json=body).status_code == 200
        assert len(model.calls) == expected
