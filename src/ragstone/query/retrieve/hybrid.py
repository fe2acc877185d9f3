"""Semantic and keyword search of the documents, fused: a question → candidate hits, best first.

A question may come with expansions (a rewrite, variants, sub-questions, a hypothetical answer);
each is searched like the question itself and all lists are fused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ragstone.errors import StoreError
from ragstone.index.analyze import terms
from ragstone.plugins import PartContext
from ragstone.protocols import Catalog, Embedder, Found, Index, Retriever, Vectors, Within
from ragstone.query.fallback import Fallbacks
from ragstone.query.retrieve.fuse import convex_fusion, normalised, reciprocal_rank_fusion
from ragstone.query.understand.intent import knows_script
from ragstone.settings import RetrieveSettings
from ragstone.threads import run_in_thread_if_blocking
from ragstone.trace import QueryRun
from ragstone.types import Hit, Hits, Query, Retrieved, Scores


def keyword_boost(
    similarities: Mapping[int, float],
    texts: Mapping[int, str],
    wanted: Sequence[str],
    *,
    boost: float,
) -> dict[int, float]:
    """similarity + boost · (share of the wanted terms that the text holds), for each id."""
    distinct = set(wanted)
    if not distinct:
        return dict(similarities)
    return {
        key: similarity + boost * len(distinct & set(terms(texts.get(key, "")))) / len(distinct)
        for key, similarity in similarities.items()
    }


# An expansion speaks half as loud as the question that it was made from.
_EXPANSION_WEIGHT = 0.5
# Where the order is final, so many times the hits that are wanted are read: what is too far away
# or said twice is dropped from them, and reading all candidates costs more than finding them.
_READ_AHEAD = 3


@dataclass(slots=True)
class _Lists:
    """What the searches found for one text."""

    weight: float
    vector: Vectors | None = None
    dense: list[Found] = field(default_factory=list)
    keyword: list[Found] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HybridRetriever:
    """Asks the index once per text and method, and fuses what comes back."""

    catalog: Catalog
    index: Index
    embedder: Embedder
    options: RetrieveSettings
    fallbacks: Fallbacks = field(default_factory=Fallbacks)
    reads_all: bool = True
    """Whether a later step may put the last candidate first, so that all must be read."""

    async def retrieve(self, query: Query, run: QueryRun) -> Retrieved:
        within = await run_in_thread_if_blocking(self.catalog, self.catalog.keys_within, query)
        lists = await run_in_thread_if_blocking(self.embedder, self._embedded, query, run)
        slower = self.index if getattr(self.index, "waits", False) else self.catalog
        return await run_in_thread_if_blocking(slower, self._searched, query, lists, within, run)

    def _searched(
        self, query: Query, lists: list[_Lists], within: Within | None, run: QueryRun
    ) -> Retrieved:
        self._search_dense(query, lists, within, run)
        keyword_works = self._search_keywords(query, lists, within, run)
        with run.span("fuse") as span:
            similarity = self._similarities(query, lists)
            if keyword_works:
                fused = self._fused(query, lists, similarity)
            else:
                fused = self._boosted(query, similarity[0])
            best = sorted(fused, key=lambda key: (-fused[key], key))[: self._depth(query)]
            span.count(method=self.options.fusion, chunks_in=len(fused), chunks_out=len(best))
            span.count(
                top_k=query.top_k,
                initial_k=self.options.candidates,
                chunks_retrieved=len(best),
                scores_range=[round(fused[best[-1]], 4), round(fused[best[0]], 4)] if best else [],
            )
            run.trace.waterfall.add_scores("fuse", fused, kept=best)
        with run.span("read") as span:
            hits = self._hits(query, best, fused, similarity[0], lists[0])
            span.count(chunks_out=len(hits))
        listed = min(len(fused), self.options.candidates)
        return Retrieved(hits, found=len(fused), is_complete=len(best) >= listed)

    def _depth(self, query: Query) -> int:
        """How many of the fused list go on."""
        if self.reads_all or query.mmr_lambda < 1:
            return self.options.candidates
        return min(self.options.candidates, _READ_AHEAD * query.top_k)

    def _embedded(self, query: Query, run: QueryRun) -> list[_Lists]:
        lists = [_Lists(1.0), *(_Lists(_EXPANSION_WEIGHT) for _ in query.expansions)]
        # By keyword the question's is still wanted for the similarity of each hit, but not worth
        # an error. Feedback is a row of words: it has no meaning as a whole.
        meant = {0: query.text}
        if query.method != "keyword":
            meant |= {at: expansion.text for at, expansion in enumerate(query.expansions, start=1)
                      if expansion.kind != "feedback"}  # fmt: skip
        with run.span("embed") as span:
            span.count(model=self.embedder.name, texts=len(meant))
            try:
                vectors = self.embedder.embed(list(meant.values()))
            except Exception as error:  # noqa: BLE001  whatever a model raises, keywords are left
                if query.method != "keyword":
                    self.fallbacks.use("keyword_only", run, span, error)
                return lists
        for at, vector in zip(meant, vectors, strict=True):
            lists[at].vector = vector
        return lists

    def _search_dense(
        self, query: Query, lists: Sequence[_Lists], within: Within | None, run: QueryRun
    ) -> None:
        if query.method == "keyword" or lists[0].vector is None:
            return
        with run.span("retrieve.semantic") as span:
            limit = self.options.candidates
            try:
                for one in lists:
                    if one.vector is not None:
                        one.dense = self.index.dense(
                            query.collection, one.vector, limit=limit, within=within
                        )
            except Exception as error:  # noqa: BLE001  whatever an index raises, keywords are left
                self.fallbacks.use("keyword_only", run, span, error)
            span.count(initial_k=limit, **_figures([one.dense for one in lists]))
            run.trace.waterfall.add_list("retrieve.semantic", lists[0].dense, depth=limit)

    def _search_keywords(
        self, query: Query, lists: Sequence[_Lists], within: Within | None, run: QueryRun
    ) -> bool:
        """False when keyword search failed and similarity must do."""
        wanted = query.method != "semantic" or "keyword_only" in run.degraded
        if not wanted:
            return True
        texts = [query.text, *(expansion.text for expansion in query.expansions)]
        kinds = ["question", *(expansion.kind for expansion in query.expansions)]
        options = self.options
        with run.span("retrieve.keyword") as span:
            try:
                for one, text, kind in zip(lists, texts, kinds, strict=True):
                    if kind != "hypothetical":  # its words are a model's, only its meaning counts
                        one.keyword = self.index.keyword(
                            query.collection, text, limit=options.candidates, k1=options.bm25_k1,
                            b=options.bm25_b, within=within,
                        )  # fmt: skip
            except Exception as error:  # whatever a store raises, the other search may do
                if not any(one.dense for one in lists):
                    raise StoreError(
                        "Neither semantic nor keyword search works.",
                        hint="The log names what failed; ragstone doctor checks the index.",
                    ) from error
                self.fallbacks.use("semantic_with_keyword_boost", run, span, error)
                return False
            finally:
                span.count(initial_k=options.candidates, **_figures([one.keyword for one in lists]))
            run.trace.waterfall.add_list(
                "retrieve.keyword", lists[0].keyword, depth=options.candidates
            )
        return True

    def _similarities(self, query: Query, lists: Sequence[_Lists]) -> list[dict[int, float]]:
        """For each text the cosine of every hit: one that only the keyword search found has one
        too: the filter needs it, and nDCG@10 gains 0.001 (`bench/tune_refine.py`)."""
        keys = sorted({found.key for one in lists for found in (*one.dense, *one.keyword)})
        if lists[0].vector is None or not keys:
            return [{} for _ in lists]
        try:
            stored = self.index.vectors(query.collection, keys)
        except Exception:  # noqa: BLE001  the lists' own similarities are left
            return [{found.key: found.score for found in one.dense} for one in lists]
        found: list[dict[int, float]] = []
        for one in lists:
            vector = lists[0].vector if one.vector is None else one.vector
            cosines = np.clip(stored @ vector, -1, 1).tolist()
            found.append(dict(zip(keys, cosines, strict=True)))
        return found

    def _fused(
        self, query: Query, lists: Sequence[_Lists], similarity: Sequence[dict[int, float]]
    ) -> dict[int, float]:
        if query.method != "hybrid" and len(lists) == 1:
            return {found.key: found.score for found in (*lists[0].dense, *lists[0].keyword)}
        if self.options.fusion == "rrf":
            ranked = [(one.weight, found) for one in lists for found in (one.dense, one.keyword)]
            return reciprocal_rank_fusion(
                [[hit.key for hit in found] for _, found in ranked],
                k=self.options.rrf_k,
                weights=[weight for weight, _ in ranked],
            )
        each = [
            self._convex(query, one, cosines)
            for one, cosines in zip(lists, similarity, strict=True)
        ]
        return convex_fusion(each, weights=[one.weight for one in lists])

    def _convex(self, query: Query, one: _Lists, cosines: dict[int, float]) -> dict[int, float]:
        how = self.options.normalisation
        if how != "theoretical":  # the others take their scale from the list itself
            cosines = {found.key: found.score for found in one.dense}
        keywords = {found.key: found.score for found in one.keyword}
        share = self._dense_share(query)
        return convex_fusion(
            [normalised(cosines, how, bounded=True), normalised(keywords, how)],
            weights=[share, 1 - share],
        )

    def _dense_share(self, query: Query) -> float:
        if query.method != "hybrid":
            return 1.0 if query.method == "semantic" else 0.0
        known = knows_script(self.embedder, query.text)
        return self.options.dense_weight if known else self.options.foreign_weight

    def _boosted(self, query: Query, similarity: dict[int, float]) -> dict[int, float]:
        chunks = self.catalog.chunks(similarity)
        texts = {key: chunk.contextual_text for key, chunk in chunks.items()}
        wanted = terms(query.text)
        return keyword_boost(similarity, texts, wanted, boost=self.options.keyword_boost)

    def _hits(
        self, query: Query, best: Sequence[int], fused: dict[int, float],
        similarity: dict[int, float], one: _Lists,
    ) -> Hits:  # fmt: skip
        """Read the chunks. A key whose chunk is gone from the catalog is no hit."""
        chunks = self.catalog.chunks(best)
        dense_rank = {found.key: rank for rank, found in enumerate(one.dense, start=1)}
        keyword_rank = {found.key: rank for rank, found in enumerate(one.keyword, start=1)}
        keyword_score = {found.key: found.score for found in one.keyword}
        return tuple(
            Hit(
                chunk=chunks[key],
                score=fused[key],
                method=query.method,
                scores=Scores(
                    dense_rank=dense_rank.get(key),
                    similarity=similarity.get(key),
                    keyword_rank=keyword_rank.get(key),
                    keyword_score=keyword_score.get(key),
                    fused=fused[key],
                ),
            )
            for key in best
            if key in chunks
        )


def _figures(lists: Sequence[Sequence[Found]]) -> dict[str, object]:
    scores = [round(found.score, 4) for found in lists[0]]
    return {
        "chunks_retrieved": sum(map(len, lists)),
        "scores_range": [min(scores), max(scores)] if scores else [],
    }


def build(context: PartContext) -> Retriever:
    """Return the engine's own search, which the builder made already."""
    assert context.search is not None
    return context.search
