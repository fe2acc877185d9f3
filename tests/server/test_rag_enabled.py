"""`RAG_ENABLED` and `rag_enabled` mean the same at every endpoint and command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ..cli.run import call
from ..patience import LONG_S
from ..providers.stand_in import StandIn
from .conftest import serve_with_model

QUESTION = "Is the gate green?"
MESSAGES = [{"role": "user", "content": QUESTION}]
ENDPOINTS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/query", {"query": QUESTION}),
    ("/chat/7/stream", {"message": QUESTION}),
    ("/api/chat", {"messages": MESSAGES}),
    ("/api/chat/stream", {"messages": MESSAGES}),
    ("/v1/chat/completions", {"model": "ragstone", "messages": MESSAGES}),
    ("/v1/chat/completions", {"model": "ragstone", "messages": MESSAGES, "stream": True}),
]


def ask_mcp(client: httpx.Client, **arguments: Any) -> dict[str, Any]:
    params = {"name": "ask", "arguments": {"question": QUESTION, **arguments}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    accept = {"Accept": "application/json, text/event-stream"}
    reply = client.post("/mcp", json=body, headers=accept).json()
    content: dict[str, Any] = json.loads(reply["result"]["content"][0]["text"])
    return content


@pytest.fixture(params=["off", "on"])
def rag(
    request: pytest.FixtureRequest, tmp_path: Path, model: StandIn
) -> Iterator[tuple[str, httpx.Client]]:
    flags = {"RAG_ENABLED": "false" if request.param == "off" else "true"}
    for address in serve_with_model(tmp_path, model, collections=("default", "chat_7"), **flags):
        with httpx.Client(base_url=address, timeout=LONG_S) as client:
            yield request.param, client


def read_prompt(model: StandIn) -> list[dict[str, str]]:
    (call_,) = model.calls
    sent: list[dict[str, str]] = call_["body"]["messages"]
    model.calls.clear()
    return sent


def test_the_setting_and_the_request_mean_the_same_everywhere(
    rag: tuple[str, httpx.Client], model: StandIn
) -> None:
    setting, client = rag
    for wanted in (None, False, True):
        is_plain = setting == "off" if wanted is None else not wanted
        more = {} if wanted is None else {"rag_enabled": wanted}
        for path, body in ENDPOINTS:
            session = {"session_id": f"with-{wanted}"} if path.startswith("/chat/") else {}
            reply = client.post(path, json={**body, **more, **session})
            assert reply.status_code == 200, (path, reply.text)
            sent = read_prompt(model)
            assert (sent == MESSAGES) is is_plain, (path, wanted)
            assert ("painted in 2020" in str(sent)) is not is_plain, (path, wanted)
        answer = ask_mcp(client, **more)
        assert (answer["status"] == "ungrounded") is is_plain
        assert (read_prompt(model) == MESSAGES) is is_plain


def test_every_reply_says_that_no_document_was_read(
    rag: tuple[str, httpx.Client], model: StandIn
) -> None:
    _, client = rag
    reply = client.post("/v1/query", json={"query": QUESTION, "rag_enabled": False}).json()
    assert (reply["status"], reply["is_grounded"]) == ("ungrounded", False)
    assert (reply["route"], reply["citations"]) == ("plain", [])
    body = {"messages": MESSAGES, "rag_enabled": False}
    chat = client.post("/api/chat", json=body).json()["data"]
    assert (chat["status"], chat["rag_enabled"]) == ("ungrounded", False)
    assert client.get("/v1/queries").json()[0]["status"] == "ungrounded"
    problem = client.post("/api/chat/compare", json=body)
    assert problem.status_code == 422
    assert "rag_enabled" in problem.json()["detail"]


def test_the_command_line_has_both_ways(tmp_path: Path, model: StandIn) -> None:
    environment = {
        "LLM_PROVIDER": "openai",
        "OPENAI_BASE_URL": f"{model.url}/v1",
        "RAGSTONE_DATA": str(tmp_path / "data"),
    }
    ways: list[tuple[list[str], dict[str, str]]] = [
        (["--no-rag"], {}),
        ([], {"RAG_ENABLED": "false"}),
    ]
    for arguments, more in ways:
        model.calls.clear()
        done = call("ask", QUESTION, *arguments, cwd=tmp_path, **environment, **more)
        assert done.returncode == 0, done.stderr
        assert "written without documents" in done.stdout
        assert read_prompt(model) == MESSAGES
