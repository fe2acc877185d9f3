"""`PATCH /v1/settings`: admins change some settings from the next question on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragstone.catalog.keys import KeyRing
from ragstone.engine import Engine
from ragstone.server.app import create_app
from ragstone.settings import load_settings
from ragstone.testing import HashEmbedder

from ..patience import LONG_S
from .conftest import DOCUMENTS, serve_application


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ragstone.toml"
    path.write_text(f'[data]\ndirectory = "{tmp_path / "data"}"\n\n[refine]\ntop_k = 4\n')
    return path


@pytest.fixture
def client(file: Path) -> Iterator[httpx.Client]:
    loaded = load_settings(config_file=file, environ={})
    engine = Engine(loaded.settings, embedder=HashEmbedder())
    for name, text in DOCUMENTS.items():
        (file.parent / name).write_text(text)
        asyncio.run(engine.ingest([file.parent / name]))
    for url in serve_application(create_app(engine, loaded=loaded)):
        with httpx.Client(base_url=url, timeout=LONG_S) as client:
            yield client


def describe(client: httpx.Client, name: str) -> dict[str, Any]:
    listed = client.get("/v1/settings").json()["settings"]
    return next(one for one in listed if one["name"] == name)


def test_a_change_counts_from_the_next_question_on(client: httpx.Client, file: Path) -> None:
    question = {"query": "What colour is the gate?"}
    before = client.post("/v1/query", json=question).json()
    assert len(before["used_chunks"]) == 2
    assert describe(client, "refine.top_k")["fixed"] == ""
    reply = client.patch("/v1/settings", json={"values": {"refine.top_k": 1}})
    assert reply.status_code == 200
    top_k = describe(client, "refine.top_k")
    assert (top_k["value"], top_k["origin"]) == (1, str(file))
    assert len(client.post("/v1/query", json=question).json()["used_chunks"]) == 1
    assert load_settings(config_file=file, environ={}).settings.refine.top_k == 1


@pytest.mark.parametrize(
    "values",
    [{"refine.top_k": 0}, {"server.port": 1}, {"provider.name": "no-such"}, {"refine.no": 1}],
)
def test_a_change_that_cannot_be_made_changes_nothing(
    client: httpx.Client, file: Path, values: dict[str, Any]
) -> None:
    text = file.read_text()
    reply = client.patch("/v1/settings", json={"values": {"refine.mmr_lambda": 0.1, **values}})
    assert 400 <= reply.status_code < 500
    assert reply.json()["hint"]
    assert file.read_text() == text
    assert describe(client, "refine.mmr_lambda")["value"] != 0.1
    answer = client.post("/v1/query", json={"query": "What colour is the gate?"}).json()
    assert answer["status"] == "answered"


def test_only_an_admin_changes_settings(client: httpx.Client, file: Path) -> None:
    engine: Engine = Engine(load_settings(config_file=file, environ={}).settings)
    key = KeyRing(engine.catalog).create(
        "reader", role="reader", collections=["*"], expires_in_s=None
    )[0]
    engine.close()
    headers = {"Authorization": f"Bearer {key}"}
    reply = client.patch("/v1/settings", json={"values": {"refine.top_k": 1}}, headers=headers)
    assert reply.status_code == 403
    listed = client.get("/v1/settings", headers=headers).json()["settings"]
    assert {one["fixed"] for one in listed} == {"Only admins can change settings."}
