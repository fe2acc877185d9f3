"""The doors for those who look closer: candidates, presets side by side, parts of documents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from ragstone.catalog.keys import KeyRing
from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.server.app import create_app
from ragstone.server.routes.explore import EngineVariants
from ragstone.settings import load_settings
from ragstone.testing import HashEmbedder

from ..conftest import settings_in


@pytest.fixture
async def own(tmp_path: Path, embedder: OnnxEmbedder) -> AsyncIterator[httpx.AsyncClient]:
    """A client on an empty engine of its own."""
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder)
    transport = httpx.ASGITransport(create_app(engine))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client
    engine.close()


async def sent(client: httpx.AsyncClient, name: str, text: str) -> str:
    reply = await client.post("/v1/documents", json={"name": name, "text": text})
    assert reply.status_code == 201
    return str(reply.json()["documents"][0]["id"])


def test_candidates_come_unfiltered_with_every_score(client: httpx.Client) -> None:
    reply = client.get("/v1/candidates", params={"query": "What colour is the gate?"}).json()
    assert reply["min_similarity"] == 0.1
    assert reply["min_chunks"] == 2
    assert {one["document_name"] for one in reply["candidates"]} == {"gate.txt", "dome.md"}
    assert all(one["scores"]["similarity"] is not None for one in reply["candidates"])


def test_presets_answer_side_by_side_and_say_what_they_set(client: httpx.Client) -> None:
    body = {"query": "What colour is the gate?", "presets": ["minimal", "classic"]}
    minimal, classic = client.post("/v1/compare", json=body).json()["sides"]
    assert (minimal["preset"], classic["preset"]) == ("minimal", "classic")
    assert (minimal["settings"]["retrieve.fusion"], classic["settings"]["retrieve.fusion"]) == (
        "convex", "rrf",
    )  # fmt: skip
    assert minimal["settings"].keys() == classic["settings"].keys()
    for side in (minimal, classic):
        assert "green" in side["answer"]["answer"]
        assert side["answer"]["trace"]["waterfall"]["stages"]
        assert {one["document_name"] for one in side["passages"]} <= {"gate.txt", "dome.md"}


def test_an_unknown_preset_is_refused(client: httpx.Client) -> None:
    body = {"query": "What colour is the gate?", "presets": ["minimal", "best"]}
    assert client.post("/v1/compare", json=body).status_code == 422


def test_a_past_query_names_the_chunks_its_stages_saw(client: httpx.Client) -> None:
    asked = client.post("/v1/query", json={"query": "What colour is the gate?"}).json()
    seen = client.get(f"/v1/queries/{asked['query_id']}/chunks").json()
    assert "gate.txt" in {one["document_name"] for one in seen}
    assert client.get("/v1/queries/nothing/chunks").status_code == 404


async def test_a_passage_is_cut_out_of_the_text_by_code_points(own: httpx.AsyncClient) -> None:
    text = "😀😀 The gate is green. It opens at nine."
    document = await sent(own, "gate.txt", text)
    reply = (await own.get(f"/v1/documents/{document}/text?start=3&end=21&around=2")).json()
    assert (reply["start"], reply["end"], reply["length"]) == (1, 23, len(text))
    assert reply["text"] == text[1:23]
    whole = (await own.get(f"/v1/documents/{document}/text")).json()
    assert whole["text"] == text
    beyond = (await own.get(f"/v1/documents/{document}/text?start=900&end=901")).json()
    assert beyond["text"] == ""
    assert (await own.get("/v1/documents/nothing/text")).status_code == 404


async def test_chunks_and_versions_of_a_document_are_listed(own: httpx.AsyncClient) -> None:
    old = await sent(own, "gate.txt", "The gate is green.")
    new = await sent(own, "gate.txt", "The gate is red.")
    chunks = (await own.get(f"/v1/documents/{new}/chunks")).json()
    assert [(one["chunk_id"], one["text"]) for one in chunks] == [(f"{new}:0", "The gate is red.")]
    assert (await own.get(f"/v1/documents/{old}/chunks")).json() == []
    versions = (await own.get(f"/v1/documents/{new}/versions")).json()
    assert [one["id"] for one in versions] == [new, old]
    assert [one["retired_at"] is None for one in versions] == [True, False]


def test_settings_are_told_with_their_origin_and_without_secrets(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    from fastapi.testclient import TestClient

    loaded = load_settings(
        flags={"data.directory": tmp_path / "data", "provider.api_key": "very-secret"},
        environ={"RAG_TOP_K": "3"},
    )
    app = create_app(Engine(loaded.settings, embedder=embedder), loaded=loaded)
    with TestClient(app) as client:
        reply = client.get("/v1/settings")
    told = {one["name"]: one for one in reply.json()["settings"]}
    assert (told["refine.top_k"]["value"], told["refine.top_k"]["origin"]) == (
        3, "environment RAG_TOP_K",
    )  # fmt: skip
    assert told["provider.api_key"]["value"] == "********"
    assert "very-secret" not in reply.text


def test_settings_handed_over_ready_made_still_tell_what_the_preset_set(
    client: httpx.Client,
) -> None:
    told = client.get("/v1/settings").json()
    origins = {one["name"]: one["origin"] for one in told["settings"]}
    assert origins["data.directory"] == "program"
    assert origins["refine.min_similarity"] == "preset balanced"
    assert origins["retrieve.bm25_k1"] == "default"


def test_a_reader_sees_its_collection_alone_and_not_where_things_stand(
    tmp_path: Path,
) -> None:
    from fastapi.testclient import TestClient

    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
    app = create_app(engine)
    with TestClient(app) as client:
        reply = client.post(
            "/v1/documents",
            json={"name": "b.txt", "text": "The code is 8812.", "collection": "beta"},
        )
        document = reply.json()["documents"][0]["id"]
        asked = client.post(
            "/v1/query", json={"query": "What is the code?", "collection": "beta"}
        ).json()
        secret, _ = KeyRing(engine.catalog).create(
            "ann", role="reader", collections=["alpha"], expires_in_s=None
        )
        app.state.keys = KeyRing(engine.catalog)
        client.headers["Authorization"] = f"Bearer {secret}"
        where = {"query": "What is the code?", "collection": "beta"}
        assert client.get("/v1/candidates", params=where).status_code == 403
        both = {**where, "presets": ["minimal", "classic"]}
        assert client.post("/v1/compare", json=both).status_code == 403
        assert client.post("/v1/samples", json={"collection": "alpha"}).status_code == 403
        for part in ("text", "chunks", "versions"):
            assert client.get(f"/v1/documents/{document}/{part}").status_code == 404
        assert client.get(f"/v1/queries/{asked['query_id']}/chunks").status_code == 404
        told = [one["name"] for one in client.get("/v1/settings").json()["settings"]]
        assert "refine.top_k" in told
        assert "data.directory" not in told
        assert client.get("/").status_code == 200


async def test_an_engine_of_other_settings_opens_no_file_again(tmp_path: Path) -> None:
    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
    variants = EngineVariants(engine, ())
    assert variants.build_unrefined()._derived is engine._derived
    assert variants.build_quoting()._derived is engine._derived
    engine.close()
