"""Semantic and keyword search of the documents, fused: a question → candidate hits, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragstone.query.retrieve.fuse import convex_fusion, reciprocal_rank_fusion
from ragstone.settings import RetrieveSettings
from ragstone.stages import Catalog, Embedder, Found, Index, KeyRanges, Vectors
from ragstone.trace import Trace
from ragstone.types import Hit, Hits, Query, Scores


@dataclass(frozen=True, slots=True)
class HybridRetriever:
    """Asks the index once per method and fuses what comes back."""

    catalog: Catalog
    index: Index
    embedder: Embedder
    options: RetrieveSettings

    async def retrieve(self, query: Query, trace: Trace) -> Hits:
        within = self.catalog.keys_within(query)
        with trace.span("embed") as span:
            vector = self.embedder.embed([query.text])[0]
            span.count(model=self.embedder.name)
        dense = self._dense(query, vector, within, trace) if query.method != "keyword" else []
        keyword = self._keyword(query, within, trace) if query.method != "semantic" else []
        with trace.span("fuse") as span:
            fused = self._fused(query, dense, keyword)
            best = sorted(fused, key=lambda key: (-fused[key], key))[: self.options.candidates]
            span.count(method=self.options.fusion, chunks_in=len(fused), chunks_out=len(best))
        with trace.span("read") as span:
            hits = self._hits(query, vector, best, fused, dense, keyword)
            span.count(chunks_out=len(hits))
        return hits

    def _dense(self, query: Query, vector: Vectors, within: KeyRanges, trace: Trace) -> list[Found]:
        with trace.span("retrieve.semantic") as span:
            limit = self.options.candidates
            found = self.index.dense(query.collection, vector, limit=limit, within=within)
            span.count(initial_k=limit, **_figures(found))
        return found

    def _keyword(self, query: Query, within: KeyRanges, trace: Trace) -> list[Found]:
        with trace.span("retrieve.keyword") as span:
            options = self.options
            found = self.index.keyword(
                query.collection, query.text, limit=options.candidates, k1=options.bm25_k1,
                b=options.bm25_b, within=within,
            )  # fmt: skip
            span.count(initial_k=options.candidates, **_figures(found))
        return found

    def _fused(
        self, query: Query, dense: Sequence[Found], keyword: Sequence[Found]
    ) -> dict[int, float]:
        if query.method != "hybrid":
            return {found.key: found.score for found in (*dense, *keyword)}
        weights = [self.options.dense_weight, 1 - self.options.dense_weight]
        if self.options.fusion == "rrf":
            rankings = [[found.key for found in ranking] for ranking in (dense, keyword)]
            return reciprocal_rank_fusion(rankings, k=self.options.rrf_k)
        lists = [{found.key: found.score for found in ranking} for ranking in (dense, keyword)]
        return convex_fusion(lists, weights=weights)

    def _hits(
        self, query: Query, vector: Vectors, best: Sequence[int], fused: dict[int, float],
        dense: Sequence[Found], keyword: Sequence[Found],
    ) -> Hits:  # fmt: skip
        """Read the chunks. A key whose chunk is gone from the catalog is no hit."""
        chunks = self.catalog.chunks(best)
        # A hit that only the keyword search found needs its similarity too, for the filter.
        similarities = self.index.vectors(query.collection, best) @ vector
        similarity = dict(zip(best, np.clip(similarities, -1, 1).tolist(), strict=True))
        dense_rank = {found.key: rank for rank, found in enumerate(dense, start=1)}
        keyword_rank = {found.key: rank for rank, found in enumerate(keyword, start=1)}
        keyword_score = {found.key: found.score for found in keyword}
        return tuple(
            Hit(
                chunk=chunks[key],
                score=fused[key],
                method=query.method,
                scores=Scores(
                    dense_rank=dense_rank.get(key),
                    similarity=similarity[key],
                    keyword_rank=keyword_rank.get(key),
                    keyword_score=keyword_score.get(key),
                    fused=fused[key],
                ),
            )
            for key in best
            if key in chunks
        )


def _figures(found: Sequence[Found]) -> dict[str, object]:
    scores = [round(one.score, 4) for one in found]
    return {
        "chunks_retrieved": len(found),
        "scores_range": [min(scores), max(scores)] if scores else [],
    }
