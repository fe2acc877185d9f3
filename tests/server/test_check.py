"""`POST /v1/check-grounding` and `Engine.check`: verdicts on anybody's answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.server.app import create_app

from ..conftest import settings_in

FACTS = ["The gate is green. It was painted in 2020.", "The lease ends on 30 June 2039."]


@pytest.fixture
async def client(tmp_path: Path, embedder: OnnxEmbedder) -> AsyncIterator[httpx.AsyncClient]:
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder)
    transport = httpx.ASGITransport(create_app(engine))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client
    engine.close()


async def test_each_claim_gets_its_span_verdict_and_facts(client: httpx.AsyncClient) -> None:
    answer = "The gate is green. The lease ends on 30 June 2038. Bananas grow in Ecuador."
    reply = (
        await client.post("/v1/check-grounding", json={"answer": answer, "facts": FACTS})
    ).json()
    assert set(reply) == {"support_score", "claims", "cited_facts", "notes", "unknown_sources"}
    assert [claim["verdict"] for claim in reply["claims"]] == [
        "supported", "contradicted", "unsupported",
    ]  # fmt: skip
    assert [answer[c["start"] : c["end"]] for c in reply["claims"]] == [
        c["text"] for c in reply["claims"]
    ]
    assert reply["claims"][0]["cited"] == reply["cited_facts"] == [1]
    assert reply["claims"][1]["reasons"] == [
        "The source says something else.",
        "30 June 2038 isn't in the source.",
    ]
    assert 0 < reply["support_score"] < 1


async def test_a_marker_that_names_the_wrong_fact_is_misattributed(
    client: httpx.AsyncClient,
) -> None:
    body = {"answer": "The gate is green [Source 2].", "facts": FACTS}
    reply = (await client.post("/v1/check-grounding", json=body)).json()
    assert (reply["claims"][0]["verdict"], reply["claims"][0]["cited"]) == ("misattributed", [1])


@pytest.mark.parametrize("body", [{}, {"answer": "x", "facts": []}, {"answer": "x", "facts": "y"}])
async def test_a_request_without_facts_is_refused(
    client: httpx.AsyncClient, body: dict[str, object]
) -> None:
    assert (await client.post("/v1/check-grounding", json=body)).status_code == 422


async def test_more_than_can_be_checked_in_time_is_refused(client: httpx.AsyncClient) -> None:
    body = {"answer": "The gate is green. " * 5000, "facts": ["The gate is green. " * 2000] * 20}
    reply = await client.post("/v1/check-grounding", json=body)
    assert reply.status_code == 422
    assert "too much" in reply.json()["detail"]
