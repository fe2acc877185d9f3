"""Events arrive while the answer is written, in their order; who goes away stops the work."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from ..patience import LONG_S, until, wait_until
from ..providers.stand_in import StandIn
from .events import events, stream
from .test_query import problem

QUESTION = {"query": "Is the gate green?"}


def leave_when_asked(
    client: httpx.Client,
    model: StandIn,
    path: str,
    body: dict[str, Any],
    headers: dict[str, str] | None = None,
    *,
    models: int = 1,
) -> None:
    """Ask, and hang up as soon as so many models have been asked and are silent."""

    async def ask_and_leave() -> None:
        async with httpx.AsyncClient(base_url=client.base_url, timeout=LONG_S) as leaving:
            asking = asyncio.create_task(leaving.post(path, json=body, headers=headers))
            await until(lambda: asking.done() or model.silent == models)
            assert not asking.done(), "the reply came before the model's first word"
            asking.cancel()
            await asyncio.wait({asking})

    asyncio.run(ask_and_leave())


def test_the_events_are_sources_tokens_claims_done(written: httpx.Client) -> None:
    found = events(written, "/v1/query", QUESTION)
    kinds = [event["type"] for event in found]
    assert kinds[0] == "sources"
    assert kinds[-2:] == ["claims", "done"]
    assert set(kinds[1:-2]) == {"token", "verdicts"}
    assert found[0]["sources"][0]["document_name"] == "gate.txt"
    tokens = [event for event in found if event["type"] == "token"]
    assert all(event["verified"] is False for event in tokens)
    assert "".join(event["content"] for event in tokens) == "The gate is green [Source 1]."
    assert found[-2]["claims"][0]["verdict"] == "supported"
    whole = written.post("/v1/query", json=QUESTION).json()
    assert found[-1].keys() == {*whole, "type"}
    assert found[-1]["answer"] == whole["answer"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/query", QUESTION),
        ("/api/chat/stream", {"messages": [{"role": "user", "content": QUESTION["query"]}]}),
    ],
)
def test_a_text_that_the_check_changed_is_announced(
    written: httpx.Client, model: StandIn, path: str, body: dict[str, Any]
) -> None:
    model.words = ["The gate is green."]
    found = events(written, path, body)
    replaced = [event for event in found if event["type"] == "replaced"]
    assert len(replaced) == 1
    assert replaced[0]["content"].startswith("The gate is green. [")
    model.words = [replaced[0]["content"]]
    assert "replaced" not in [event["type"] for event in events(written, path, body)]


def test_events_arrive_while_the_model_still_writes(written: httpx.Client, model: StandIn) -> None:
    model.behaviours = ["held"]
    seen = []
    for event in stream(written, "/v1/query", QUESTION):
        seen.append(event["type"])
        if event["type"] == "token":
            model.go.set()  # it does not write on before this
    assert model.go.is_set()
    assert (seen[0], seen[1], seen[-1]) == ("sources", "token", "done")


def test_a_client_that_leaves_a_stream_stops_the_model(
    written: httpx.Client, model: StandIn
) -> None:
    model.behaviours, model.words = ["drip"], ["word "] * 100
    for event in stream(written, "/v1/query", QUESTION):
        if event["type"] == "token":
            break
    wait_until(lambda: model.cancelled == 1)


MESSAGES = [{"role": "user", "content": "Is the gate green?"}]
ASKED = {"name": "ask", "arguments": {"question": "Is the gate green?"}}
EVENTS = {"accept": "text/event-stream"}
# Every door behind which a model writes, and how it is asked.
DOORS: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("/v1/query", QUESTION, {}),
    ("/v1/query", QUESTION, EVENTS),
    ("/api/chat", {"messages": MESSAGES}, {}),
    ("/api/chat", {"messages": MESSAGES, "rag_enabled": False}, {}),
    ("/api/chat/stream", {"messages": MESSAGES}, {}),
    ("/api/chat/stream", {"messages": MESSAGES, "rag_enabled": False}, {}),
    ("/v1/chat/completions", {"model": "ragstone", "messages": MESSAGES}, {}),
    ("/v1/chat/completions", {"model": "ragstone", "messages": MESSAGES, "stream": True}, {}),
    ("/chat/9/stream", {"message": "Is the gate green?"}, {}),
    ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ASKED},
     {"accept": "application/json, text/event-stream"}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "headers"), DOORS)
def test_a_client_that_leaves_before_the_first_word_stops_the_model(
    written: httpx.Client, model: StandIn, path: str, body: dict[str, Any], headers: dict[str, str]
) -> None:
    if path.startswith("/chat/"):
        note = {"files": ("gate.txt", b"The gate is green.")}
        assert written.post("/chat/9/documents", files=note).status_code == 200
    model.behaviours = ["slow"]
    leave_when_asked(written, model, path, body, headers)
    wait_until(lambda: model.cancelled == 1)


def test_a_client_that_leaves_a_comparison_of_presets_stops_both_models(
    written: httpx.Client, model: StandIn
) -> None:
    model.behaviours = ["slow", "slow"]
    body = {**QUESTION, "presets": ["minimal", "balanced"]}
    leave_when_asked(written, model, "/v1/compare", body, models=2)
    wait_until(lambda: model.cancelled == 2)


def test_a_question_that_is_refused_is_a_plain_problem_and_no_stream(
    written: httpx.Client,
) -> None:
    headers = {"accept": "text/event-stream"}
    problem(written.post("/v1/query", json={"query": "?"}, headers=headers), 422)


def test_a_model_that_fails_within_a_stream_is_an_error_event(
    written: httpx.Client, model: StandIn
) -> None:
    model.behaviours = ["cut"]
    found = events(written, "/v1/query", {**QUESTION, "rag_enabled": False})
    assert {event["type"] for event in found[:-1]} == {"token"}
    assert found[-1]["type"] == "error"
    assert found[-1]["status"] == 502
    assert found[-1]["request_id"]
