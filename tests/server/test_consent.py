"""With REQUIRE_CONSENT nothing of a user is stored before they agree, at any endpoint."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from ragstone.engine import Engine
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from ..lazy import Lazy
from .conftest import serve
from .test_auth import House
from .test_query import problem

if TYPE_CHECKING:
    import mcp
    import mcp.client.streamable_http as streamable
    import mcp.shared._httpx_utils as mcp_http
else:
    mcp = Lazy("mcp")
    streamable = Lazy("mcp.client.streamable_http")
    mcp_http = Lazy("mcp.shared._httpx_utils")

WORD = "xylophone"
QUESTION = f"Is the {WORD} green?"
MESSAGES = {"messages": [{"role": "user", "content": QUESTION}]}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("consent")
    settings = settings_in(
        folder / "data", **{"journal.require_consent": True, "journal.retention_days": 30}
    )
    engine = Engine(settings, embedder=HashEmbedder())
    (folder / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    for collection in ("default", "chat_7"):
        asyncio.run(engine.ingest([folder / "gate.txt"], collection=collection))
    for address in serve(engine):
        house = House(engine, address)
        house.key("root", "admin")
        yield house


def rows_with(engine: Engine, word: str) -> dict[str, int]:
    """Count the rows of each table that hold a word in any column."""
    with closing(sqlite3.connect(engine.settings.data.directory / "catalog.db")) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = [name for (name,) in found]
        counts = {
            name: sum(word.encode() in repr(row).encode()
                      for row in connection.execute(f"SELECT * FROM {name}"))
            for name in tables
        }  # fmt: skip
    return {name: count for name, count in counts.items() if count}


def files_with(engine: Engine, word: str) -> list[str]:
    files = (path for path in engine.settings.data.directory.rglob("*") if path.is_file())
    return [path.name for path in files if word.encode() in path.read_bytes()]


def ask_assistant(client: httpx.Client) -> None:
    """Ask over MCP with the key of the client."""

    async def ask() -> None:
        headers = {"Authorization": client.headers["authorization"]}
        async with mcp_http.create_mcp_http_client(headers=headers) as http:
            address = f"{str(client.base_url).rstrip('/')}/mcp"
            async with mcp.Client(
                streamable.streamable_http_client(address, http_client=http)
            ) as assistant:
                result = await assistant.call_tool("ask", {"question": QUESTION})
                assert not result.is_error, result.content

    asyncio.run(ask())


def post(path: str, body: dict[str, Any]) -> Callable[[httpx.Client], None]:
    def send(client: httpx.Client) -> None:
        reply = client.post(path, json=body)
        assert reply.status_code == 200, reply.text

    return send


ENDPOINTS: dict[str, Callable[[httpx.Client], None]] = {
    "query": post("/v1/query", {"query": QUESTION, "session_id": "one"}),
    "batch": post("/v1/query/batch", {"queries": [QUESTION]}),
    "context": post("/v1/context", {"query": QUESTION}),
    "chat": post("/api/chat", MESSAGES),
    "chat stream": post("/api/chat/stream", MESSAGES),
    "chat compare": post("/api/chat/compare", MESSAGES),
    "room": post("/chat/7/stream", {"message": QUESTION, "session_id": "two"}),
    "openai": post("/v1/chat/completions", {"model": "ragstone/default", **MESSAGES}),
    "openai stream": post(
        "/v1/chat/completions", {"model": "ragstone/default", "stream": True, **MESSAGES}
    ),
    "presets": post("/v1/compare", {"query": QUESTION, "presets": ["minimal", "balanced"]}),
    "search": post("/search", {"query": QUESTION, "top_k": 2}),
    "mcp": ask_assistant,
}
# These answer nothing, or compare settings, and are in no history.
UNRECORDED = {"context", "presets", "search"}


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_user_who_has_not_agreed_leaves_no_trace(house: House, endpoint: str) -> None:
    with house.client(house.key("nobody", "reader", "*")) as client:
        ENDPOINTS[endpoint](client)
        assert rows_with(house.engine, WORD) == {}
        assert rows_with(house.engine, "nobody").keys() <= {"keys"}
        assert files_with(house.engine, WORD) == []
        assert client.get("/v1/queries").json() == client.get("/v1/sessions").json() == []


@pytest.mark.parametrize("endpoint", [one for one in ENDPOINTS if one not in UNRECORDED])
def test_what_is_stored_after_a_user_agreed_is_gone_when_they_withdraw(
    house: House, endpoint: str
) -> None:
    with house.client(house.key("alice", "reader", "*")) as client:
        assert client.post("/v1/consent").status_code == 200
        ENDPOINTS[endpoint](client)
        stored = rows_with(house.engine, WORD)
        assert stored["queries"] == 1
        assert ("turns" in stored) == (endpoint in ("query", "room"))
        query_id = client.get("/v1/queries").json()[0]["query_id"]
        rating = {"vote": "up", "comment": f"The {WORD} is right."}
        client.post(f"/v1/queries/{query_id}/feedback", json=rating)
        assert rows_with(house.engine, WORD)["feedback"] == 1
        withdrawn = client.delete("/v1/consent").json()
        assert withdrawn == {"sessions": int("turns" in stored), "queries": 1}
        assert rows_with(house.engine, WORD) == {}
        assert rows_with(house.engine, "alice").keys() <= {"keys"}
        assert files_with(house.engine, WORD) == []


def test_an_answer_is_the_same_and_says_that_it_is_not_remembered(house: House) -> None:
    asked = {"query": "Is the gate green?", "session_id": "s"}
    replies = []
    for owner in ("carol", "dave"):
        with house.client(house.key(owner, "reader", "default")) as client:
            if owner == "dave":
                client.post("/v1/consent")
            replies.append(client.post("/v1/query", json=asked).json())
            follow_up = {**asked, "query": "and when was it painted?"}
            replies.append(client.post("/v1/query", json=follow_up).json())
    before, _, after, _ = replies
    assert "green" in before["answer"]
    assert [before[name] for name in ("answer", "citations", "status", "confidence")] == [
        after[name] for name in ("answer", "citations", "status", "confidence")
    ]
    (note,) = set(before["notes"]) - set(after["notes"])
    assert "not remembered" in note
    assert "POST /v1/consent" in note


def test_the_consent_says_what_is_stored_and_for_how_long(house: House) -> None:
    with house.client(house.key("erin", "reader", "default")) as client:
        before = client.get("/v1/consent").json()
        assert before == {
            "owner": "erin", "required": True, "agreed_at": None, "stores": False,
            "query_log": "full", "retention_days": 30,
            "description": "Your questions, their answers and your conversations are stored for "
            "30 days.",
        }  # fmt: skip
        agreed = client.post("/v1/consent").json()
        assert agreed["stores"]
        assert client.post("/v1/consent").json() == client.get("/v1/consent").json() == agreed
        client.delete("/v1/consent")
        assert client.get("/v1/consent").json() == before


def test_an_answer_cannot_be_rated_before_its_user_agrees(house: House) -> None:
    with house.client(house.key("frank", "reader", "default")) as client:
        asked = client.post("/v1/query", json={"query": "Is the gate green?"}).json()
        reply = client.post(f"/v1/queries/{asked['query_id']}/feedback", json={"vote": "up"})
        assert "before you agree" in problem(reply, 422)["detail"]


def test_only_an_admin_withdraws_for_another(house: House) -> None:
    with house.client(house.key("grace", "reader", "default")) as client:
        client.post("/v1/consent")
        client.post("/v1/query", json={"query": "Is the gate green?"})
        with house.client(house.key("heidi", "writer", "default")) as other:
            problem(other.delete("/v1/consent", params={"owner": "grace"}), 403)
        assert client.get("/v1/consent").json()["stores"]
        with house.client(house.key("root", "admin")) as admin:
            withdrawn = admin.delete("/v1/consent", params={"owner": "grace"}).json()
        assert withdrawn == {"sessions": 0, "queries": 1}
        assert not client.get("/v1/consent").json()["stores"]


def test_without_the_setting_nobody_is_asked(client: httpx.Client) -> None:
    found = client.get("/v1/consent").json()
    assert (found["required"], found["stores"], found["owner"]) == (False, True, "local")
    for change in (client.post, client.delete):
        assert "does not ask" in problem(change("/v1/consent"), 422)["detail"]


@pytest.mark.parametrize("log", ["metadata", "full"])
async def test_a_conversation_is_not_in_memory_either(tmp_path: Path, log: str) -> None:
    flags = {"journal.require_consent": True, "journal.query_log": log}
    engine = Engine(settings_in(tmp_path / "data", **flags), embedder=HashEmbedder())
    async with engine:
        await engine.ask("Is it green?", session_id="s", owner="ivan")
        engine.history.consents.agree("ivan")
        assert engine.conversation.sessions.find("ivan", "s") is None
        await engine.ask("Is it green?", session_id="s", owner="ivan")
        found = engine.conversation.sessions.find("ivan", "s")
        assert found is not None
        assert len(found.turns) == 1
        engine.history.withdraw_consent("ivan")
        assert engine.conversation.sessions.find("ivan", "s") is None
