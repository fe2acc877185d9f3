"""`/v1/collections` over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ragstone.catalog.collections import refuse_unknown_collection
from ragstone.catalog.keys import KeyRing
from ragstone.catalog.schema import uploads
from ragstone.engine import Engine
from ragstone.errors import NotFoundError
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from ..patience import LONG_S
from .conftest import serve
from .test_query import problem


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    for address in serve(Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())):
        with httpx.Client(base_url=address, timeout=LONG_S) as client:
            yield client


def send(client: httpx.Client, collection: str, name: str, text: bytes) -> None:
    reply = client.post(
        "/v1/documents", files={"files": (name, text)}, params={"collection": collection}
    )
    assert reply.status_code == 201


def test_a_collection_is_made_listed_and_counted(client: httpx.Client) -> None:
    assert client.get("/v1/collections").json() == []
    made = client.post("/v1/collections", json={"name": "house"})
    assert made.status_code == 201
    assert (made.json()["name"], made.json()["documents"], made.json()["chunks"]) == ("house", 0, 0)
    send(client, "house", "a.txt", b"The gate is green.")
    send(client, "house", "b.pdf", b"%PDF-1.7 broken")
    send(client, "attic", "a.txt", b"The attic is dry.")
    listed = client.get("/v1/collections").json()
    assert [one["name"] for one in listed] == ["attic", "house"]
    one = client.get("/v1/collections/house").json()
    assert one == listed[1]
    assert (one["documents"], one["failed"], one["chunks"]) == (1, 1, 1)


def test_a_name_is_taken_once_and_must_be_plain(client: httpx.Client) -> None:
    client.post("/v1/collections", json={"name": "house"})
    problem(client.post("/v1/collections", json={"name": "house"}), 422)
    for name in ("", "../up", "a/b", "x" * 101, "a b"):
        problem(client.post("/v1/collections", json={"name": name}), 422)
    problem(client.post("/v1/collections", json={"name": "a", "more": 1}), 422)


def test_deletion_is_complete_and_leaves_the_others_alone(
    client: httpx.Client, tmp_path: Path
) -> None:
    for collection in ("house", "attic"):
        send(client, collection, "same.txt", b"The gate is green.")
    send(client, "house", "own.txt", b"The cellar number is 8812.")
    asked = {"query": "The cellar number?", "collection": "house", "session_id": "s"}
    assert "8812" in client.post("/v1/query", json=asked).json()["answer"]
    assert client.delete("/v1/collections/house").status_code == 204
    problem(client.get("/v1/collections/house"), 404)
    problem(client.delete("/v1/collections/house"), 404)
    assert client.get("/v1/documents", params={"collection": "house"}).json() == []
    assert client.get("/v1/queries", params={"collection": "house"}).json() == []
    assert client.get("/v1/sessions").json() == []
    again = {"query": "The cellar number?", "collection": "house"}
    problem(client.post("/v1/query", json=again), 404)
    kept = [path for path in (tmp_path / "data" / "originals").rglob("*") if path.is_file()]
    assert [path.read_bytes() for path in kept] == [b"The gate is green."]
    left = [path for path in (tmp_path / "data" / "index" / "house").rglob("*") if path.is_file()]
    assert not any(b"cellar" in path.read_bytes() for path in left)
    other = {"query": "The gate is?", "collection": "attic"}
    assert "green" in client.post("/v1/query", json=other).json()["answer"]
    send(client, "house", "new.txt", b"The porch is blue.")
    new = {"query": "The porch is?", "collection": "house"}
    assert "blue" in client.post("/v1/query", json=new).json()["answer"]


def test_a_mistyped_collection_is_not_found_wherever_it_is_asked(client: httpx.Client) -> None:
    send(client, "team", "gate.txt", b"The gate is green.")
    wrong = {"collection": "teem"}
    asked = {"query": "What is green?", **wrong}
    chat = {"messages": [{"role": "user", "content": "What is green?"}], **wrong}
    presets = ["minimal", "balanced"]
    for reply in (
        client.post("/v1/query", json=asked),
        client.post("/v1/query", json=asked, headers={"Accept": "text/event-stream"}),
        client.post("/v1/query/batch", json={"queries": ["What is green?"], **wrong}),
        client.post("/v1/context", json=asked),
        client.post("/search", json=asked),
        client.post("/api/chat", json=chat),
        client.post("/api/chat/compare", json=chat),
        client.post("/api/chat/stream", json=chat),
        client.get("/v1/candidates", params=asked),
        client.post("/v1/compare", json={**asked, "presets": presets}),
    ):
        body = problem(reply, 404)
        said = (body["detail"], body["hint"])
        assert said == ("There is no collection 'teem'.", "Did you mean 'team'?"), reply.url
    body = problem(client.post("/v1/query", json={**asked, "collection": "quite-another"}), 404)
    assert body["hint"] == "List the collections: GET /v1/collections"
    for name in ("default", "team"):
        assert client.post("/v1/query", json={**asked, "collection": name}).status_code == 200


def test_a_collection_that_others_have_is_not_hinted_at(tmp_path: Path) -> None:
    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
    for name in ("team-red", "team-blue"):
        engine.intake.create_collection(name)
    secret, _ = KeyRing(engine.catalog).create(
        "ann", role="reader", collections=("team-r*",), expires_in_s=None
    )
    for address in serve(engine):
        headers = {"Authorization": f"Bearer {secret}"}
        with httpx.Client(base_url=address, timeout=LONG_S, headers=headers) as client:
            asked = {"query": "What is green?", "collection": "team-rlue"}
            body = problem(client.post("/v1/query", json=asked), 404)
            assert body["hint"] == "Did you mean 'team-red'?"
            body = problem(client.post("/v1/query", json={**asked, "collection": "team-blue"}), 403)


def test_a_collection_whose_first_document_is_still_read_exists(tmp_path: Path) -> None:
    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
    engine.intake.create_collection("team")
    with engine.catalog.write_transaction("uploads") as connection:
        values = {"id": "u", "collection": "teem", "created_at": 1.0, "file_count": 1}
        connection.execute(uploads.insert().values(**values, status="running"))
    refuse_unknown_collection(engine.catalog, "teem")
    with pytest.raises(NotFoundError):
        refuse_unknown_collection(engine.catalog, "teams")


def test_an_overview_names_topics_questions_and_what_is_new(client: httpx.Client) -> None:
    body = {"name": "rent.md", "text": "# Rent\n\nThe rent is EUR 18,400 per year.",
            "collection": "overview"}  # fmt: skip
    assert client.post("/v1/documents", json=body).status_code == 201
    before = len(client.get("/v1/queries", params={"limit": 100}).json())
    found = client.get("/v1/collections/overview/overview").json()
    assert found["documents"] == 1
    assert found["topics"] == ["Rent"]
    assert [one["name"] for one in found["recent"]] == ["rent.md"]
    assert found["questions"] == ["Summarize Rent"]
    assert len(client.get("/v1/queries", params={"limit": 100}).json()) == before
    client.post("/v1/documents", json={**body, "name": "b.md", "text": "# Gate\n\nIt is green."})
    again = client.get("/v1/collections/overview/overview").json()
    assert again["documents"] == 2
    assert "Gate" in again["topics"]
    assert client.get("/v1/collections/nothing/overview").status_code == 404
