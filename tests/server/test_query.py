"""`POST /v1/query` and the history over real HTTP; what is wrong becomes a problem document."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest


def problem(reply: httpx.Response, status: int) -> dict[str, Any]:
    """The reply as a problem document that carries the request's id and a hint."""
    assert reply.status_code == status
    assert reply.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = reply.json()
    assert body["status"] == status
    assert body["request_id"] == reply.headers["x-request-id"]
    assert body["detail"]
    assert body["hint"]
    assert "Traceback" not in reply.text
    return body


def test_a_question_is_answered_with_citations(client: httpx.Client) -> None:
    reply = client.post("/v1/query", json={"query": "When was the gate painted?"})
    assert reply.status_code == 200
    body = reply.json()
    assert body["status"] == "answered"
    citation = body["citations"][0]
    assert citation["document_name"] == "gate.txt"
    assert citation["end"] - citation["start"] == len(citation["snippet"])
    assert {used["chunk_id"] for used in body["used_chunks"]} >= {citation["chunk_id"]}
    metadata = body["metadata"]
    assert metadata["chunks_used"] == len(body["used_chunks"])
    assert metadata["total_time_ms"] >= metadata["retrieval_time_ms"] > 0


def test_a_question_without_an_answer_gets_the_closest_passages(client: httpx.Client) -> None:
    body = client.post("/v1/query", json={"query": "Zebra xylophone?"}).json()
    assert (body["status"], body["claims"], body["confidence"]) == ("near", [], 0)
    assert body["citations"]


def test_options_reach_the_search(client: httpx.Client) -> None:
    asked = {"query": "The gate is green?", "top_k": 1, "method": "keyword", "mmr_lambda": 0.5}
    body = client.post("/v1/query", json=asked).json()
    assert [used["retrieval_method"] for used in body["used_chunks"]] == ["keyword"]


@pytest.mark.parametrize("question", ["", "  ", "ab", "x" * 1001, "\x00\x07\x1b"])
def test_a_question_of_a_wrong_length_is_a_422(client: httpx.Client, question: str) -> None:
    body = problem(client.post("/v1/query", json={"query": question}), 422)
    assert "characters" in body["detail"]


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"query": "Is it so?", "nope": 1}, "nope"),
        ({"query": ["Is it so?"]}, "query"),
        ({"query": None}, "query"),
        ({}, "query"),
        ({"query": "Is it so?", "top_k": 0}, "top_k"),
        ({"query": "Is it so?", "top_k": "many"}, "top_k"),
        ({"query": "Is it so?", "mmr_lambda": 2}, "mmr_lambda"),
        ({"query": "Is it so?", "method": "magic"}, "method"),
        ({"query": "Is it so?", "collection": "../up"}, "collection"),
        (["Is it so?"], "object"),
    ],
)
def test_a_wrong_field_is_a_422_that_names_it(
    client: httpx.Client, body: object, detail: str
) -> None:
    assert detail in problem(client.post("/v1/query", json=body), 422)["detail"]


@pytest.mark.parametrize("content", [b"", b"{", b'{"query": "x"', b"not json"])
def test_malformed_json_is_a_422(client: httpx.Client, content: bytes) -> None:
    headers = {"content-type": "application/json"}
    reply = client.post("/v1/query", content=content, headers=headers)
    assert problem(reply, 422)


def test_bytes_that_are_no_utf8_are_a_400(client: httpx.Client) -> None:
    headers = {"content-type": "application/json"}
    reply = client.post("/v1/query", content=b'{"query": "\xff\xfe\xfa"}', headers=headers)
    assert "UTF-8" in problem(reply, 400)["detail"]


def test_a_body_over_the_limit_is_a_413(client: httpx.Client) -> None:
    reply = client.post("/v1/query", content=b'{"query": "' + b"x" * 1_200_000 + b'"}',
                        headers={"content-type": "application/json"})  # fmt: skip
    assert "larger than 1 MB" in problem(reply, 413)["detail"]
    assert client.get("/healthz").status_code == 200


def test_an_unknown_address_and_a_wrong_method_are_explained(client: httpx.Client) -> None:
    problem(client.get("/nothing/here"), 404)
    problem(client.get("/v1/query"), 405)


def test_a_request_id_is_taken_or_made(client: httpx.Client) -> None:
    given = client.get("/healthz", headers={"X-Request-ID": "abc-1"})
    assert given.headers["x-request-id"] == "abc-1"
    for bad in ("", "x" * 65, "a b", b"\xc3\xa9"):
        made = client.get("/healthz", headers={"X-Request-ID": bad}).headers["x-request-id"]
        assert re.fullmatch("[0-9a-f]{32}", made)


def test_the_history_is_newest_first_and_one_entry_is_in_full(client: httpx.Client) -> None:
    ids = [
        client.post("/v1/query", json={"query": text}).json()["query_id"]
        for text in ("The gate is green?", "The dome opens?")
    ]
    listed = client.get("/v1/queries", params={"limit": 2}).json()
    assert [entry["query_id"] for entry in listed] == ids[::-1]
    older = client.get("/v1/queries", params={"skip": 1, "limit": 1}).json()
    assert [entry["query_id"] for entry in older] == ids[:1]
    one = client.get(f"/v1/queries/{ids[0]}", headers={"X-Request-ID": "r-7"}).json()
    assert one["query"] == "The gate is green?"
    assert all(span["duration_ms"] >= 0 for span in one["trace"]["spans"])


def test_the_request_id_is_in_the_trace(client: httpx.Client) -> None:
    headers = {"X-Request-ID": "trace-me"}
    asked = client.post("/v1/query", json={"query": "The gate is green?"}, headers=headers).json()
    trace = client.get(f"/v1/queries/{asked['query_id']}").json()["trace"]
    assert trace["request_id"] == "trace-me"


def test_an_unknown_query_is_a_404(client: httpx.Client) -> None:
    assert "nobody" in problem(client.get("/v1/queries/nobody"), 404)["detail"]
    problem(client.get("/v1/queries", params={"limit": 1000}), 422)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/", "/v1/models", "/ui/style.css"])
def test_whoever_asks_for_the_head_alone_gets_it(client: httpx.Client, path: str) -> None:
    whole, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == whole.headers["content-length"]
    assert client.head("/v1/query").status_code == 405


def test_health_readiness_and_documentation_answer(client: httpx.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json()["status"] == "ok"
    assert "/v1/query" in client.get("/openapi.json").json()["paths"]
    assert client.get("/docs").status_code == 200
