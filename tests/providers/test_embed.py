"""Embedders over real HTTP: the same conformance as the shipped one, well behaved and not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ragstone.engine import Engine
from ragstone.errors import ProviderError, StoreError
from ragstone.models.embedder import OnnxEmbedder
from ragstone.plugins import find_part, list_parts
from ragstone.providers.embed import RemoteEmbedder
from ragstone.testing import HashEmbedder
from ragstone.testing.conformance import EmbedderConformance

from ..conftest import settings_in
from ..patience import LONG_S
from .stand_in import StandIn, served

NAMES = ["openai", "google", "ollama"]


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    """The stand-in in a thread of its own: the embedders wait in this one."""
    ready: list[StandIn] = []
    started, stop = threading.Event(), threading.Event()

    async def run() -> None:
        async with served() as stand_in:
            ready.append(stand_in)
            started.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert started.wait(LONG_S)
    yield ready[0]
    stop.set()
    thread.join(LONG_S)


@pytest.fixture
def stand_in(server: StandIn) -> StandIn:
    server.behaviours, server.calls = [], []
    return server


def flags(name: str, stand_in: StandIn, **more: object) -> dict[str, object]:
    url = stand_in.url + ("/v1" if name == "openai" else "")
    return {"embed.name": name, "embed.base_url": url, "embed.api_key": "secret",
            "provider.timeout_s": 300.0, **more}  # fmt: skip


def made(name: str, stand_in: StandIn, tmp_path: Path, **more: object) -> RemoteEmbedder:
    settings = settings_in(tmp_path, **flags(name, stand_in, **more))
    embedder: RemoteEmbedder = find_part("embedder", name)(settings)
    return embedder


@pytest.mark.parametrize("name", NAMES)
class TestRemote(EmbedderConformance):
    @pytest.fixture
    def embedder(self, name: str, stand_in: StandIn, tmp_path: Path) -> Iterator[RemoteEmbedder]:
        embedder = made(name, stand_in, tmp_path)
        yield embedder
        embedder.close()


class TestShipped(EmbedderConformance):
    """`embedder` is the session's own."""


class TestHash(EmbedderConformance):
    @pytest.fixture
    def embedder(self) -> HashEmbedder:
        return HashEmbedder()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("behaviour", ["429", "500", "empty", "cut", "invalid"])
def test_what_may_pass_is_tried_again(
    name: str, behaviour: str, stand_in: StandIn, tmp_path: Path
) -> None:
    embedder = made(name, stand_in, tmp_path)
    stand_in.behaviours = [behaviour]
    assert embedder.embed(["one", "two"]).shape == (2, 8)
    embedder.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_key_is_said_at_once(name: str, stand_in: StandIn, tmp_path: Path) -> None:
    embedder = made(name, stand_in, tmp_path)
    stand_in.behaviours = ["401"] * 9
    with pytest.raises(ProviderError, match="401"):
        embedder.embed(["one"])
    assert len(stand_in.calls) == 1
    embedder.close()


def test_a_server_that_is_down_is_named_as_such(tmp_path: Path) -> None:
    down = StandIn(url="http://127.0.0.1:9")
    with pytest.raises(ProviderError, match="cannot be reached"):
        made("ollama", down, tmp_path, **{"provider.timeout_s": 1.0}).embed(["one"])


@pytest.mark.parametrize("name", NAMES)
def test_texts_go_out_in_batches_and_come_back_in_order(
    name: str, stand_in: StandIn, tmp_path: Path
) -> None:
    embedder = made(name, stand_in, tmp_path, **{"embed.batch": 3})
    texts = [f"text {n}" for n in range(8)]
    vectors = embedder.embed(texts)
    assert len(stand_in.calls) == 4  # one of them asked for the dimension
    assert np.allclose(vectors[6], embedder.embed(["text 6"])[0])
    assert "secret" in str(stand_in.calls[0]["headers"]) or name == "ollama"
    embedder.close()


@pytest.mark.parametrize("name", NAMES)
def test_the_dimension_and_the_model_are_in_the_name(
    name: str, stand_in: StandIn, tmp_path: Path
) -> None:
    embedder = made(name, stand_in, tmp_path, **{"embed.model": "m1", "embed.dimension": 5})
    assert embedder.name == f"{name}/m1/5"
    assert embedder.embed(["one"]).shape == (1, 5)
    assert "m1" in str(stand_in.calls[0])
    embedder.close()


async def test_documents_are_searched_with_it_and_answers_checked_with_the_shipped_one(
    stand_in: StandIn, tmp_path: Path
) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    settings = settings_in(tmp_path / "data", **flags("openai", stand_in))
    async with Engine(settings) as engine:
        await engine.ingest([tmp_path / "gate.txt"])
        before = len(stand_in.calls)
        answer = await engine.ask("What colour is the gate?")
        assert "green" in answer.text
        assert len(stand_in.calls) == before + 1  # the question alone
        assert engine.embedder.dimension == 8
        # vectors of two models never mix
        other = Engine(settings_in(tmp_path / "data"), catalog=engine.catalog, index=engine.index)
        with pytest.raises(StoreError, match="openai/text-embedding-3-small"):
            await other.ask("What colour is the gate?")


def test_every_embedder_is_registered(tmp_path: Path) -> None:
    assert set(list_parts("embedder")) >= {
        "builtin", "openai", "google", "ollama", "fastembed", "sentence-transformers",
    }  # fmt: skip
    assert isinstance(find_part("embedder", "builtin")(settings_in(tmp_path)), OnnxEmbedder)


@pytest.mark.parametrize("name", ["openai", "google"])
def test_a_service_that_needs_a_key_is_not_asked_without_one(name: str, tmp_path: Path) -> None:
    settings = settings_in(tmp_path, **{"embed.name": name})
    embedder = find_part("embedder", name)(settings)
    with pytest.raises(ProviderError, match="needs an API key") as raised:
        embedder.embed(["a"])
    assert "EMBEDDING_API_KEY" in raised.value.hint
