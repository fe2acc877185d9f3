"""An external retriever on every route: each distinct request once, lists fused, counts logged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.query.retrieve.external import ExternalSearch
from ragstone.trace import QueryRun
from ragstone.types import Chunk, Expansion, Hit, Query, RetrievedHits

from ...conftest import settings_in
from ..scripted import ScriptedProvider

PASSAGES = [
    ("lease.pdf", 1, "The notice period of the lease is three months."),
    ("lease.pdf", 0, "This lease is between the Ridge Company and the observatory."),
    ("lease.pdf", 2, "The rent of the lease is paid in advance every quarter."),
    ("menu.txt", 0, "The café sells soup on weekdays."),
]


class Library:
    """Holds documents that the catalog does not know; any class with `retrieve` will do."""

    is_external: ClassVar[bool] = True

    def __init__(self, broken: str = "") -> None:
        self.asked: list[tuple[str, int]] = []
        self.broken = broken

    async def retrieve(self, query: Query, run: QueryRun) -> RetrievedHits:
        self.asked.append((query.text, query.top_k))
        assert not query.expansions
        if self.broken and self.broken in query.text:
            raise RuntimeError("broken")
        words = set(query.text.casefold().split())
        hits = []
        for name, index, text in PASSAGES:
            score = len(words & set(text.casefold().split())) / len(words)
            chunk = Chunk(name, index, text, 0, len(text), document_name=name)
            if score:
                hits.append(Hit(chunk, score, "semantic"))
        hits.sort(key=lambda hit: (-hit.score, hit.chunk.id))
        return RetrievedHits(tuple(hits[: query.top_k]))


async def test_expansions_are_asked_once_and_their_lists_are_fused() -> None:
    library = Library()
    search, run = ExternalSearch(library), QueryRun("r")
    query = Query("q", "soup café", expansions=(
        Expansion("variant", "notice period"), Expansion("variant", "soup café"),
    ), top_k=3)  # fmt: skip
    first = await search.retrieve(query, run)
    again = await search.retrieve(query, run)
    assert [text for text, _ in library.asked] == ["soup café", "notice period"]
    assert first.hits == again.hits
    assert first.hits[0].chunk.document_name == "menu.txt"
    assert len({hit.chunk.key for hit in first.hits}) == len(first.hits)
    assert all(hit.chunk.key < 0 for hit in first.hits)
    best = first.hits[0]
    assert (best.score, best.scores.similarity) == (best.scores.fused, 1.0)
    await search.retrieve(query, QueryRun("other"))
    assert len(library.asked) == 4, "another query asks for itself"


async def test_one_list_stays_as_the_service_ranked_it() -> None:
    library = Library()
    found = await ExternalSearch(library).retrieve(Query("q", "the notice period"), QueryRun("r"))
    plain = await library.retrieve(Query("q", "the notice period"), QueryRun("r"))
    assert [(h.chunk.id, h.score) for h in found.hits] == [
        (h.chunk.id, h.score) for h in plain.hits
    ]


async def test_an_expansion_that_fails_costs_only_its_own_list() -> None:
    run = QueryRun("r")
    query = Query("q", "soup", expansions=(Expansion("variant", "notice"),))
    found = await ExternalSearch(Library("notice")).retrieve(query, run)
    assert found.hits[0].chunk.document_name == "menu.txt"
    assert any("1 of 2 requests" in note for note in run.notes)
    with pytest.raises(RuntimeError):
        await ExternalSearch(Library("soup")).retrieve(query, QueryRun("r"))


async def test_a_summary_reads_what_the_service_has_of_the_document_in_order(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    library = Library()
    (tmp_path / "lease.txt").write_text("Another lease, which is not asked for.")
    settings = settings_in(tmp_path / "data")
    async with Engine(settings, embedder=embedder, retriever=library) as engine:
        await engine.ingest([tmp_path / "lease.txt"])
        answer = await engine.ask("Summarize the lease")
    assert library.asked == [("Summarize the lease", settings.retrieve.candidates)]
    assert answer.route == "summarize"
    assert [source.hit.chunk.id for source in answer.sources] == [
        "lease.pdf:0", "lease.pdf:1", "lease.pdf:2",
    ]  # fmt: skip
    assert answer.status == "answered"


async def test_the_corrective_loop_sends_no_request_twice(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    library = Library()
    wordings = {"rewrite": "Who bakes bread?", "variants": ["a baker"], "sub_questions": []}
    provider = ScriptedProvider({"<question>": json.dumps(wordings)}, answer="Nobody knows.")
    flags: dict[str, Any] = {"check.max_iterations": 2, "understand.expand": "always"}
    settings = settings_in(tmp_path, **flags)
    async with Engine(settings, embedder=embedder, provider=provider, retriever=library) as engine:
        answer = await engine.ask("Who is the baker of the village?")
    texts = [text for text, _ in library.asked]
    assert len(texts) == len(set(texts))
    assert "a baker" in texts
    searched = [span for span in answer.trace["spans"] if span["stage"] == "fuse"]
    assert len(searched) > 1, "it searched again, with what it had"
    assert all(span["counts"]["chunks_retrieved"] for span in searched)
