"""Sessions over real HTTP: remembered, continued, read, deleted; each its owner's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ragstone.catalog.keys import KeyRing
from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder

from ..conftest import settings_in
from ..patience import LONG_S
from .conftest import serve
from .test_query import problem

pytestmark = pytest.mark.slow

REPORT = "The revenue in 2022 was 4 million euros.\n\nThe revenue in 2023 was 5 million euros.\n"


def served(folder: Path, embedder: OnnxEmbedder) -> Iterator[tuple[Engine, httpx.Client]]:
    engine = Engine(settings_in(folder / "data"), embedder=embedder)
    for address in serve(engine):
        with httpx.Client(base_url=address, timeout=LONG_S) as client:
            yield engine, client


@pytest.fixture(scope="module")
def report_server(
    tmp_path_factory: pytest.TempPathFactory, embedder: OnnxEmbedder
) -> Iterator[httpx.Client]:
    for _, client in served(tmp_path_factory.mktemp("report"), embedder):
        client.post("/v1/documents", files={"files": ("report.txt", REPORT.encode())})
        yield client


@pytest.fixture
def client(report_server: httpx.Client) -> httpx.Client:
    """A client of a server with the report, where nobody has asked anything."""
    report_server.delete("/v1/sessions").raise_for_status()
    return report_server


def ask(client: httpx.Client, question: str, session_id: str, **more: str) -> dict[str, str]:
    body = {"query": question, "session_id": session_id, **more}
    reply = client.post("/v1/query", json=body)
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


def test_a_follow_up_is_resolved_from_the_session(client: httpx.Client) -> None:
    assert "4 million" in ask(client, "What was the revenue in 2022?", "talk")["answer"]
    follow_up = ask(client, "and in 2023?", "talk")
    assert follow_up["detected_intent"] == "follow_up"
    assert "5 million" in follow_up["answer"]
    alone = ask(client, "and in 2023?", "another")
    assert alone["detected_intent"] == "question"


def test_a_session_survives_a_restart(tmp_path: Path, embedder: OnnxEmbedder) -> None:
    for _, client in served(tmp_path, embedder):
        client.post("/v1/documents", files={"files": ("report.txt", REPORT.encode())})
        ask(client, "What was the revenue in 2022?", "talk")
    for _, client in served(tmp_path, embedder):
        assert "5 million" in ask(client, "and in 2023?", "talk")["answer"]


def test_sessions_are_listed_read_and_deleted(client: httpx.Client) -> None:
    first = ask(client, "What was the revenue in 2022?", "one")
    ask(client, "and in 2023?", "one")
    ask(client, "revenue 2022: and in 2023", "two")
    listed = client.get("/v1/sessions").json()
    assert [one["session_id"] for one in listed] == ["two", "one"]
    assert listed[1]["title"] == "What was the revenue in 2022?"
    assert listed[1]["turn_count"] == 2
    whole = client.get("/v1/sessions/one").json()
    assert [turn["question"] for turn in whole["turns"]] == [
        "What was the revenue in 2022?", "and in 2023?",
    ]  # fmt: skip
    assert whole["turns"][0]["query_id"] == first["query_id"]
    assert client.delete("/v1/sessions/one").status_code == 204
    problem(client.get("/v1/sessions/one"), 404)
    problem(client.delete("/v1/sessions/one"), 404)
    problem(client.get(f"/v1/queries/{first['query_id']}"), 404)
    assert [one["session_id"] for one in client.get("/v1/sessions").json()] == ["two"]


def test_everything_of_somebody_is_forgotten_at_once(client: httpx.Client) -> None:
    ask(client, "What was the revenue in 2022?", "one")
    ask(client, "revenue 2022: and in 2023", "two")
    client.post("/v1/query", json={"query": "What was the revenue?"})
    assert client.delete("/v1/sessions").json() == {"sessions": 2, "queries": 3}
    assert client.get("/v1/sessions").json() == client.get("/v1/queries").json() == []


def test_a_session_stays_with_its_collection(client: httpx.Client) -> None:
    ask(client, "What was the revenue in 2022?", "talk")
    client.post("/v1/collections", json={"name": "other"})
    body = {"query": "and in 2023?", "session_id": "talk", "collection": "other"}
    assert "default" in problem(client.post("/v1/query", json=body), 422)["detail"]


def test_a_session_id_is_a_plain_name(client: httpx.Client) -> None:
    for session_id in ("a b", "x" * 129, "../up", "a\nb", "\u0000"):
        body = {"query": "What was the revenue?", "session_id": session_id}
        problem(client.post("/v1/query", json=body), 422)


def test_two_owners_with_the_same_session_id_never_meet(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder)
    alice, bob = (key(engine, owner) for owner in ("alice", "bob"))
    body = {"query": "What was the revenue in 2022?", "session_id": "talk"}
    for address in serve(engine):
        with httpx.Client(base_url=address, timeout=LONG_S) as client:
            client.post("/v1/documents", files={"files": ("r.txt", REPORT.encode())}, headers=alice)
            asked = client.post("/v1/query", json=body, headers=alice).json()
            problem(client.get("/v1/sessions/talk", headers=bob), 404)
            problem(client.delete("/v1/sessions/talk", headers=bob), 404)
            assert client.get("/v1/sessions", headers=bob).json() == []
            assert client.get("/v1/queries", headers=bob).json() == []
            problem(client.get(f"/v1/queries/{asked['query_id']}", headers=bob), 404)
            problem(client.get(f"/v1/queries/{asked['query_id']}/explain", headers=bob), 404)
            problem(client.delete(f"/v1/queries/{asked['query_id']}", headers=bob), 404)
            problem(client.delete("/v1/queries?owner=alice", headers=bob), 403)
            problem(client.delete("/v1/sessions?owner=alice", headers=bob), 403)
            assert client.delete("/v1/sessions", headers=bob).json() == {
                "sessions": 0, "queries": 0,
            }  # fmt: skip
            assert client.get("/v1/analytics", headers=bob).json()["queries"]["total"] == 0
            offered = client.get("/v1/suggestions?prefix=what", headers=bob).json()
            assert offered == {"suggestions": []}
            again = {**body, "query": "and in 2023?"}
            reply = client.post("/v1/query", json=again, headers=bob).json()
            assert reply["detected_intent"] == "question"
            assert len(client.get("/v1/sessions/talk", headers=alice).json()["turns"]) == 1


def key(engine: Engine, owner: str) -> dict[str, str]:
    made = KeyRing(engine.catalog).create(
        owner, role="writer", collections=["*"], expires_in_s=None
    )
    return {"Authorization": f"Bearer {made[0]}"}


def test_a_session_is_renamed_and_exported(client: httpx.Client) -> None:
    ask(client, "What was the revenue in 2022?", "one")
    follow_up = ask(client, "and in 2023?", "one")
    assert follow_up["searched_as"] == "revenue 2022: and in 2023"
    renamed = client.patch("/v1/sessions/one", json={"title": "  Our \n money "})
    assert renamed.json()["title"] == "Our money"
    assert client.get("/v1/sessions").json()[0]["title"] == "Our money"
    text = client.get("/v1/sessions/one/export").text
    assert text.startswith("# Our money\n")
    assert "*Searched as: revenue 2022: and in 2023*" in text
    whole = client.get("/v1/sessions/one/export", params={"format": "json"}).json()
    assert whole["turns"][1]["searched_as"] == "revenue 2022: and in 2023"
    assert client.patch("/v1/sessions/one", json={"title": ""}).json()["title"].startswith("What")
    problem(client.patch("/v1/sessions/none", json={"title": "x"}), 404)
    problem(client.get("/v1/sessions/none/export"), 404)


def test_a_follow_up_can_be_searched_as_it_is_typed(client: httpx.Client) -> None:
    ask(client, "What was the revenue in 2022?", "talk")
    body = {"query": "and in 2023?", "session_id": "talk", "as_typed": True}
    reply = client.post("/v1/query", json=body).json()
    assert (reply["searched_as"], reply["detected_intent"]) == ("", "question")


@pytest.mark.parametrize("message", ["hi", "ok", "你好", "x", "Why " * 7000 + "?"])
def test_a_chat_takes_short_and_long_messages(client: httpx.Client, message: str) -> None:
    messages = [{"role": "user", "content": message}]
    for path, more in (("/api/chat", {}), ("/v1/chat/completions", {"model": "ragstone"})):
        reply = client.post(path, json={"messages": messages, **more})
        assert reply.status_code == 200, reply.text
    problem(client.post("/v1/query", json={"query": message}), 422) if len(message) < 3 else None


def test_the_question_is_found_in_a_long_message(client: httpx.Client) -> None:
    pasted = "Something else was written down here on a long page. " * 40
    message = f"{pasted}\n\nWhat was the revenue in 2022?\n\n"
    data = client.post(
        "/api/chat", json={"messages": [{"role": "user", "content": message}]}
    ).json()["data"]
    assert "4 million" in data["choices"][0]["message"]["content"]


@pytest.mark.parametrize("log", ["off", "metadata"])
def test_without_a_log_no_text_of_a_session_is_stored(
    tmp_path: Path, embedder: OnnxEmbedder, log: str
) -> None:
    engine = Engine(settings_in(tmp_path / "data", **{"journal.query_log": log}), embedder=embedder)
    for address in serve(engine):
        with httpx.Client(base_url=address, timeout=LONG_S) as client:
            client.post("/v1/documents", files={"files": ("report.txt", REPORT.encode())})
            ask(client, "What was the revenue in 2022?", "talk")
            assert "5 million" in ask(client, "and in 2023?", "talk")["answer"]
            assert client.get("/v1/sessions").json() == []


def test_sessions_are_found_by_title_question_and_answer(client: httpx.Client) -> None:
    ask(client, "What was the revenue in 2022?", "one")
    ask(client, "Hello", "two", chat=True)  # type: ignore[arg-type]
    client.patch("/v1/sessions/two", json={"title": "100 % Small Talk"})

    def found(text: str) -> list[str]:
        reply = client.get("/v1/sessions", params={"text": text})
        assert reply.headers["X-Total-Count"] == str(len(reply.json()))
        return [one["session_id"] for one in reply.json()]

    assert found("REVENUE in") == ["one"]
    assert found("4 million") == ["one"]
    assert found("small talk") == ["two"]
    assert found("0 %") == ["two"]
    assert found("_") == []


def test_the_export_lists_the_sources_in_the_order_of_the_text(client: httpx.Client) -> None:
    ask(client, "What was the revenue in 2022?", "talk")
    text = client.get("/v1/sessions/talk/export").text
    assert "The revenue in 2022 was 4 million euros. [1]" in text
    assert "Sources:\n\n- [1] report.txt: The revenue in 2022 was 4 million euros." in text
    assert "[Source" not in text


def test_the_answers_of_a_session_come_with_their_claims(client: httpx.Client) -> None:
    asked = ask(client, "What was the revenue in 2022?", "talk")
    listed = client.get("/v1/queries", params={"session_id": "talk"}).json()
    assert listed[0]["query_id"] == asked["query_id"]
    assert listed[0]["claims"] == asked["claims"]
    assert listed[0]["highlights"] == asked["highlights"]
    assert listed[0]["short_answer"] == asked["short_answer"]
