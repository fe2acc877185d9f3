"""Every optional part made to fail: the answer still comes, and says what it went without."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragstone.engine import Engine
from ragstone.errors import StoreError
from ragstone.models.embedder import OnnxEmbedder
from ragstone.protocols import Vectors
from ragstone.server.schemas import ComparedData
from ragstone.testing import ScriptedProvider
from ragstone.types import Answer

from .conftest import settings_in
from .patience import LONG_S
from .query.scripted import SilentProvider

QUESTION = "How long is the notice period of the lease?"


class FailingIndex:
    """The real index, with the named searches broken."""

    def __init__(self, inner: Any, *broken: str) -> None:
        self._inner = inner
        self._broken = broken

    def __getattr__(self, name: str) -> Any:
        if name in self._broken:
            raise RuntimeError(f"{name} is broken")
        return getattr(self._inner, name)


class FailingEmbedder(OnnxEmbedder):
    """Embeds until it is told to stop."""

    broken = False

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self.broken:
            raise RuntimeError("the model is gone")
        return super().embed(texts)


async def filled(
    tmp_path: Path, embedder: OnnxEmbedder, flags: dict[str, Any] | None = None, **parts: Any
) -> Engine:
    (tmp_path / "lease.txt").write_text("The notice period of the lease is three months.")
    (tmp_path / "cafe.txt").write_text("The café sells soup on weekdays.")
    engine = Engine(settings_in(tmp_path / "data", **(flags or {})), embedder=embedder)
    await engine.ingest([tmp_path / "lease.txt", tmp_path / "cafe.txt"])
    if not parts:
        return engine
    return Engine(
        engine.settings,
        embedder=embedder,
        catalog=engine.catalog,
        index=FailingIndex(engine.index, *parts["broken"]),  # type: ignore[arg-type]
        provider=SilentProvider(),
    )


async def asked(engine: Engine) -> Answer:
    try:
        return await engine.ask(QUESTION)
    finally:
        engine.close()


async def test_without_the_embedder_keywords_are_searched(tmp_path: Path) -> None:
    embedder = FailingEmbedder()
    engine = await filled(tmp_path, embedder)
    embedder.broken = True
    hits = await engine.search(QUESTION)
    assert hits[0].chunk.document_name == "lease.txt"
    assert engine.fallbacks.counts == {"keyword_only": 1}
    engine.close()


async def test_without_the_embedder_a_written_answer_is_checked_all_the_same(
    tmp_path: Path,
) -> None:
    embedder = FailingEmbedder()
    (await filled(tmp_path, embedder)).close()
    provider = ScriptedProvider(["To end the lease takes a notice of three months [Source 1]."])
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder, provider=provider)
    embedder.broken = True
    answer = await asked(engine)
    assert answer.degraded == ("keyword_only",)
    assert [claim.verdict for claim in answer.claims] == ["supported"]


async def test_without_semantic_search_keywords_are_searched(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    engine = await filled(tmp_path, embedder, broken=["search_dense"])
    answer = await asked(engine)
    assert answer.degraded == ("keyword_only",)
    assert answer.sources[0].hit.chunk.document_name == "lease.txt"


async def test_without_keyword_search_exact_terms_raise_similarity(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    engine = await filled(tmp_path, embedder, broken=["search_keyword"])
    answer = await asked(engine)
    assert answer.degraded == ("semantic_with_keyword_boost",)
    best = answer.sources[0].hit
    assert best.chunk.document_name == "lease.txt"
    assert best.scores.similarity is not None
    assert best.score > best.scores.similarity


async def test_without_any_search_the_answer_comes_without_documents(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    broken = ["search_dense", "search_keyword"]
    engine = await filled(tmp_path, embedder, {"retrieve.fallback": "chat"}, broken=broken)
    answer = await asked(engine)
    assert set(answer.degraded) == {"keyword_only", "without_context", "plain_chat"}
    assert answer.sources == ()
    assert answer.text


async def test_without_any_search_no_answer_says_that_the_documents_hold_none(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    engine = await filled(tmp_path, embedder, broken=["search_dense", "search_keyword"])
    with pytest.raises(StoreError, match="Neither semantic nor keyword search works"):
        await asked(engine)


async def test_a_refiner_that_fails_is_left_out(tmp_path: Path, embedder: OnnxEmbedder) -> None:
    engine = await filled(tmp_path, embedder, broken=["vectors"])
    answer = await engine.ask(QUESTION, mmr_lambda=0.5)  # MMR needs the stored vectors
    assert answer.degraded == ("without_refine_step",)
    assert answer.sources[0].hit.chunk.document_name == "lease.txt"
    engine.close()


@pytest.mark.parametrize("preset", ["minimal", "classic", "balanced", "careful"])
async def test_every_preset_answers_with_what_is_installed(
    tmp_path: Path, embedder: OnnxEmbedder, preset: str
) -> None:
    (tmp_path / "lease.txt").write_text("The notice period of the lease is three months.")
    engine = Engine(settings_in(tmp_path / "data", preset=preset), embedder=embedder)
    await engine.ingest([tmp_path / "lease.txt"])
    answer = await asked(engine)
    assert answer.status == "answered"


async def test_a_reranker_that_is_not_installed_is_named_with_the_command(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    engine = await filled(
        tmp_path, embedder, {"refine.reranker_enabled": True, "refine.reranker": "cross_encoder"}
    )
    compared = ComparedData.of(await engine.compare(QUESTION), engine.settings)
    assert compared.enhanced.reranker_enabled is False
    answer = await asked(engine)
    assert answer.degraded == ("without_rerank",)
    assert answer.notes[-1] == (
        "The reranker failed; the order of the search was kept. The reranker ms-marco-minilm-l12 "
        "is not installed. Install it with: ragstone models pull ms-marco-minilm-l12"
    )


async def test_with_everything_off_the_hits_are_plain_retrieval(
    sample_engine: Engine, embedder: OnnxEmbedder
) -> None:
    from ragstone.query.retrieve.hybrid import HybridRetriever
    from ragstone.trace import QueryRun

    settings = settings_in(sample_engine.settings.data.directory, preset="minimal")
    engine = Engine(
        settings, embedder=embedder, catalog=sample_engine.catalog, index=sample_engine.index
    )
    plain = HybridRetriever(engine.catalog, engine.index, embedder, settings.retrieve)
    for question in ("How large is the primary mirror?", "When does the café close?"):
        query, *_ = await engine._begin(question, {"top_k": 1000})
        expected = (await plain.retrieve(query, QueryRun("t"))).hits
        assert await engine.search(question, top_k=1000) == expected
        assert await engine.search(question, top_k=7) == expected[:7]


async def test_a_journal_that_cannot_be_written_costs_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragstone.catalog.journal._MAX_WAIT_S", LONG_S)
    engine = await filled(tmp_path, OnnxEmbedder())
    with engine.catalog.write_transaction() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER full BEFORE INSERT ON queries BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    answer = await asked(engine)
    assert "three months" in answer.text
    assert answer.degraded == ("not_remembered",)
