"""Chunkenizer's contract, served; and a Ragstone that asks a Ragstone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ragstone.engine import Engine
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from ..patience import LONG_S
from .conftest import serve
from .test_query import problem

TEXT = b"# House\n\nThe gate is green. It was painted in 2020.\n"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    for address in serve(Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())):
        with httpx.Client(base_url=address, timeout=LONG_S) as client:
            yield client


def send(client: httpx.Client, **form: str) -> httpx.Response:
    return client.post("/documents", files={"file": ("house.md", TEXT)}, data=form)


def test_a_document_goes_in_and_its_chunks_are_found(client: httpx.Client) -> None:
    stored = send(client, metadata_json='{"year": 2026}')
    assert stored.status_code == 200
    document = stored.json()
    assert {"document_id", "chunk_count", "total_tokens", "sha256"} <= document.keys()
    assert document["sha256"] == hashlib.sha256(TEXT).hexdigest()
    assert document["chunk_count"] == 1
    found = client.post("/search", json={"query": "The gate is green?", "top_k": 3}).json()
    (result,) = found["results"]
    assert result.keys() == {
        "score", "document_id", "document_name", "chunk_index", "chunk_text", "token_count",
        "metadata",
    }  # fmt: skip
    assert result["document_id"] == document["document_id"]
    assert (result["document_name"], result["chunk_index"]) == ("house.md", 0)
    assert result["token_count"] == document["total_tokens"]
    assert result["metadata"]["year"] == 2026
    assert "painted in 2020" in result["chunk_text"]


def test_the_same_bytes_are_read_again_only_when_forced(client: httpx.Client) -> None:
    first = send(client).json()
    assert send(client).json() == first
    assert send(client, force_reindex="true").json() == first
    outcomes = [
        client.post("/v1/documents", files={"files": ("house.md", TEXT)},
                    data={"force_reindex": flag}).json()["documents"][0]["outcome"]
        for flag in ("false", "true")
    ]  # fmt: skip
    assert outcomes[0] == "unchanged"
    assert outcomes[1] != "unchanged"


def test_a_document_that_cannot_be_used_is_a_422(client: httpx.Client, tmp_path: Path) -> None:
    text = ("a.txt", b"x")
    wrong: list[tuple[dict[str, tuple[str, bytes]], dict[str, str]]] = [
        ({"nothing": ("", b"")}, {"metadata_json": "{}"}),
        ({"file": text}, {"metadata_json": "{"}),
        ({"file": text}, {"metadata_json": "[1]"}),
        ({"file": text}, {"collection": "../up"}),
        ({"file": ("a.pdf", b"%PDF-1.7 broken")}, {}),
    ]
    for files, form in wrong:
        problem(client.post("/documents", files=files, data=form), 422)
    left = (tmp_path / "data" / "spool").rglob("*")
    assert [path for path in left if path.is_file() and path.suffix != ".lock"] == []


def test_a_search_that_cannot_be_used_is_a_422(client: httpx.Client) -> None:
    for body in ({}, {"query": 1}, {"query": "gate", "top_k": 0}, {"query": "a"}):
        problem(client.post("/search", json=body), 422)


def test_one_ragstone_is_the_others_retrieval_service(client: httpx.Client, tmp_path: Path) -> None:
    stored = send(client).json()
    settings = settings_in(tmp_path / "other", CHUNKENIZER_API_URL=str(client.base_url).rstrip("/"))
    for address in serve(Engine(settings, embedder=HashEmbedder())):
        reply = httpx.post(
            f"{address}/v1/query", json={"query": "The gate is green?"}, timeout=LONG_S
        )
        (used,) = reply.json()["used_chunks"]
        assert used["chunk_id"] == f"{stored['document_id']}:0"
        assert reply.json()["degraded"] == []
