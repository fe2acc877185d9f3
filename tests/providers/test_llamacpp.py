"""A real llama.cpp server with SmolLM2: streaming, usage, JSON, cancellation, and what the check
makes of a model that is far too small. Skipped where the model has not been fetched:

RAGSTONE_DATA_MODELS=.tools/llm/models ragstone models pull smollm2-135m
"""

from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import pytest

from ragstone.calls import Usage
from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.plugins import PartContext, find_part
from ragstone.providers.chat import ChatProvider
from ragstone.types import Message, Prompt

from ..conftest import settings_in

GGUF = Path(__file__).parents[2] / ".tools/llm/models/smollm2-135m/model.gguf"
pytestmark = pytest.mark.skipif(
    not GGUF.is_file() or importlib.util.find_spec("xllamacpp") is None,
    reason="SmolLM2 or xllamacpp is not there",
)
PROMPT = Prompt("?", (), (Message("user", "Say in one sentence what an observatory is."),), 0.0)
LONG_PROMPT = Prompt("?", (), (Message("user", "Count from 1 to 1000, one number a line."),), 0.0)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> ChatProvider:
    """The provider `local`: llama.cpp inside this process, and its own HTTP server."""
    flags: dict[str, Any] = {
        "provider.name": "local", "provider.model": str(GGUF), "provider.max_tokens": 16,
        "provider.timeout_s": 90.0, "ground.max_context_tokens": 900,
    }  # fmt: skip
    settings = settings_in(tmp_path_factory.mktemp("local"), **flags)
    return find_part("provider", "local")(PartContext(settings, None, None, None, None, None))  # type: ignore[arg-type]


def openai(local: ChatProvider, directory: Path, **flags: Any) -> ChatProvider:
    """The provider `openai`, pointed at that server as at any other."""
    url = local.wire.endpoint.base_url  # type: ignore[attr-defined]
    flags = {"provider.name": "openai", "provider.base_url": url, "provider.model": "smollm2",
             "provider.max_tokens": 16, "provider.timeout_s": 90.0, **flags}  # fmt: skip
    context = PartContext(settings_in(directory, **flags), None, None, None, None, None)  # type: ignore[arg-type]
    made: ChatProvider = find_part("provider", "openai")(context)
    return made


@pytest.mark.parametrize("name", ["local", "openai"])
async def test_it_streams_text_and_says_what_it_cost(
    name: str, local: ChatProvider, tmp_path: Path
) -> None:
    made = local if name == "local" else openai(local, tmp_path)
    pieces = [piece async for piece in made.stream(PROMPT)]
    await made.aclose()
    texts = [piece for piece in pieces if isinstance(piece, str)]
    assert len(texts) > 2
    assert "".join(texts).strip()
    (usage,) = [piece for piece in pieces if isinstance(piece, Usage)]
    assert usage.input_tokens > 5
    assert 2 < usage.output_tokens <= 16


async def test_a_schema_is_kept_to(local: ChatProvider, tmp_path: Path) -> None:
    made = openai(local, tmp_path)
    schema = {"type": "object", "properties": {"score": {"type": "integer", "maximum": 9}},
              "required": ["score"]}  # fmt: skip
    reply = await made.complete([Message("user", "Score this from 0 to 9.")], schema=schema)
    await made.aclose()
    assert isinstance(json.loads(reply)["score"], int)


async def test_who_goes_away_stops_the_model(local: ChatProvider, tmp_path: Path) -> None:
    made = openai(local, tmp_path, **{"provider.max_tokens": 600})
    begun = time.monotonic()
    pieces = [piece async for piece in made.stream(LONG_PROMPT)]
    whole_s = time.monotonic() - begun
    assert len(pieces) > 100, "too short to notice a model that goes on"
    stream = made.stream(LONG_PROMPT)
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    # One slot: were the long answer still being written, this would have to wait for all of it.
    begun = time.monotonic()
    short = openai(local, tmp_path, **{"provider.max_tokens": 16})
    assert [piece async for piece in short.stream(PROMPT)]
    assert time.monotonic() - begun < whole_s
    await made.aclose()
    await short.aclose()


async def test_what_so_small_a_model_writes_is_checked(
    local: ChatProvider, tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    (tmp_path / "gate.txt").write_text("The gate of the observatory is green since 2020.")
    engine = Engine(
        settings_in(tmp_path / "data"), embedder=embedder, provider=openai(local, tmp_path)
    )
    async with engine:
        await engine.ingest([tmp_path / "gate.txt"])
        answer = await engine.ask("What colour is the gate of the observatory?")
        for citation in answer.citations:
            text = engine.catalog.document(citation.document_id).text
            assert text[citation.start : citation.end] == citation.snippet
    supported = [claim for claim in answer.claims if claim.verdict == "supported"]
    assert all("green" in c.text or "2020" in c.text or c.score >= 0.6 for c in supported)
    counts = [s["counts"] for s in answer.trace["spans"] if s["stage"] == "ground.generate"]
    assert counts[0].get("input_tokens", 0) > 50 or answer.degraded
