"""Ratings of answers over real HTTP: replaced, listed, deleted, counted, made into questions."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ragstone.engine import Engine
from ragstone.evaluate.datasets import load_dataset
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from ..patience import LONG_S
from .conftest import serve
from .test_auth import House
from .test_query import problem

pytestmark = pytest.mark.slow

GATE = "The gate is green. It was painted in 2020."


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("feedback")
    for address in serve(Engine(settings_in(folder / "data"), embedder=HashEmbedder())):
        yield House(Engine(settings_in(folder / "data"), embedder=HashEmbedder()), address)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    """A server of its own without keys."""
    for address in serve(Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())):
        with httpx.Client(base_url=address, timeout=LONG_S) as client:
            client.post("/v1/documents", files={"files": ("gate.txt", GATE.encode())})
            yield client


def ask(client: httpx.Client, question: str = "Is the gate green?", **more: str) -> str:
    return str(client.post("/v1/query", json={"query": question, **more}).json()["query_id"])


def test_a_rating_is_replaced_listed_and_deleted(client: httpx.Client) -> None:
    query_id = ask(client, session_id="s")
    path = f"/v1/queries/{query_id}/feedback"
    problem(client.get(path), 404)
    given = client.post(path, json={"vote": "down", "comment": " Too short. "}).json()
    assert (given["vote"], given["rating"], given["comment"]) == ("down", None, "Too short.")
    again = client.post(path, json={"vote": "up", "rating": 5})
    assert again.json() == client.get(path).json()
    listed = client.get("/v1/feedback", params={"session_id": "s", "mine": True})
    assert listed.headers["x-total-count"] == "1"
    (one,) = listed.json()
    assert (one["query"], one["vote"], one["rating"]) == ("Is the gate green?", "up", 5)
    assert one["comment"] == "", "a new rating replaces all of the earlier one"
    assert "green" in one["answer"]
    assert client.get("/v1/feedback", params={"session_id": "other"}).json() == []
    assert client.delete(path).status_code == 204
    problem(client.delete(path), 404)
    assert client.get("/v1/feedback").json() == []


def test_an_empty_or_impossible_rating_is_refused(client: httpx.Client) -> None:
    path = f"/v1/queries/{ask(client)}/feedback"
    for body in (
        {}, {"vote": "sideways"}, {"rating": 0}, {"rating": 6}, {"comment": "x" * 4001},
        {"comment": "  "}, {"vote": "up", "stars": 5},
    ):  # fmt: skip
        problem(client.post(path, json=body), 422)
    problem(client.post("/v1/queries/none/feedback", json={"vote": "up"}), 404)


def test_ratings_are_counted_in_analytics_and_metrics(client: httpx.Client) -> None:
    def sent() -> float:
        found = re.search(r'ragstone_feedback_total{vote="up"} (\S+)', client.get("/metrics").text)
        return float(found[1]) if found else 0.0

    before = sent()
    for body in ({"vote": "up", "rating": 5}, {"vote": "down", "rating": 2, "comment": "Old."}):
        client.post(f"/v1/queries/{ask(client)}/feedback", json=body)
    assert client.get("/v1/analytics").json()["feedback"] == {
        "count": 2, "up": 1, "down": 1, "comments": 1, "mean_rating": 3.5,
    }  # fmt: skip
    assert sent() == before + 1
    assert 'ragstone_rating_bucket{le="5.0"}' in client.get("/metrics").text
    empty = client.get("/v1/analytics", params={"collection": "other"}).json()["feedback"]
    assert (empty["count"], empty["mean_rating"]) == (0, None)


def test_rated_questions_are_a_dataset(client: httpx.Client, tmp_path: Path) -> None:
    for question, vote in (("Is the gate green?", "up"), ("Which zebra plays?", "up"),
                           ("When was it painted?", "down")):  # fmt: skip
        client.post(f"/v1/queries/{ask(client, question)}/feedback", json={"vote": vote})
    reply = client.get("/v1/feedback/export", params={"collection": "default"})
    assert reply.headers["content-type"] == "application/x-ndjson"
    assert "rated-questions.jsonl" in reply.headers["content-disposition"]
    (tmp_path / "rated.jsonl").write_text(reply.text)
    found = {one.text: one for one in load_dataset(tmp_path / "rated.jsonl").questions}
    gate = found["Is the gate green?"]
    assert (gate.targets[0].document, gate.answerable) == ("gate.txt", True)
    assert "green" in " ".join(gate.answers)
    assert found["Which zebra plays?"].answerable is False
    assert found["When was it painted?"].answerable is None
    lines = [json.loads(line) for line in reply.text.splitlines()]
    assert "2020" in next(one for one in lines if one["vote"] == "down")["rejected_answer"]


def test_a_rating_goes_with_its_question(client: httpx.Client) -> None:
    def rated(**more: str) -> str:
        query_id = ask(client, **more)
        client.post(f"/v1/queries/{query_id}/feedback", json={"comment": "Well said."})
        return query_id

    client.delete(f"/v1/queries/{rated()}")
    rated(session_id="s")
    client.delete("/v1/sessions/s")
    rated()
    client.delete("/v1/queries")
    rated()
    client.delete("/v1/sessions")
    rated()
    client.delete("/v1/collections/default")
    assert client.get("/v1/feedback").headers["x-total-count"] == "0"


async def test_a_rating_expires_with_its_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_in(tmp_path / "data", **{"journal.retention_days": 1})
    async with Engine(settings, embedder=HashEmbedder()) as engine:
        answer = await engine.ask("Is the gate green?")
        engine.rate(answer.query_id, comment="xylophone")
        later = time.time() + 2 * 86_400
        monkeypatch.setattr(time, "time", lambda: later)
        engine.history.delete_expired()
        files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
        assert not [path for path in files if b"xylophone" in path.read_bytes()]


def test_users_rate_their_own_answers_and_an_admin_sees_all(house: House) -> None:
    alice, bob = (house.key(name, "reader", "default") for name in ("alice", "bob"))
    root = house.key("root", "admin")
    with house.client(alice) as first, house.client(bob) as second, house.client(root) as admin:
        path = f"/v1/queries/{ask(first)}/feedback"
        first.post(path, json={"vote": "up", "comment": "Mine."})
        problem(second.post(path, json={"vote": "down"}), 404)
        problem(second.get(path), 404)
        problem(second.delete(path), 404)
        assert second.get("/v1/feedback").json() == []
        assert second.get("/v1/feedback/export").text == ""
        admin.post(path, json={"vote": "down"})
        seen = [(one["owner"], one["vote"]) for one in admin.get("/v1/feedback").json()]
        assert sorted(seen) == [("alice", "up"), ("root", "down")]
        assert len(admin.get("/v1/feedback", params={"mine": True}).json()) == 1
        (own,) = first.get("/v1/feedback").json()
        assert own["comment"] == "Mine.", "the admin's rating did not replace it"
        assert first.get("/v1/analytics").json()["feedback"]["count"] == 2
        admin.delete("/v1/sessions", params={"owner": "alice"})
        assert admin.get("/v1/feedback").json() == []


def test_ratings_keep_to_the_query_log(tmp_path: Path) -> None:
    for log, status in (("off", 422), ("metadata", 200)):
        settings = settings_in(tmp_path / log, **{"journal.query_log": log})
        for address in serve(Engine(settings, embedder=HashEmbedder())):
            with httpx.Client(base_url=address, timeout=LONG_S) as client:
                path = f"/v1/queries/{ask(client)}/feedback"
                reply = client.post(path, json={"vote": "up"})
                assert reply.status_code == status
                if log == "off":
                    assert "QUERY_LOG=off" in problem(reply, 422)["detail"]
                    continue
                commented = client.post(path, json={"vote": "up", "comment": "xylophone"})
                assert "stores no text" in problem(commented, 422)["detail"]
                (one,) = client.get("/v1/feedback").json()
                assert (one["vote"], one["query"], one["answer"]) == ("up", None, None)
                assert client.get("/v1/feedback/export").text == ""
