"""Who may come in: keys, their roles and their collections, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ragstone.catalog.keys import KeyRing, Role
from ragstone.engine import Engine
from ragstone.errors import ForbiddenError
from ragstone.server.auth import Caller
from ragstone.testing import HashEmbedder

from ..cli.run import call
from ..conftest import settings_in
from ..patience import LONG_S
from .conftest import serve
from .test_query import problem


class House:
    """A served engine with one document in `alpha` and one in `beta`, and a way to make keys."""

    def __init__(self, engine: Engine, address: str) -> None:
        self.engine, self.address = engine, address
        self.keys = KeyRing(engine.catalog)

    def key(
        self, owner: str, role: Role, *collections: str, expires_in_s: float | None = None
    ) -> str:
        return self.keys.create(
            owner, role=role, collections=collections, expires_in_s=expires_in_s
        )[0]

    def client(self, secret: str = "") -> httpx.Client:
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        return httpx.Client(base_url=self.address, headers=headers, timeout=LONG_S)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    engine = Engine(settings_in(folder / "data"), embedder=HashEmbedder())
    for name in ("alpha", "beta"):
        (folder / f"{name}.txt").write_text(f"The code of {name} is 8812.")
        asyncio.run(engine.ingest([folder / f"{name}.txt"], collection=name))
    for address in serve(engine):
        house = House(engine, address)
        house.key("root", "admin")
        yield house


def test_a_server_without_keys_is_open_to_the_machines_own_user(client: httpx.Client) -> None:
    assert client.get("/v1/documents").status_code == 200


def test_no_key_and_unknown_keys_are_refused_with_a_problem(house: House) -> None:
    with house.client() as client:
        reply = client.get("/v1/documents")
        assert "requires a key" in problem(reply, 401)["detail"]
        assert reply.headers["www-authenticate"] == "Bearer"
        for secret in (b"rs_00000000_nothing", b"x", b"rs_", b"\xff\xfe"):
            wrong = client.get("/v1/documents", headers=[(b"X-API-Key", secret)])
            assert "Unknown key" in problem(wrong, 401)["detail"]


def test_a_key_opens_by_either_header(house: House) -> None:
    secret = house.key("ann", "reader", "alpha")
    with house.client() as client:
        for headers in ({"X-API-Key": secret}, {"Authorization": f"Bearer {secret}"}):
            reply = client.get("/v1/documents", params={"collection": "alpha"}, headers=headers)
            assert reply.status_code == 200


def test_a_key_with_another_secret_but_the_same_id_is_not_known(house: House) -> None:
    secret = house.key("ann", "reader", "alpha")
    with house.client(f"{secret[:-2]}{'AA' if secret[-2:] != 'AA' else 'BB'}") as client:
        assert "Unknown key" in problem(client.get("/v1/documents"), 401)["detail"]


def test_an_expired_key_is_refused(house: House) -> None:
    secret = house.key("ann", "reader", "alpha", expires_in_s=0)
    with house.client(secret) as client:
        assert "expired" in problem(client.get("/v1/documents"), 401)["detail"]


def test_a_revoked_key_is_refused(house: House) -> None:
    secret = house.key("ann", "admin")
    with house.client(secret) as client:
        assert client.get("/v1/documents").status_code == 200
        house.keys.revoke(secret.split("_")[1])
        time.sleep(1.1)  # the server looks again after a second
        assert "revoked" in problem(client.get("/v1/documents"), 401)["detail"]


def test_a_reader_may_not_write_and_nobody_reaches_another_collection(house: House) -> None:
    with house.client(house.key("ann", "reader", "alpha")) as client:
        text = {"name": "n.txt", "text": "Something new.", "collection": "alpha"}
        assert "only read" in problem(client.post("/v1/documents", json=text), 403)["detail"]
        asked = {"query": "What is the code of beta?", "collection": "beta"}
        assert "alpha" in problem(client.post("/v1/query", json=asked), 403)["hint"]
        asked["collection"] = "alpha"
        assert client.post("/v1/query", json=asked).status_code == 200


def test_a_writer_writes_to_its_own_collections_only(house: House, tmp_path: Path) -> None:
    with house.client(house.key("bob", "writer", "team-*")) as client:
        text = {"name": "n.txt", "text": "Something new.", "collection": "team-a"}
        assert client.post("/v1/documents", json=text).status_code == 201
        text["collection"] = "beta"
        problem(client.post("/v1/documents", json=text), 403)


@pytest.mark.parametrize(
    ("caller", "reads", "writes"),
    [
        (Caller("a", "reader", ("alpha",)), True, False),
        (Caller("a", "writer", ("al*",)), True, True),
        (Caller("a", "writer", ("beta",)), False, False),
        (Caller("a", "writer", ()), False, False),
        (Caller("a", "admin", ()), True, True),
    ],
)
def test_what_a_role_may_do(caller: Caller, reads: bool, writes: bool) -> None:
    assert (caller.can_read("alpha"), caller.can_write("alpha")) == (reads, writes)
    for may, require in ((reads, caller.require_read), (writes, caller.require_write)):
        if may:
            require("alpha")
        else:
            with pytest.raises(ForbiddenError):
                require("alpha")


def test_the_key_of_an_admin_is_listed_with_every_collection(tmp_path: Path) -> None:
    call("keys", "create", "root", "--role", "admin", "-C", "wiki", "-d", "data", cwd=tmp_path)
    (key,) = json.loads(call("keys", "list", "--json", "-d", "data", cwd=tmp_path).stdout)
    assert key["collections"] == ["*"]
