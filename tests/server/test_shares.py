"""Links to one answer: read-only, within the owner's rights, ended with the answer."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from ragstone.catalog.keys import KeyRing
from ragstone.engine import Engine
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from ..patience import LONG_S
from .conftest import serve
from .test_query import problem

QUESTION = "What colour is the gate?"


class House:
    """Ann has the collection; Bob has a key for another one."""

    def __init__(self, engine: Engine, address: str) -> None:
        ring = KeyRing(engine.catalog)
        self.ring = ring
        self.keys = {}
        for owner, name in (("ann", "garden"), ("bob", "kitchen")):
            secret, key = ring.create(owner, role="writer", collections=[name], expires_in_s=None)
            self.keys[owner] = (secret, key.id)
        self.address = address

    def client(self, owner: str = "") -> httpx.Client:
        headers = {"X-API-Key": self.keys[owner][0]} if owner else {}
        return httpx.Client(base_url=self.address, headers=headers, timeout=LONG_S)

    def share(self) -> tuple[str, str]:
        """Return the id of a question of Ann and the token of its link."""
        with self.client("ann") as ann:
            body = {"name": "gate.txt", "text": "The gate is green.", "collection": "garden"}
            assert ann.post("/v1/documents", json=body).status_code == 201
            asked = ann.post("/v1/query", json={"query": QUESTION, "collection": "garden"}).json()
            shared = ann.put(f"/v1/queries/{asked['query_id']}/share").json()
        assert shared["url"].endswith(f"/#/shared/{shared['token']}")
        return asked["query_id"], shared["token"]


@pytest.fixture
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    engine = Engine(settings_in(tmp_path_factory.mktemp("shares")), embedder=HashEmbedder())
    for address in serve(engine):
        yield House(engine, address)


def test_a_link_shows_the_answer_and_its_quotations_to_another_key(house: House) -> None:
    query_id, token = house.share()
    with house.client("bob") as bob:
        shown = bob.get(f"/v1/shared/{token}").json()
        assert shown["query"] == QUESTION
        assert "green" in shown["answer"]
        assert shown["citations"][0]["snippet"] == "The gate is green."
        assert shown["claims"][0]["verdict"] == "supported"
        # The link is for the answer alone.
        problem(bob.get(f"/v1/queries/{query_id}"), 404)
        problem(bob.get(f"/v1/documents/{shown['citations'][0]['document_id']}"), 404)
        problem(bob.delete(f"/v1/queries/{query_id}/share"), 404)
        problem(bob.put(f"/v1/queries/{query_id}/share"), 404)
    with house.client() as nobody:
        problem(nobody.get(f"/v1/shared/{token}"), 401)


def test_an_answer_has_one_link_and_it_can_be_taken_back(house: House) -> None:
    query_id, token = house.share()
    with house.client("ann") as ann:
        assert ann.put(f"/v1/queries/{query_id}/share").json()["token"] == token
        assert ann.delete(f"/v1/queries/{query_id}/share").status_code == 204
        problem(ann.get(f"/v1/shared/{token}"), 404)
        assert ann.put(f"/v1/queries/{query_id}/share").json()["token"] != token


def test_a_link_ends_with_its_answer(house: House) -> None:
    query_id, token = house.share()
    with house.client("ann") as ann:
        assert ann.delete(f"/v1/queries/{query_id}").status_code == 204
        problem(ann.get(f"/v1/shared/{token}"), 404)


def test_a_link_ends_with_the_rights_of_its_owner(house: House) -> None:
    _, token = house.share()
    house.ring.revoke(house.keys["ann"][1])
    with house.client("bob") as bob:
        problem(bob.get(f"/v1/shared/{token}"), 404)
