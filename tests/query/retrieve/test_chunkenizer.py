"""The Chunkenizer adapter against a real small server that is right, slow, wrong, empty, dead."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from ragstone.engine import Engine
from ragstone.errors import SettingsError
from ragstone.models.embedder import OnnxEmbedder
from ragstone.query.retrieve.chunkenizer import ChunkenizerRetriever

from ...conftest import settings_in
from ...patience import LONG_S
from ..scripted import SilentProvider

RESULT = {
    "score": 0.9, "document_id": "d1", "document_name": "lease.pdf", "chunk_index": 3,
    "chunk_text": "The notice period is three months.", "token_count": 7,
    "metadata": {"page": 2, "start": 40, "heading_path": ["Lease", "Notice"]},
}  # fmt: skip
REPLIES = {
    "right": json.dumps({"results": [{**RESULT, "score": 0.1, "chunk_index": 4}, RESULT]}),
    "bare": json.dumps([RESULT]),
    "partly": json.dumps({"results": [{"score": "high"}, RESULT]}),
    "odd": json.dumps(
        [
            {**RESULT, "chunk_text": "The notice \ud800period\0 is three months."},
            {**RESULT, "chunk_index": 9, "score": float("nan")},
        ]
    ),
    "empty": json.dumps({"results": []}),
    "wrong": json.dumps({"results": [{"text": "no score"}]}),
    "shapeless": json.dumps({"hits": 3}),
    "garbled": "<html>oops</html>",
    "slow": json.dumps([RESULT]),
}


class Service(BaseHTTPRequestHandler):
    asked: ClassVar[list[dict[str, object]]] = []
    keys: ClassVar[list[str | None]] = []
    released: ClassVar[threading.Event] = threading.Event()

    def do_POST(self) -> None:
        manner = self.path.split("/")[1]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append(json.loads(body))
        self.keys.append(self.headers["Authorization"])
        if manner == "slow":
            self.released.wait(LONG_S)
        self.send_response(500 if manner == "broken" else 200)
        self.end_headers()
        self.wfile.write(REPLIES.get(manner, "{}").encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    Service.released.set()
    server.shutdown()
    server.server_close()


def engine_at(url: str, folder: Path, embedder: OnnxEmbedder) -> Engine:
    timeout_s = 0.5 if url.endswith("/slow") else 60.0
    flags = {"retrieve.chunkenizer_url": url, "retrieve.chunkenizer_timeout_s": timeout_s}
    return Engine(settings_in(folder, **flags), embedder=embedder, provider=SilentProvider())


@pytest.mark.parametrize(("manner", "count"), [("right", 2), ("bare", 1), ("partly", 1)])
async def test_the_services_hits_become_sources(
    service: str, tmp_path: Path, embedder: OnnxEmbedder, manner: str, count: int
) -> None:
    engine = engine_at(f"{service}/{manner}", tmp_path, embedder)
    answer = await engine.ask("How long is the notice period?", top_k=7)
    assert Service.asked[-1] == {"query": "How long is the notice period?", "top_k": 7}
    assert len(answer.sources) == count
    chunk = answer.sources[0].hit.chunk
    assert (chunk.id, chunk.document_name, chunk.page) == ("d1:3", "lease.pdf", 2)
    assert (chunk.start, chunk.end, chunk.heading_path) == (40, 74, ("Lease", "Notice"))
    assert not answer.degraded
    engine.close()


@pytest.mark.parametrize("manner", ["slow", "wrong", "shapeless", "garbled", "broken", "dead"])
async def test_a_service_that_fails_leaves_an_answer_without_context(
    service: str,
    tmp_path: Path,
    embedder: OnnxEmbedder,
    manner: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = "http://127.0.0.1:9" if manner == "dead" else f"{service}/{manner}"
    engine = engine_at(url, tmp_path, embedder)
    answer = await engine.ask("How long is the notice period?")
    assert answer.sources == ()
    assert answer.degraded == ("without_context",)
    assert any("Chunkenizer" in note for note in answer.notes)
    warnings = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert "chunkenizer failed" in warnings
    engine.close()


async def test_characters_and_scores_that_cannot_be_sent_on_are_left_out(
    service: str, tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    flags = {"retrieve.chunkenizer_url": f"{service}/odd"}
    engine = Engine(settings_in(tmp_path, **flags), embedder=embedder)
    answer = await engine.ask("How long is the notice period?")
    assert [source.text for source in answer.sources] == ["The notice period is three months."]
    assert engine.history.query(answer.query_id)["status"] == answer.status
    engine.close()


async def test_an_empty_reply_is_no_failure(
    service: str, tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    engine = engine_at(f"{service}/empty", tmp_path, embedder)
    answer = await engine.ask("How long is the notice period?")
    assert (answer.sources, answer.degraded) == ((), ())
    engine.close()


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError, match="must start with http"):
        ChunkenizerRetriever("file:///etc/passwd", 1.0)


async def test_what_the_service_found_is_quoted_without_a_model(
    service: str, tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    flags = {"retrieve.chunkenizer_url": f"{service}/right"}
    async with Engine(settings_in(tmp_path, **flags), embedder=embedder) as engine:
        answer = await engine.ask("How long is the notice period?")
    assert answer.text.startswith("The notice period is three months. [Source 1]")
    assert answer.citations[0].start == 40


async def test_a_service_is_asked_again_for_the_same_question(
    service: str, tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    """Its documents may have changed, and nothing would tell us."""
    flags = {"retrieve.chunkenizer_url": f"{service}/right", "data.answer_cache": 100}
    question = "How long is the notice period in all?"
    async with Engine(settings_in(tmp_path, **flags), embedder=embedder) as engine:
        for _ in range(2):
            await engine.ask(question)
    assert [asked["query"] for asked in Service.asked].count(question) == 2


async def test_a_key_goes_along_where_one_is_set(
    service: str, tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    flags = {"retrieve.chunkenizer_url": f"{service}/right"}
    for more, sent in (({}, None), ({"retrieve.chunkenizer_api_key": "abc"}, "Bearer abc")):
        settings = settings_in(tmp_path / str(sent), **flags, **more)
        async with Engine(settings, embedder=embedder) as engine:
            await engine.search("How long is the notice period?")
        assert Service.keys[-1] == sent
