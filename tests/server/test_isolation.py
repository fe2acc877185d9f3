"""No door of the OpenAPI shows one key what belongs to another: documents, sessions, history,
suggestions, analytics, explanations, originals. The doors are read from the OpenAPI itself, so a
new one cannot be forgotten: it must be tried here or be listed as open to everybody."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragstone.engine import Engine
from ragstone.server.app import create_app
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from ..patience import LONG_S
from .conftest import serve
from .test_auth import House

pytestmark = pytest.mark.slow

# What nobody but its owner may ever see.
SECRET = "zanzibar8812"
# Doors that need no key; the page itself holds no data.
PUBLIC = {"/", "/healthz", "/readyz"}


class Estate(House):
    """Alice's collection with a document, a session and a question in it; and Mallory's key."""

    def __init__(self, engine: Engine, address: str) -> None:
        super().__init__(engine, address)
        self.alice = self.key("alice", "writer", "alice", "chat_alice")
        self.mallory = self.key("mallory", "writer", "mallory", "chat_mallory")
        asked = {"query": f"Where is the {SECRET}?", "session_id": "alice-session"}
        with self.client(self.alice) as client:
            for collection in ("alice", "chat_alice"):
                sent = {"name": f"{SECRET}.md", "collection": collection,
                        "text": f"# {SECRET}\n\nThe {SECRET} lies under the stone."}  # fmt: skip
                reply = client.post("/v1/documents", json=sent)
                assert reply.status_code == 201, reply.text
            upload = reply.json()
            answer = client.post("/v1/query", json={**asked, "collection": "alice"}).json()
            rating = {"vote": "up", "comment": f"Good: {SECRET}."}
            client.post(f"/v1/queries/{answer['query_id']}/feedback", json=rating)
        assert SECRET in answer["answer"]
        self.ids = {
            "query_id": answer["query_id"],
            "document_id": answer["citations"][0]["document_id"],
            "chunk_id": answer["citations"][0]["chunk_id"],
            "upload_id": upload["upload_id"],
            "session_id": "alice-session",
            "chat_id": "alice",
            "collection": "alice",
            "name": "alice",
        }


@pytest.fixture(scope="module")
def estate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Estate]:
    folder = tmp_path_factory.mktemp("estate")
    engine = Engine(settings_in(folder / "data"), embedder=HashEmbedder())
    for address in serve(engine):
        yield Estate(engine, address)


def doors() -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(settings_in(Path(folder)), embedder=HashEmbedder())
        paths = create_app(engine).openapi()["paths"]
        engine.close()
    return [
        pytest.param(method, path, operation, id=f"{method} {path}")
        for path, methods in sorted(paths.items())
        for method, operation in methods.items()
        if path not in PUBLIC
    ]


DOORS = doors()


def filled_path(path: str, ids: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)(?::path)?\}", lambda match: ids.get(match[1], "alice"), path)


def query_parameters(operation: dict[str, Any], ids: dict[str, str]) -> dict[str, str]:
    """Everything that a parameter could be pointed at; free words are the secret itself."""
    return {
        parameter["name"]: ids.get(parameter["name"], SECRET[:4])
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query"
        and (parameter["name"] in ids or parameter["name"] in ("prefix", "q", "query", "text"))
    }


def bodies(operation: dict[str, Any], ids: dict[str, str]) -> list[dict[str, Any]]:
    """Requests as the OpenAPI describes them, aimed at Alice's things."""
    content = operation.get("requestBody", {}).get("content", {})
    if "multipart/form-data" in content:
        file = ("n.md", b"# Note\n\nA note of Mallory.")
        return [
            {"files": {"files": file}, "data": {"collection": "alice"}},
            {"files": {"file": file}, "data": {"collection": "alice"}},
        ]
    if "application/json" not in content:
        return [{}]
    question = f"Where is the {SECRET[:8]}?"
    message = {"messages": [{"role": "user", "content": question}], "model": "ragstone/alice"}
    return [
        {"json": {"query": question, "collection": "alice"}},
        {"json": {"query": question, "collection": "alice", "session_id": ids["session_id"]}},
        {"json": {"query": question, "upload_id": ids["upload_id"], "collection": "mallory"}},
        {"json": {"query": question, "collection": "mallory", "session_id": ids["session_id"]}},
        {"json": {"query": question}},
        {"json": message},
        {"json": {**message, "collection": "alice"}},
        {"json": {"messages": message["messages"]}},
        {"json": {"message": question, "session_id": ids["session_id"]}},
        {"json": {"name": "alice"}},
        {"json": {"name": "n.md", "text": "A note.", "collection": "alice"}},
        {"json": {"answer": "Yes.", "facts": ["No."]}},
        {"json": {"vote": "down"}},
    ]


@pytest.mark.parametrize(("method", "path", "operation"), DOORS)
def test_another_key_learns_nothing(
    method: str, path: str, operation: dict[str, Any], estate: Estate
) -> None:
    address = filled_path(path, estate.ids)
    parameters = query_parameters(operation, estate.ids)
    with estate.client(estate.mallory) as client:
        for body in bodies(operation, estate.ids):
            for asked in (parameters, {}):
                reply = client.request(method, address, params=asked, **body)
                assert reply.status_code < 500, reply.text
                seen = json.dumps(dict(reply.headers)) + reply.text
                echoed = seen.replace(f"{SECRET[:8]}?", "")
                assert SECRET not in echoed, f"{body}\n{reply.text}"


@pytest.mark.parametrize(("method", "path", "operation"), DOORS)
def test_without_a_key_every_door_is_shut(
    method: str, path: str, operation: dict[str, Any], estate: Estate
) -> None:
    with estate.client() as client:
        body = bodies(operation, estate.ids)[0]
        reply = client.request(method, filled_path(path, estate.ids), **body)
        assert reply.status_code == 401, reply.text
        assert reply.headers["content-type"] == "application/problem+json"


def test_what_was_tried_against_is_still_there_for_its_owner(estate: Estate) -> None:
    """Runs last in this file: none of the attempts has deleted or changed anything."""
    with estate.client(estate.alice) as client:
        document = client.get(f"/v1/documents/{estate.ids['document_id']}")
        assert SECRET in document.json()["text"]
        assert len(client.get("/v1/documents", params={"collection": "alice"}).json()) == 1
        history = client.get("/v1/queries").json()
        assert estate.ids["query_id"] in json.dumps(history)
        (rated,) = client.get("/v1/feedback").json()
        assert (rated["vote"], rated["comment"]) == ("up", f"Good: {SECRET}.")
        assert client.get(f"/v1/documents/{estate.ids['document_id']}/original").status_code == 200


def test_every_route_of_the_application_is_in_the_openapi_or_known(estate: Estate) -> None:
    described = {parameters.values[1] for parameters in DOORS} | PUBLIC
    app = create_app(estate.engine)
    known = {"/mcp", "/docs", "/openapi.json"}
    routes = {getattr(route, "path", "") for route in app.routes}
    unknown = {path for path in routes - described - known if not path.startswith("/ui")}
    with httpx.Client(base_url=estate.address, timeout=LONG_S) as client:
        for path in unknown - {""}:
            reply = client.get(filled_path(path, estate.ids))
            assert SECRET not in reply.text, path


def test_the_estate_is_worth_the_test(estate: Estate) -> None:
    """What Mallory must not see can be seen by Alice through the same kind of requests."""
    with estate.client(estate.alice) as client:
        asked = {"query": f"Where is the {SECRET}?", "collection": "alice"}
        assert SECRET in client.post("/v1/query", json=asked).text
        suggested = client.get("/v1/suggestions", params={"prefix": f"Where is the {SECRET[:4]}"})
        assert SECRET in suggested.text
        session = client.get(f"/v1/sessions/{estate.ids['session_id']}")
        assert SECRET in session.text
        explained = client.get(
            f"/v1/queries/{estate.ids['query_id']}/explain",
            params={"chunk_id": estate.ids["chunk_id"]},
        )
        assert SECRET in explained.text
