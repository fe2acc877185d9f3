"""`/v1/queries`, `/v1/analytics` and `/v1/suggestions` over real HTTP."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ragstone.catalog.journal import Entry, JournalWriter
from ragstone.engine import Engine
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from ..patience import LONG_S, wait_until
from ..providers.stand_in import StandIn
from .conftest import serve
from .test_query import problem

LEASE = "# Lease\n\n## Notice period\n\nThe notice period is six months.\n"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A server of its own, whose history nobody else writes."""
    folder = tmp_path_factory.mktemp("history")
    engine = Engine(settings_in(folder / "data"), embedder=HashEmbedder())
    for address in serve(engine):
        with httpx.Client(base_url=address, timeout=LONG_S) as client:
            reply = client.post("/v1/documents", files={"files": ("lease.md", LEASE.encode())})
            client.headers["upload-of-lease"] = reply.json()["upload_id"]
            yield client


def ask(client: httpx.Client, question: str, **more: object) -> str:
    reply = client.post("/v1/query", json={"query": question, **more})
    assert reply.status_code == 200, reply.text
    return str(reply.json()["query_id"])


def test_the_list_is_short_and_one_entry_is_in_full(house: httpx.Client) -> None:
    query_id = ask(house, "The notice period is?")
    (first, *_) = house.get("/v1/queries", params={"limit": 1}).json()
    assert first["query_id"] == query_id
    assert first["total_ms"] > 0
    assert "trace" not in first
    whole = house.get(f"/v1/queries/{query_id}").json()
    assert whole["trace"]["spans"]
    assert whole.keys() - first.keys() == {"trace"}


def test_the_history_of_an_upload_is_its_own(house: httpx.Client) -> None:
    upload_id = house.headers["upload-of-lease"]
    mine = ask(house, "The notice period is?", upload_id=upload_id)
    ask(house, "The notice period is?")
    listed = house.get("/v1/queries", params={"upload_id": upload_id}).json()
    assert [entry["query_id"] for entry in listed] == [mine]
    assert house.get("/v1/queries", params={"upload_id": "none"}).json() == []


def test_a_query_can_be_forgotten(house: httpx.Client) -> None:
    query_id = ask(house, "The notice period is?")
    assert house.delete(f"/v1/queries/{query_id}").status_code == 204
    problem(house.get(f"/v1/queries/{query_id}"), 404)
    problem(house.delete(f"/v1/queries/{query_id}"), 404)


def test_a_query_can_be_forgotten_before_the_disk_has_it(
    house: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, finish = JournalWriter._commit, JournalWriter.finish
    is_deleting = threading.Event()

    def commit_late(writer: JournalWriter, entries: list[Entry]) -> None:
        is_deleting.wait(LONG_S)
        commit(writer, entries)

    async def note_and_finish(writer: JournalWriter, timeout_s: float) -> bool:
        is_deleting.set()
        return await finish(writer, LONG_S)

    monkeypatch.setattr(JournalWriter, "_commit", commit_late)
    query_id = ask(house, "The notice period is?")
    # A deletion waits for the entries that are being written; this one is written only then.
    monkeypatch.setattr(JournalWriter, "finish", note_and_finish)
    assert house.delete(f"/v1/queries/{query_id}").status_code == 204
    assert is_deleting.is_set()
    problem(house.get(f"/v1/queries/{query_id}"), 404)


def test_what_was_asked_in_a_session_is_forgotten_together(house: httpx.Client) -> None:
    kept = ask(house, "The notice period is?")
    for _ in range(2):
        ask(house, "The notice period is?", session_id="s-forget")
    assert house.delete("/v1/queries", params={"session_id": "s-forget"}).json() == {"deleted": 2}
    assert house.get(f"/v1/queries/{kept}").status_code == 200


def test_analytics_add_up_what_was_asked(house: httpx.Client) -> None:
    house.delete("/v1/queries")
    for _ in range(2):
        ask(house, "The notice period is?")
    for question in ("Which zebra plays xylophone?", "which zebra  plays xylophone"):
        ask(house, question)
    ask(house, "Hello!")
    found = house.get("/v1/analytics").json()
    assert found["queries"] == {
        "total": 5, "small_talk": 1, "answered": 2, "unanswered": 2, "ungrounded": 0,
    }  # fmt: skip
    (today,) = found["per_day"]
    assert (today["queries"], today["unanswered"]) == (5, 2)
    (unanswered,) = found["unanswered"]
    assert (unanswered["query"], unanswered["count"]) == ("which zebra plays xylophone", 2)
    (document,) = found["documents"]
    assert (document["name"], document["answers"]) == ("lease.md", 2)
    stages = found["latency_ms"]["stages"]
    assert stages["retrieve.keyword"]["count"] == 4
    assert found["latency_ms"]["total"]["p95"] >= found["latency_ms"]["total"]["p50"] > 0
    assert found["slow"][0]["total_ms"] == max(one["total_ms"] for one in found["slow"])
    assert found["complete"] is True
    assert (
        house.get("/v1/analytics", params={"collection": "other"}).json()["queries"]["total"] == 0
    )
    problem(house.get("/v1/analytics", params={"days": 0}), 422)


def test_analytics_add_up_tokens(written: httpx.Client, model: StandIn) -> None:
    before = written.get("/v1/analytics").json()["tokens"]
    ask(written, "Is the gate green?")
    after = written.get("/v1/analytics").json()["tokens"]
    assert (after["input"] - before["input"], after["output"] - before["output"]) == (100, 20)


def test_suggestions_come_from_questions_and_headings(house: httpx.Client) -> None:
    house.delete("/v1/queries")
    ask(house, "The notice period is?")
    ask(house, "Which zebra plays xylophone?")

    def suggested(**params: str) -> list[tuple[str, str]]:
        found = house.get("/v1/suggestions", params=params).json()["suggestions"]
        return [(one["text"], one["kind"]) for one in found]

    assert suggested(prefix="NOT") == [
        ("Notice period", "heading"), ("The notice period is?", "history"),
    ]  # fmt: skip
    assert suggested(prefix="the n") == [("The notice period is?", "history")]
    assert ("Lease", "heading") in suggested()
    assert suggested(prefix="not", collection="other") == []
    assert suggested(prefix="zebra") == [], "what had no answer is not offered"


@pytest.mark.parametrize(
    ("log", "text", "entries"), [("off", None, 0), ("metadata", None, 1), ("full", "Why so?", 1)]
)
def test_the_query_log_keeps_no_more_than_it_may(
    tmp_path: Path, log: str, text: str | None, entries: int
) -> None:
    settings = settings_in(tmp_path / "data", **{"journal.query_log": log})
    for address in serve(Engine(settings, embedder=HashEmbedder())):
        with httpx.Client(base_url=address, timeout=LONG_S) as client:
            client.post("/v1/query", json={"query": "Why so?"})
            listed = client.get("/v1/queries").json()
            assert [entry["query"] for entry in listed] == [text] * entries


def test_what_is_too_old_is_forgotten_while_the_server_runs(tmp_path: Path) -> None:
    flags = {"journal.retention_days": 1, "journal.retention_check_s": 0.05}
    engine = Engine(settings_in(tmp_path / "data", **flags), embedder=HashEmbedder())
    for address in serve(engine):
        with httpx.Client(base_url=address, timeout=LONG_S) as client:
            ask(client, "Why so?", session_id="old")
            ask(client, "Why so?", session_id="new")
            with engine.catalog.write_transaction() as connection:
                long_ago = time.time() - 2 * 86_400
                for statement in (
                    "UPDATE queries SET created_at = :t WHERE session_id = 'old'",
                    "UPDATE turns SET created_at = :t WHERE session_id = 'old'",
                    "UPDATE sessions SET updated_at = :t WHERE id = 'old'",
                ):
                    from sqlalchemy import text

                    connection.execute(text(statement), {"t": long_ago})
            wait_until(lambda: len(client.get("/v1/sessions").json()) == 1)
            assert [one["session_id"] for one in client.get("/v1/sessions").json()] == ["new"]
            assert [one["session_id"] for one in client.get("/v1/queries").json()] == ["new"]
            assert client.get("/v1/sessions/old").status_code == 404
