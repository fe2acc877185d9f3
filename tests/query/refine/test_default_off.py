"""With everything switched off, refining is plain retrieval, element by element."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.query.retrieve.hybrid import HybridRetriever
from ragstone.trace import QueryRun
from ragstone.types import Query, RetrievalMethod

from ...conftest import settings_in

QUESTION = "How many boxes are on shelf 7?"
OFF = {
    "refine.min_similarity": 0.0,
    "refine.reranker_enabled": False,
    "refine.duplicate_similarity": 1.0,
    "refine.mmr_lambda": 1.0,
}


@pytest.mark.parametrize("method", ["hybrid", "semantic", "keyword"])
@pytest.mark.parametrize("flags", [{"preset": "minimal"}, {"preset": "balanced", **OFF}])
async def test_default_off_is_identical_to_plain_retrieval(
    tmp_path: Path, embedder: OnnxEmbedder, flags: dict[str, object], method: RetrievalMethod
) -> None:
    for number in range(12):
        text = f"Shelf {number} holds {number * 3} boxes.\n\nThe same line stands in every file."
        (tmp_path / f"{number:02}.md").write_text(text)
    async with Engine(settings_in(tmp_path / "data", **flags), embedder=embedder) as engine:
        await engine.ingest([tmp_path])
        plain = HybridRetriever(
            engine.catalog, engine.index, engine.embedder, engine.settings.retrieve
        )
        query = Query("q", QUESTION, method=method)
        expected = (await plain.retrieve(query, QueryRun("t"))).hits
        hits = await engine.search(QUESTION, method=method, top_k=1000)
        assert len(expected) > 5
        assert hits == expected
