"""The same question gives the same answer, claims and citations through every endpoint."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from ragstone import Answer, Engine

from ..cli.run import call, environment
from ..conftest import SAMPLES, settings_in
from ..lazy import Lazy
from ..patience import LONG_S
from ..server.conftest import serve
from ..server.events import events

if TYPE_CHECKING:
    import mcp
    import openai
else:
    openai = Lazy("openai")
    mcp = Lazy("mcp")

COLLECTION = "chat_golden"
QUESTION = "What interest is charged on rent that arrives late?"
_MARKER = re.compile(r"\s*\[(?:Source \d+|[\w.-]+:\d+)\]")


@dataclass(frozen=True)
class Reply:
    """What an endpoint said, without the markers: each endpoint has its own citation style."""

    text: str
    claims: tuple[tuple[str, str], ...] | None
    citations: tuple[tuple[str, int, int], ...] | None


def without_markers(text: str) -> str:
    return _MARKER.sub("", text).strip()


def reply_of(text: str, claims: Any = None, citations: Any = None) -> Reply:
    return Reply(
        without_markers(text),
        None
        if claims is None
        else tuple((without_markers(c["text"]), c["verdict"]) for c in claims),
        None
        if citations is None
        else tuple((one["document_name"], one["start"], one["end"]) for one in citations),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with the sample documents, and settings that are the same everywhere."""
    folder = tmp_path_factory.mktemp("golden")
    with_engine = Engine(settings(folder))
    asyncio.run(with_engine.ingest([SAMPLES], collection=COLLECTION))
    with_engine.close()
    return folder


def settings(folder: Path) -> Any:
    # The chat endpoints read fewer sources unless both limits are the same.
    return settings_in(folder / "data", **{"refine.top_k": 5, "refine.chat_top_k": 5})


@pytest.fixture(scope="module")
def library(folder: Path) -> Reply:
    engine = Engine(settings(folder))
    answer: Answer = engine.ask_sync(QUESTION, collection=COLLECTION)
    engine.close()
    assert answer.status == "answered"
    return Reply(
        without_markers(answer.text),
        tuple((without_markers(claim.text), claim.verdict) for claim in answer.claims),
        tuple((one.document_name, one.start, one.end) for one in answer.citations),
    )


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    yield from serve(Engine(settings(folder)))


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=LONG_S) as client:
        yield client


def test_the_library_cites_what_it_says(library: Reply) -> None:
    assert "4 %" in library.text
    assert library.citations
    assert library.claims
    for text, verdict in library.claims:
        assert text in library.text
        assert verdict == "supported"


def test_query(client: httpx.Client, library: Reply) -> None:
    body = {"query": QUESTION, "collection": COLLECTION}
    reply = client.post("/v1/query", json=body).json()
    assert reply_of(reply["answer"], reply["claims"], reply["citations"]) == library


def test_query_stream(client: httpx.Client, library: Reply) -> None:
    last = events(client, "/v1/query", {"query": QUESTION, "collection": COLLECTION})[-1]
    assert reply_of(last["answer"], last["claims"], last["citations"]) == library


def test_chat(client: httpx.Client, library: Reply) -> None:
    body = {"messages": [{"role": "user", "content": QUESTION}], "collection": COLLECTION}
    data = client.post("/api/chat", json=body).json()["data"]
    text = data["choices"][0]["message"]["content"]
    assert reply_of(text, data["claims"], data["citations"]) == library


def test_chat_stream(client: httpx.Client, library: Reply) -> None:
    body = {"messages": [{"role": "user", "content": QUESTION}], "collection": COLLECTION}
    data = events(client, "/api/chat/stream", body)[-1]["data"]
    text = data["choices"][0]["message"]["content"]
    assert reply_of(text, data["claims"], data["citations"]) == library


def test_compare_gives_the_same_answer_on_its_enhanced_side(
    client: httpx.Client, library: Reply
) -> None:
    body = {"messages": [{"role": "user", "content": QUESTION}], "collection": COLLECTION}
    data = client.post("/api/chat/compare", json=body).json()["data"]["enhanced"]
    text = data["choices"][0]["message"]["content"]
    assert reply_of(text, data["claims"], data["citations"]) == library


def test_chat_room_stream(client: httpx.Client, library: Reply) -> None:
    found = events(client, "/chat/golden/stream", {"message": QUESTION})
    text = "".join(one["content"] for one in found if one["type"] == "token")
    assert without_markers(text) == library.text


def test_openai(address: str, library: Reply) -> None:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as sdk:
        asked: Any = {"role": "user", "content": QUESTION}
        reply = sdk.chat.completions.create(model=f"ragstone/{COLLECTION}", messages=[asked])
    message = reply.choices[0].message
    assert without_markers(message.content or "") == library.text
    places = [one.url_citation.url.rsplit("/", 2)[1:] for one in message.annotations or ()]
    assert library.citations is not None
    assert [[str(start), str(end)] for _, start, end in library.citations] == places


def flags() -> list[str]:
    return ["--set", "refine.top_k=5", "--set", "refine.chat_top_k=5"]


@pytest.mark.slow
def test_command_line(folder: Path, library: Reply) -> None:
    done = call("ask", QUESTION, "-C", COLLECTION, "-d", "data", "--json", *flags(), cwd=folder)
    # A server of this process may have logged a line before.
    reply = json.loads(done.stdout[done.stdout.index("{") :])
    assert reply_of(reply["answer"], reply["claims"], reply["citations"]) == library


@pytest.mark.slow
async def test_mcp(folder: Path, library: Reply) -> None:
    server = mcp.StdioServerParameters(
        command=sys.executable,
        args=["-m", "ragstone", "mcp", "-d", "data", "-C", COLLECTION, *flags()],
        env=environment(),
        cwd=folder,
    )
    async with mcp.Client(server) as client:
        result = await client.call_tool("ask", {"question": QUESTION})
    reply = json.loads(result.content[0].text)
    assert without_markers(reply["answer"]) == library.text
