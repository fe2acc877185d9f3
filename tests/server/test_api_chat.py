"""`/api/chat` and its sisters over real HTTP, with a model behind OpenAI's protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragstone.engine import Engine
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from ..patience import LONG_S, wait_until
from ..providers.stand_in import StandIn
from .conftest import serve
from .events import events, stream
from .test_query import problem
from .test_streaming import leave_when_asked

ODD = [
    {"role": "system", "content": "Be brief.  \n\tKeep   spaces. "},
    {"role": "user", "content": "Grüße 🙂 \u2028 \"quoted\" [Source 1] <<<fence"},
    {"role": "assistant", "content": ""},
    {"role": "user", "content": "é e\u0301 \\n ?" + "x" * 3000},
]  # fmt: skip
QUESTION = {"messages": [{"role": "user", "content": "Is the gate green?"}]}


def test_a_chat_without_documents_reaches_the_model_byte_for_byte(
    written: httpx.Client, model: StandIn
) -> None:
    body = {"messages": ODD, "rag_enabled": False, "model": "tiny-1", "temperature": 0.7}
    reply = written.post("/api/chat", json=body)
    assert reply.status_code == 200
    sent = json.dumps(ODD, ensure_ascii=False, separators=(",", ":")).encode()
    (call,) = model.calls
    assert b'"messages":' + sent in call["raw"]
    assert (call["body"]["model"], call["body"]["temperature"]) == ("tiny-1", 0.7)
    data = reply.json()["data"]
    assert data["choices"][0]["message"]["content"] == "".join(model.words)
    assert (data["sources"], data["rag_enabled"]) == ([], False)


def test_a_stream_without_documents_is_tokens_and_done(
    written: httpx.Client, model: StandIn
) -> None:
    found = events(written, "/api/chat/stream", {"messages": ODD, "rag_enabled": False})
    assert [event["type"] for event in found] == ["token"] * len(model.words) + ["done"]
    assert "".join(event["content"] for event in found[:-1]) == "".join(model.words)
    assert (
        b'"messages":' + json.dumps(ODD, ensure_ascii=False, separators=(",", ":")).encode()
        in (model.calls[0]["raw"])
    )


def test_a_model_that_is_down_is_a_502_for_a_plain_chat(
    written: httpx.Client, model: StandIn
) -> None:
    for path in ("/api/chat", "/api/chat/stream"):
        model.behaviours = ["401"]
        problem(written.post(path, json={**QUESTION, "rag_enabled": False}), 502)


def test_the_extractive_answerer_cannot_chat(client: httpx.Client) -> None:
    reply = problem(client.post("/api/chat", json={**QUESTION, "rag_enabled": False}), 422)
    assert "LLM_PROVIDER" in reply["hint"]


def test_a_chat_about_documents_has_choices_and_sources(
    written: httpx.Client, model: StandIn
) -> None:
    earlier = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Who painted the door?"},
        {"role": "assistant", "content": "Nobody knows."},
    ]
    reply = written.post("/api/chat", json={"messages": [*earlier, *QUESTION["messages"]]})
    body = reply.json()
    assert body["success"] is True
    data = body["data"]
    (choice,) = data["choices"]
    (source, *_) = data["sources"]
    assert choice["index"] == 0
    assert choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"] == f"The gate is green [{source['chunk_id']}]."
    assert source["document_name"] == "gate.txt"
    assert data["is_grounded"] is True
    sent = model.calls[0]["body"]["messages"]
    assert sent[:3] == earlier, "the conversation stays as it came"
    assert sent[3]["role"] == "user"
    assert "painted in 2020" in sent[3]["content"], "the context is in front of the question"
    assert sent[3]["content"].rstrip().endswith("Question: Is the gate green?")
    assert len(sent) == 4


def test_what_other_clients_send_is_understood_or_ignored(
    written: httpx.Client, model: StandIn
) -> None:
    parts = [{"type": "text", "text": "Is the gate"}, {"type": "text", "text": "green?"}]
    body = {
        "messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": parts, "name": "ada"},
        ],
        "stream": True, "user": "ada", "top_p": 0.9, "rag_enabled": False,
    }  # fmt: skip
    assert written.post("/api/chat", json=body).status_code == 200
    (call,) = model.calls
    assert call["body"]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Is the gate\ngreen?"},
    ]


def test_retrieval_is_done_before_the_first_token(written: httpx.Client, model: StandIn) -> None:
    model.behaviours, kinds = ["held"], []
    for event in stream(written, "/api/chat/stream", QUESTION):
        kinds.append(event["type"])
        if event["type"] == "token":
            model.go.set()  # it does not write on before this
    assert (kinds[0], kinds[-1]) == ("sources", "done")
    assert set(kinds[1:-1]) == {"token"}


def both(reply: httpx.Response) -> dict[str, Any]:
    assert reply.status_code == 200, reply.text
    data: dict[str, Any] = reply.json()["data"]
    assert {"choices", "chunks_used", "chunks_scores"} <= data["baseline"].keys()
    assert {"filter_threshold", "reranker_enabled"} <= data["enhanced"].keys()
    assert not {"filter_threshold", "reranker_enabled"} & data["baseline"].keys()
    for side in (data["baseline"], data["enhanced"]):
        assert side["chunks_used"] == len(side["chunks_scores"]) == len(side["sources"])
        assert side["choices"][0]["message"]["content"]
    return data


@pytest.mark.parametrize(
    ("path", "more"),
    [("/api/chat/compare", {}), ("/api/chat?compare=true", {}), ("/api/chat", {"compare": True})],
)
def test_compare_is_asked_for_in_three_ways(
    written: httpx.Client, model: StandIn, path: str, more: dict[str, bool]
) -> None:
    both(written.post(path, json={**QUESTION, **more}))
    assert len(model.calls) == 2


def test_the_address_decides_against_the_body(written: httpx.Client, model: StandIn) -> None:
    written.post("/api/chat?compare=false", json={**QUESTION, "compare": True})
    assert len(model.calls) == 1


def test_compare_mode_makes_it_the_rule(tmp_path: Path) -> None:
    settings = settings_in(tmp_path / "data", RAG_COMPARE_MODE="true", RAG_MIN_SIMILARITY="0.4",
                           RAG_MIN_CHUNKS="1")  # fmt: skip
    for address in serve(Engine(settings, embedder=HashEmbedder())):
        with httpx.Client(base_url=address, timeout=LONG_S) as client:
            files = [("files", (f"{n}.txt", text.encode())) for n, text in enumerate(
                ["The gate is green.", "Bananas grow in the south.", "Rain is wet."])]  # fmt: skip
            client.post("/v1/documents", files=files)
            data = both(client.post("/api/chat", json={"messages": [
                {"role": "user", "content": "The gate is green?"}]}))  # fmt: skip
            assert data["enhanced"]["filter_threshold"] == 0.4
            assert data["enhanced"]["chunks_used"] < data["baseline"]["chunks_used"]
            *_, last = events(client, "/api/chat/stream", QUESTION)
            assert last["data"].keys() == data.keys()


def test_both_answers_are_written_side_by_side(written: httpx.Client, model: StandIn) -> None:
    model.behaviours = ["meet", "meet"]  # neither goes on before the other is there
    assert written.post("/api/chat/compare", json=QUESTION).status_code == 200
    assert model.has_met


def test_two_answers_are_streamed_side_by_side_and_each_piece_says_whose_it_is(
    written: httpx.Client, model: StandIn
) -> None:
    model.behaviours = ["drip", "drip"]
    *pieces, last = stream(written, "/api/chat/stream?compare=true", QUESTION)
    assert [piece["type"] for piece in pieces[:1]] == ["sources"]
    for side in ("baseline", "enhanced"):
        own = [piece for piece in pieces if piece["side"] == side]
        assert [piece["type"] for piece in own] == ["sources"] + ["token"] * (len(own) - 1)
        said = "".join(piece["content"] for piece in own[1:])
        assert last["data"][side]["choices"][0]["message"]["content"].startswith(said[:10])
    sides = [piece["side"] for piece in pieces if piece["type"] == "token"]
    assert sides != sorted(sides)  # neither waited for the other
    assert last["type"] == "done"
    assert last["data"].keys() == {"query_id", "baseline", "enhanced"}


@pytest.mark.parametrize("path", ["/api/chat/compare", "/api/chat/stream?compare=true"])
def test_a_client_that_leaves_a_comparison_stops_both(
    written: httpx.Client, model: StandIn, path: str
) -> None:
    model.behaviours = ["slow", "slow"]
    leave_when_asked(written, model, path, QUESTION, models=2)
    wait_until(lambda: model.cancelled == 2)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": []},
        {"messages": "hello"},
        {"messages": [{"role": "robot", "content": "x"}]},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "user", "content": ["x"]}]},
        {"messages": [{"role": "assistant", "content": "Is it so?"}]},
        {**QUESTION, "temperature": 9},
        {**QUESTION, "compare": "maybe"},
        {**QUESTION, "collection": "../up"},
    ],
)
@pytest.mark.parametrize("path", ["/api/chat", "/api/chat/stream", "/api/chat/compare"])
def test_a_wrong_body_is_a_422(client: httpx.Client, path: str, body: dict[str, object]) -> None:
    problem(client.post(path, json=body), 422)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[httpx.Client]:
    for address in serve(Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())):
        with httpx.Client(base_url=address, timeout=LONG_S) as client:
            files = {"files": ("code.txt", b"The gate code is 8812.")}
            assert client.post("/chat/42/documents", files=files).status_code == 200
            yield client


def test_a_chat_room_streams_tokens_then_sources_then_done(room: httpx.Client) -> None:
    found = events(room, "/chat/42/stream", {"message": "What is the gate code?"})
    kinds = [event["type"] for event in found]
    assert kinds == ["token"] * (len(kinds) - 2) + ["sources", "done"]
    assert "8812" in "".join(event["content"] for event in found[:-2])
    assert found[-2]["sources"][0]["document_name"] == "code.txt"
    assert found[-1]["is_grounded"] is True
    assert found[-1]["session_id"] == "42"


def test_a_chat_room_remembers_and_keeps_to_its_own_documents(room: httpx.Client) -> None:
    for session in (None, "mine"):
        for message in ("What is the gate code?", "tell me more"):
            events(room, "/chat/42/stream", {"message": message, "session_id": session})
    sessions = {one["session_id"]: one for one in room.get("/v1/sessions").json()}
    assert {name: one["turn_count"] for name, one in sessions.items()} == {"42": 2, "mine": 2}
    other = events(room, "/chat/43/stream", {"message": "What is the gate code?"})
    assert (other[-1]["status"], other[-2]["sources"]) == ("abstained", [])


@pytest.mark.parametrize(
    ("chat_id", "body"),
    [
        ("42", {}), ("42", {"message": " "}), ("42", {"message": 1}),
        ("42", {"message": "Is it so?", "more": 1}),
        ("..%2Fup", {"message": "Is it so?"}), ("a%20b", {"message": "Is it so?"}),
        ("x" * 200, {"message": "Is it so?"}),
    ],
)  # fmt: skip
def test_a_wrong_chat_is_refused(client: httpx.Client, chat_id: str, body: object) -> None:
    reply = client.post(f"/chat/{chat_id}/stream", json=body)
    assert reply.status_code in (404, 422)
    problem(reply, reply.status_code)
