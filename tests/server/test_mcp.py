"""The official MCP client talks to Ragstone over stdio and over HTTP, and keys hold there too."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from ragstone.catalog.keys import KeyRing
from ragstone.engine import Engine
from ragstone.server.app import create_app
from ragstone.testing import HashEmbedder

from ..cli.run import assert_refused, call, environment
from ..cli.test_signals import started
from ..conftest import settings_in
from ..lazy import Lazy
from ..patience import LONG_S
from .conftest import serve, serve_application
from .test_run import Served

if TYPE_CHECKING:
    import mcp
    import mcp.client.streamable_http as streamable
    import mcp.shared._httpx_utils as mcp_http
else:
    mcp = Lazy("mcp")
    streamable = Lazy("mcp.client.streamable_http")
    mcp_http = Lazy("mcp.shared._httpx_utils")

pytestmark = pytest.mark.slow


async def called(client: mcp.Client, tool: str, **arguments: str) -> dict[str, Any]:
    """The reply of a tool: exactly one item, of type text, that holds JSON."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    (item,) = result.content
    assert item.type == "text"
    return dict(json.loads(item.text))


async def refused(client: mcp.Client, tool: str, **arguments: str) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return str(result.content[0].text)


async def ingest_gate(folder: Path) -> None:
    async with Engine(settings_in(folder / "data")) as engine:
        await engine.ingest([folder / "gate.md"])


async def test_an_assistant_searches_fetches_and_asks_over_stdio(tmp_path: Path) -> None:
    (tmp_path / "gate.md").write_text("# Gate\n\nThe gate of the observatory is painted green.\n")
    await ingest_gate(tmp_path)
    server = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "ragstone", "mcp", "-d", "data"],
        env=environment(), cwd=tmp_path,
    )  # fmt: skip
    async with mcp.Client(server) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools == {"search", "fetch", "ask"}
        found = await called(client, "search", query="colour of the gate")
        assert set(found) == {"results"}
        first = found["results"][0]
        assert set(first) == {"id", "title", "url"}
        item = await called(client, "fetch", id=first["id"])
        assert set(item) == {"id", "title", "text", "url", "metadata"}
        assert "painted green" in item["text"]
        whole = await called(client, "fetch", id=item["metadata"]["document_id"])
        assert whole["text"].startswith("# Gate")
        answer = await called(client, "ask", question="What colour is the gate?")
        assert "green" in answer["answer"]
        assert answer["citations"][0]["title"] == "gate.md"
        assert "not found in the collection" in await refused(client, "fetch", id=f"{item['id']}9")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Engine]]:
    folder = tmp_path_factory.mktemp("assistants")
    engine = Engine(settings_in(folder / "data"), embedder=HashEmbedder())
    for name in ("alpha", "beta"):
        (folder / f"{name}.txt").write_text(f"The code of {name} is 8812.")
        asyncio.run(engine.ingest([folder / f"{name}.txt"], collection=name))
    for address in serve(engine):
        yield address, engine


def keyed(engine: Engine, *collections: str) -> str:
    ring = KeyRing(engine.catalog)
    return ring.create("ann", role="reader", collections=collections, expires_in_s=None)[0]


async def test_only_asking_takes_a_place_among_the_answers(tmp_path: Path) -> None:
    settings = settings_in(
        tmp_path / "data",
        **{"server.max_generations": 1, "server.queue_timeout_s": 0.1,
           "server.public_url": "https://rag.example/docs/"},
    )  # fmt: skip
    (tmp_path / "gate.txt").write_text("The gate is green.")
    engine = Engine(settings, embedder=HashEmbedder())
    await engine.ingest([tmp_path / "gate.txt"])
    app = create_app(engine)
    server = serve_application(app)
    address = await asyncio.to_thread(next, server)
    try:
        async with mcp.Client(f"{address}/mcp") as client, app.state.answer_slots.hold_slot():
            found = await called(client, "search", query="the gate")
            assert found["results"][0]["url"].startswith("https://rag.example/docs/#/source/")
            assert "no other answer was finished" in await refused(
                client, "ask", question="Is the gate green?"
            )
    finally:
        await asyncio.to_thread(server.close)


def test_no_stream_is_held_open_for_an_assistant(house: tuple[str, Engine]) -> None:
    address, engine = house
    headers = {"X-API-Key": keyed(engine, "alpha"), "Accept": "text/event-stream"}
    assert httpx.get(f"{address}/mcp", headers=headers, timeout=LONG_S).status_code == 405


async def test_keys_hold_over_http(house: tuple[str, Engine]) -> None:
    address, engine = house
    hidden = engine.documents("beta")[0].id
    headers = {"Authorization": f"Bearer {keyed(engine, 'alpha')}"}
    async with mcp_http.create_mcp_http_client(headers=headers) as http:
        async with mcp.Client(
            streamable.streamable_http_client(f"{address}/mcp", http_client=http)
        ) as client:
            found = await called(client, "search", query="What is the code?")
            assert {result["title"] for result in found["results"]} == {"alpha.txt"}
            assert found["results"][0]["url"].startswith(address)
            for wanted in (hidden, f"{hidden}:0"):
                assert "8812" not in await refused(client, "fetch", id=wanted)
            answer = await called(client, "ask", question="What is the code of beta?")
            assert "beta" not in json.dumps(answer["citations"])
        other = streamable.streamable_http_client(
            f"{address}/mcp?collection=beta", http_client=http
        )
        async with mcp.Client(other) as client:
            for tool, argument in (("search", "query"), ("ask", "question")):
                said = await refused(client, tool, **{argument: "What is the code?"})
                assert "cannot read" in said


def test_without_a_key_the_door_for_assistants_is_shut(house: tuple[str, Engine]) -> None:
    address, engine = house
    keyed(engine, "alpha")
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    reply = httpx.post(f"{address}/mcp", json=asked, headers=headers, timeout=LONG_S)
    assert reply.status_code == 401
    assert reply.headers["content-type"] == "application/problem+json"


def test_over_stdio_a_key_is_wanted_as_soon_as_there_are_keys(tmp_path: Path) -> None:
    assert call("keys", "create", "ann", "-d", "data", cwd=tmp_path).returncode == 0
    done = call("mcp", "-d", "data", cwd=tmp_path)
    assert done.returncode == 1
    assert "requires a key" in done.stderr


async def test_over_stdio_a_key_that_is_revoked_opens_nothing_any_more(tmp_path: Path) -> None:
    (tmp_path / "gate.md").write_text("The gate is painted green.\n")
    await ingest_gate(tmp_path)
    made = json.loads(call("keys", "create", "ann", "--json", "-d", "data", cwd=tmp_path).stdout)
    server = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "ragstone", "mcp", "-d", "data", "--key", made["key"]],
        env=environment(), cwd=tmp_path,
    )  # fmt: skip
    async with mcp.Client(server) as client:
        assert (await called(client, "search", query="the gate"))["results"]
        done = await asyncio.to_thread(
            call, "keys", "revoke", made["id"], "-d", "data", cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        await asyncio.sleep(1.1)
        assert "This key is revoked" in await refused(client, "search", query="the gate")


def test_over_stdio_an_expired_key_is_refused_at_once(tmp_path: Path) -> None:
    made = call("keys", "create", "ann", "--expires", "1s", "-d", "data", cwd=tmp_path)
    time.sleep(1.1)
    done = call("mcp", "-d", "data", "--key", made.stdout.strip(), cwd=tmp_path)
    assert_refused(done, "This key is expired")


async def test_assistants_alone_are_served_over_http(tmp_path: Path) -> None:
    (tmp_path / "gate.md").write_text("The gate of the observatory is painted green.\n")
    await ingest_gate(tmp_path)
    served = await asyncio.to_thread(
        lambda: Served(started("mcp", "--http", "--port", "0", "-d", "data", cwd=tmp_path))
    )
    try:
        base = served.address
        async with mcp.Client(f"{base}/mcp") as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == {
                "search", "fetch", "ask",
            }  # fmt: skip
            answer = await called(client, "ask", question="What colour is the gate?")
            assert "green" in answer["answer"]
        async with httpx.AsyncClient(base_url=base, timeout=LONG_S) as http:
            for path in ("/v1/documents", "/", "/search"):
                assert (await http.get(path)).status_code == 404
            key = (await asyncio.to_thread(
                call, "keys", "create", "ann", "-d", "data", cwd=tmp_path
            )).stdout.strip()  # fmt: skip
            await asyncio.sleep(1.1)
            asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            accept = {"Accept": "application/json, text/event-stream"}
            for sent, code in (({}, 401), ({"X-API-Key": key}, 200)):
                reply = await http.post("/mcp", json=asked, headers=accept | sent)
                assert reply.status_code == code
    finally:
        ended = await asyncio.to_thread(served.stop)
    assert ended == 0


def test_over_http_another_address_than_loopback_wants_keys(tmp_path: Path) -> None:
    done = call("mcp", "--http", "--host", "0.0.0.0", "--port", "0", "-d", "data", cwd=tmp_path)
    assert_refused(done, "open to everybody", "ragstone keys create", "--insecure", code=2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--port", "0"), "need --http"), (("--http", "--key", "rs_x"), "do not work with --http")],
)
def test_flags_of_the_other_way_are_refused(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    assert_refused(call("mcp", *arguments, "-d", "data", cwd=tmp_path), said, code=2)
