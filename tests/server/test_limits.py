"""Limits: too often, too many at once, too long. Each refusal says when to come back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from ragstone.catalog.keys import KeyRing
from ragstone.engine import Engine
from ragstone.errors import SettingsError
from ragstone.server.app import create_app
from ragstone.server.limits import AnswerSlots, RateLimits, is_loopback
from ragstone.testing import HashEmbedder
from ragstone.types import Prompt

from ..conftest import settings_in
from ..patience import until
from .test_query import problem

ASKED = {"query": "What colour is the gate?"}


class Waiting:
    """A provider that answers when it is told to."""

    name, model = "waiting", "none"

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.begun = 0

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        self.begun += 1
        await self.go.wait()
        yield "It is green [Source 1]."


@asynccontextmanager
async def served(
    folder: Path, provider: Waiting, client_host: str = "127.0.0.1", **flags: object
) -> AsyncIterator[tuple[Engine, httpx.AsyncClient]]:
    (folder / "gate.txt").write_text("The gate is green.")
    engine = Engine(
        settings_in(folder / "data", **flags), embedder=HashEmbedder(), provider=provider
    )
    await engine.ingest([folder / "gate.txt"])
    transport = httpx.ASGITransport(create_app(engine), client=(client_host, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield engine, client
    engine.close()


def slots_of(client: httpx.AsyncClient) -> AnswerSlots:
    transport = client._transport
    assert isinstance(transport, httpx.ASGITransport)
    slots: AnswerSlots = transport.app.state.answer_slots  # type: ignore[attr-defined]
    return slots


async def test_a_key_that_asks_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    flags = {"server.rate_per_key": "3/minute"}
    async with served(tmp_path, Waiting(), **flags) as (engine, client):
        ring = KeyRing(engine.catalog)
        first, second = (
            ring.create(name, role="reader", collections=["default"], expires_in_s=None)[0]
            for name in ("ann", "bob")
        )
        for _ in range(3):
            assert (await _list(client, first)).status_code == 200
        refused = await _list(client, first)
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert "more than 3 requests" in problem(refused, 429)["detail"]
        assert (await _list(client, second)).status_code == 200


def _list(client: httpx.AsyncClient, key: str) -> Awaitable[httpx.Response]:
    return client.get("/v1/documents", headers={"X-API-Key": key})


async def test_an_address_that_asks_too_often_is_refused_even_without_a_key(tmp_path: Path) -> None:
    flags = {"server.rate_per_ip": "2/minute"}
    async with served(tmp_path, Waiting(), "203.0.113.7", **flags) as (_, client):
        codes = [(await client.get("/healthz")).status_code for _ in range(3)]
        assert codes == [200, 200, 429]


async def test_this_machine_itself_is_not_counted(tmp_path: Path) -> None:
    async with served(tmp_path, Waiting(), **{"server.rate_per_ip": "2/minute"}) as (_, client):
        codes = [(await client.get("/healthz")).status_code for _ in range(4)]
        assert codes == [200] * 4


async def test_answers_wait_in_a_bounded_queue_and_the_rest_is_sent_away(tmp_path: Path) -> None:
    provider = Waiting()
    flags = {"server.max_generations": 1, "server.max_waiting": 1}
    async with served(tmp_path, provider, **flags) as (_, client):
        first = asyncio.create_task(client.post("/v1/query", json=ASKED))
        await until(lambda: provider.begun == 1)
        second = asyncio.create_task(client.post("/v1/query", json=ASKED))
        await until(lambda: slots_of(client)._waiting == 1)
        third = await client.post("/v1/query", json=ASKED)
        assert "queue is full" in problem(third, 503)["detail"]
        assert int(third.headers["retry-after"]) >= 1
        assert (await client.get("/v1/documents")).status_code == 200  # looking up needs no place
        assert provider.begun == 1
        provider.go.set()
        assert (await first).status_code == (await second).status_code == 200


async def test_waiting_has_an_end(tmp_path: Path) -> None:
    provider = Waiting()
    flags = {"server.max_generations": 1, "server.queue_timeout_s": 0.1}
    async with served(tmp_path, provider, **flags) as (_, client):
        first = asyncio.create_task(client.post("/v1/query", json=ASKED))
        await until(lambda: provider.begun == 1)
        second = await client.post("/v1/query", json=ASKED)
        assert "waited 0.1 s" in problem(second, 503)["detail"]
        provider.go.set()
        assert (await first).status_code == 200


async def test_a_request_that_takes_too_long_is_ended_and_gives_its_place_back(
    tmp_path: Path,
) -> None:
    provider = Waiting()
    flags = {"server.request_timeout_s": 0.5, "server.max_generations": 1}
    async with served(tmp_path, provider, **flags) as (_, client):
        reply = await client.post("/v1/query", json=ASKED)
        assert "longer than 0.5 s" in problem(reply, 504)["detail"]
        await until(lambda: not slots_of(client)._slots.locked())


@pytest.mark.slow
async def test_a_stream_that_takes_too_long_ends_with_an_error_and_says_so(tmp_path: Path) -> None:
    provider = Waiting()
    flags = {"server.request_timeout_s": 5.0, "server.max_generations": 1}
    events = {"accept": "text/event-stream", "x-request-id": "late"}
    async with served(tmp_path, provider, **flags) as (_, client):
        provider.go.set()
        await client.post("/v1/query", json=ASKED)  # what is loaded once is loaded
        provider.go.clear()
        reply = await client.post("/v1/query", json=ASKED, headers=events)
        *_, last = [json.loads(line[6:]) for line in reply.text.split("\n\n") if line]
        assert (last["type"], last["status"], last["request_id"]) == ("error", 504, "late")
        assert "longer than 5 s" in last["detail"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "127.0.0.1:8642"}, 200),
        ({"Host": "[::1]:8642", "Origin": "http://localhost:8642"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1", "Origin": "https://evil.example"}, 403),
        ({"Host": "127.0.0.1", "Origin": "null"}, 403),
        ({"Host": "evil.example", "Authorization": "Bearer any"}, 403),
        ({"Host": "evil.example", "X-API-Key": "any"}, 403),
    ],
)
async def test_without_keys_only_this_machines_own_names_are_answered(
    engine: Engine, headers: dict[str, str], code: int
) -> None:
    app = create_app(engine, only_hosts=("127.0.0.1", "localhost", "::1"))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.get("/v1/documents", headers=headers)).status_code == code


async def test_a_key_made_while_the_server_runs_opens_it_under_any_name(engine: Engine) -> None:
    app = create_app(engine, only_hosts=("127.0.0.1",))
    secret, _ = app.state.keys.create("ann", role="admin", collections=("*",), expires_in_s=None)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://rag.example") as client:
        for key, code in ((secret, 200), ("rs_wrong", 401)):
            reply = await client.get("/v1/documents", headers={"X-API-Key": key})
            assert reply.status_code == code


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("[::1]", True), ("localhost", True),
     ("0.0.0.0", False), ("10.0.0.1", False), ("", False), ("example.org", False)],
)  # fmt: skip
def test_which_addresses_are_loopback(host: str, own: bool) -> None:
    assert is_loopback(host) is own


@pytest.mark.parametrize("flag", ["server.rate_per_key", "server.rate_per_ip"])
def test_a_rate_that_is_none_is_a_settings_error(tmp_path: Path, flag: str) -> None:
    with pytest.raises(SettingsError, match="Invalid rate limit"):
        RateLimits(settings_in(tmp_path, **{flag: "often"}))


@pytest.mark.parametrize("address", ["rediss2://:s3cret@host:6379", "redis://:s3cret@host:abc"])
def test_an_address_that_cannot_be_counted_at_is_refused_without_its_password(
    tmp_path: Path, address: str
) -> None:
    with pytest.raises(SettingsError, match="Invalid server") as refused:
        RateLimits(settings_in(tmp_path, **{"server.rate_storage": address}))
    assert "s3cret" not in f"{refused.value} {refused.value.hint}"


async def test_methods_that_a_client_invents_share_one_label(engine: Engine) -> None:
    transport = httpx.ASGITransport(create_app(engine))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        await client.request("INVENTED", "/healthz")
        metrics = (await client.get("/metrics")).text
    assert 'method="other"' in metrics
    assert "INVENTED" not in metrics
