"""Send the character NUL, which PostgreSQL cannot store, to every endpoint: never a 500."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragstone.catalog.database import Database
from ragstone.catalog.documents import SqlCatalog
from ragstone.engine import Engine
from ragstone.errors import InputError
from ragstone.server.app import create_app
from ragstone.testing import HashEmbedder, ScriptedProvider

from ..conftest import settings_in
from .test_catalogs import empty_database

QUESTION = "What colour is the gate?"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.servers)])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> SqlCatalog:
    if request.param == "sqlite":
        return SqlCatalog.in_directory(tmp_path)
    return SqlCatalog(Database.at_url(empty_database(request.getfixturevalue("postgres_url"))))


@pytest.fixture
async def engine(catalog: SqlCatalog, tmp_path: Path) -> AsyncIterator[Engine]:
    (tmp_path / "gate.txt").write_text("The gate is green.")
    provider = ScriptedProvider(["The ga\x00te is green ", "\ud800[Source 1]."])
    settings = settings_in(tmp_path / "data", **{"check.max_iterations": 0})
    engine = Engine(settings, embedder=HashEmbedder(), catalog=catalog, provider=provider)
    await engine.ingest([tmp_path / "gate.txt"])
    yield engine
    engine.close()


def chat(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


SENT: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/query", {"json": {"query": "What colour\x00 is the gate?"}}),
    ("POST", "/v1/query", {"json": {"query": QUESTION, "upload_id": "a\x00b"}}),
    ("POST", "/v1/query", {"json": {"query": QUESTION, "session_id": "a\x00b"}}),
    ("POST", "/v1/query", {"json": {"query": QUESTION, "collection": "a\x00b"}}),
    ("POST", "/v1/query", {"json": {"query": QUESTION, "filters": {"tags": "a\x00b"}}}),
    ("POST", "/v1/query", {"json": {"query": QUESTION, "filters": {"a\x00b": "tags"}}}),
    ("POST", "/api/chat", {"json": chat("What colour\x00 is the gate?")}),
    ("POST", "/api/chat", {"json": {**chat(QUESTION), "model": "a\x00b"}}),
    ("POST", "/chat/a%00b/stream", {"json": {"message": QUESTION}}),
    ("POST", "/chat/a/stream", {"json": {"message": QUESTION, "session_id": "a\x00b"}}),
    ("POST", "/v1/chat/completions", {"json": {**chat(QUESTION), "model": "ragstone/a\x00b"}}),
    ("POST", "/search", {"json": {"query": "gate\x00", "top_k": 2}}),
    ("POST", "/v1/check-grounding", {"json": {"answer": "It\x00 is.", "facts": ["It\x00 is."]}}),
    ("POST", "/v1/collections", {"json": {"name": "a\x00b"}}),
    ("POST", "/v1/documents", {"json": {"name": "a\x00b.txt", "text": "Gate \x00 one."}}),
    ("POST", "/v1/documents", {"json": {"name": "a.txt", "text": "x", "tags": ["a\x00b"]}}),
    ("POST", "/v1/documents", {"json": {"name": "a.txt", "text": "x", "metadata": {"a": "\x00"}}}),
    ("POST", "/v1/documents", {"files": {"files": ("a\x00b.txt", b"Gate \x00 two.")}}),
    ("POST", "/v1/documents?collection=a%00b", {"json": {"name": "a.txt", "text": "x"}}),
    *(
        ("GET", f"/v1/{path}", {})
        for path in (
            "documents/a%00b", "documents/a%00b/original", "documents/a%00b/lines",
            "documents/a%00b/chunks", "documents/a%00b/versions", "documents?collection=a%00b",
            "queries/a%00b", "queries/a%00b/explain", "queries?upload_id=a%00b",
            "queries?session_id=a%00b", "queries?collection=a%00b", "sessions/a%00b",
            "uploads/a%00b", "uploads/a%00b/events", "collections/a%00b",
            "analytics?collection=%00", "suggestions?prefix=a%00b", "models/ragstone/a%00b",
        )
    ),
    *(("DELETE", f"/v1/{path}/a%00b", {}) for path in
      ("documents", "queries", "sessions", "collections")),
    ("DELETE", "/v1/queries?session_id=a%00b", {}),
    ("GET", "/v1/documents", {"headers": {"X-API-Key": "rs_a b"}}),
]  # fmt: skip


async def test_a_nul_is_refused_or_left_out_at_every_endpoint(engine: Engine) -> None:
    transport = httpx.ASGITransport(create_app(engine), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        for method, path, sent in SENT:
            reply = await client.request(method, path, **sent)
            assert reply.status_code < 500, (method, path, sent, reply.text)
            if reply.status_code >= 400:
                assert reply.headers["content-type"] == "application/problem+json", path
            elif path != "/v1/check-grounding":  # whose claims are spans of what was sent
                assert "\\u0000" not in reply.text, (method, path, sent)


async def test_an_id_that_only_asks_is_refused_where_the_database_begins(engine: Engine) -> None:
    for ask in (engine.catalog.document, engine.catalog.query, engine.upload):
        with pytest.raises(InputError, match="the character NUL"):
            ask("a\x00b")
    with pytest.raises(InputError, match="half of a character"):
        engine.catalog.document("a\ud800b")


async def test_a_models_nul_costs_neither_its_answer_nor_those_written_with_it(
    engine: Engine,
) -> None:
    answers = await asyncio.gather(
        *(engine.ask(f"{QUESTION} ({n})", session_id=f"s{n}") for n in range(4))
    )
    assert {answer.text for answer in answers} == {"The gate is green [Source 1]."}
    assert {answer.degraded for answer in answers} == {()}
    assert engine.history.count_queries() == 4
