"""Search the documents by meaning and by keywords, and fuse the results.

query → candidate hits, best first. A question may come with expansions (a rewrite, variants,
sub-questions, a hypothetical answer); each is searched like the question, and all lists are fused.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ragstone.errors import StoreError
from ragstone.fallback import Fallbacks
from ragstone.filters import SearchScope
from ragstone.index.analyze import extract_terms, is_language_read
from ragstone.plugins import PartContext
from ragstone.protocols import Catalog, Embedder, Index, Retriever, ScoredKey, Vectors
from ragstone.query.retrieve.fuse import convex_fusion, normalise_scores, reciprocal_rank_fusion
from ragstone.query.retrieve.languages import (
    DEPTH,
    explain_other_language,
    find_other_language,
    is_known_script,
    reads_several,
)
from ragstone.settings import RetrieveSettings
from ragstone.threads import run_in_thread, run_in_thread_if_blocking
from ragstone.trace import QueryRun
from ragstone.types import Chunk, Hit, Hits, Query, RetrievedHits, Scores

# An expansion weighs half as much as its question.
_EXPANSION_WEIGHT = 0.5
# If no later step reorders, only so many times `top_k` are read: the filter and the deduplicator
# drop some of them, and reading all candidates costs more than finding them.
_READ_AHEAD = 3


@dataclass(slots=True)
class _SearchLists:
    """Hold what the searches found for one text: the question or an expansion."""

    text: str
    weight: float
    vector: Vectors | None = None
    dense: list[ScoredKey] = field(default_factory=list)
    keyword: list[ScoredKey] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HybridRetriever:
    """Ask the index once per text and method, and fuse the lists."""

    catalog: Catalog
    index: Index
    embedder: Embedder
    options: RetrieveSettings
    fallbacks: Fallbacks = field(default_factory=Fallbacks)
    reads_all: bool = True
    """True when a later step may put the last candidate first, so that all must be read."""

    async def retrieve(self, query: Query, run: QueryRun) -> RetrievedHits:
        within = await run_in_thread_if_blocking(self.catalog, self.catalog.resolve_scope, query)
        lists = await self._embed_beside(query, run)
        slower = self.index if getattr(self.index, "waits", False) else self.catalog
        return await run_in_thread_if_blocking(slower, self._search, query, lists, within, run)

    def _search(
        self, query: Query, lists: list[_SearchLists], within: SearchScope | None, run: QueryRun
    ) -> RetrievedHits:
        self._search_dense(query, lists, within, run)
        keyword_works = self._search_keywords(query, lists, within, run)
        with run.span("fuse") as span:
            similarity = self._compute_similarities(query, lists)
            if keyword_works:
                fused = self._fuse(query, lists, similarity)
            else:
                fused = self._boost(query, similarity[0])
            best = sorted(fused, key=lambda key: (-fused[key], key))[: self._count_to_read(query)]
            span.count(
                method=self.options.fusion,
                chunks_in=len(fused),
                chunks_out=len(best),
                top_k=query.top_k,
                initial_k=self.options.candidates,
                chunks_retrieved=len(best),
                scores_range=[round(fused[best[-1]], 4), round(fused[best[0]], 4)] if best else [],
            )
            run.trace.waterfall.add_scores("fuse", fused, kept=best)
        with run.span("read") as span:
            hits = self._read_hits(query, best, fused, similarity[0], lists[0], run)
            span.count(chunks_out=len(hits))
            other = find_other_language(query.text, (hit.chunk.text for hit in hits[:DEPTH]))
            note = other and explain_other_language(self.embedder, *other)
            if note:
                span.note(note)
        listed = min(len(fused), self.options.candidates)
        return RetrievedHits(hits, chunks_found=len(fused), is_complete=len(best) >= listed)

    def _count_to_read(self, query: Query) -> int:
        """Return how many of the fused list are read."""
        if self.reads_all or query.mmr_lambda < 1:
            return self.options.candidates
        return min(self.options.candidates, _READ_AHEAD * query.top_k)

    async def _embed_beside(self, query: Query, run: QueryRun) -> list[_SearchLists]:
        """Embed the texts, off the event loop: 500 tokens take a tenth of a second."""
        has_vector = getattr(self.embedder, "has_vector", lambda _: False)
        is_known = all(map(has_vector, self._list_texts(query).values()))
        if is_known or getattr(self.embedder, "waits", False):
            return await run_in_thread_if_blocking(self.embedder, self._embed, query, run)
        return await run_in_thread("models", self._embed, query, run)

    def _list_texts(self, query: Query) -> dict[int, str]:
        """Return the texts to embed, by the place of their list.

        For keyword search the question is embedded too, for the similarity of each hit; a failure
        is then ignored. Feedback is a list of words without a meaning as a whole.
        """
        texts = {0: query.text}
        if query.method != "keyword":
            texts |= {
                at: expansion.text
                for at, expansion in enumerate(query.expansions, start=1)
                if expansion.kind != "feedback"
            }
        return texts

    def _embed(self, query: Query, run: QueryRun) -> list[_SearchLists]:
        lists = [
            _SearchLists(query.text, 1.0),
            *(_SearchLists(one.text, _EXPANSION_WEIGHT) for one in query.expansions),
        ]
        texts = self._list_texts(query)
        with run.span("embed") as span:
            span.count(model=self.embedder.name, texts=len(texts))
            try:
                vectors = self.embedder.embed(list(texts.values()))
            except Exception as error:  # noqa: BLE001  whatever a model raises, keywords are left
                if query.method != "keyword":
                    self.fallbacks.use("keyword_only", run, span, error)
                return lists
        for at, vector in zip(texts, vectors, strict=True):
            lists[at].vector = vector
        return lists

    def _search_dense(
        self, query: Query, lists: Sequence[_SearchLists], within: SearchScope | None, run: QueryRun
    ) -> None:
        if query.method == "keyword" or lists[0].vector is None:
            return
        with run.span("retrieve.semantic") as span:
            limit = self.options.candidates
            try:
                for one in lists:
                    if one.vector is not None:
                        one.dense = run.find_once(
                            ("dense", one.text, *_list_limits(query)),
                            partial(
                                self.index.search_dense,
                                query.collection,
                                one.vector,
                                limit=limit,
                                scope=within,
                            ),
                        )
            except Exception as error:  # noqa: BLE001  whatever an index raises, keywords are left
                self.fallbacks.use("keyword_only", run, span, error)
            span.count(initial_k=limit, **_summarise_lists([one.dense for one in lists]))
            run.trace.waterfall.add_list("retrieve.semantic", lists[0].dense, depth=limit)

    def _search_keywords(
        self, query: Query, lists: Sequence[_SearchLists], within: SearchScope | None, run: QueryRun
    ) -> bool:
        """Search keywords; return False when that failed and similarity must do."""
        wanted = query.method != "semantic" or "keyword_only" in run.degraded
        if not wanted:
            return True
        kinds = ["question", *(expansion.kind for expansion in query.expansions)]
        options = self.options
        with run.span("retrieve.keyword") as span:
            try:
                for one, kind in zip(lists, kinds, strict=True):
                    if kind != "hypothetical":  # its words are a guess of the model
                        one.keyword = run.find_once(
                            ("keyword", one.text, *_list_limits(query)),
                            partial(
                                self.index.search_keyword,
                                query.collection,
                                one.text,
                                limit=options.candidates,
                                k1=options.bm25_k1,
                                b=options.bm25_b,
                                scope=within,
                            ),
                        )
            except Exception as error:  # whatever a store raises, the other search may do
                if not any(one.dense for one in lists):
                    if isinstance(error, StoreError):
                        raise
                    raise StoreError(
                        "Neither semantic nor keyword search works.",
                        hint="Read the log, and check the index with: ragstone doctor",
                    ) from error
                self.fallbacks.use("semantic_with_keyword_boost", run, span, error)
                return False
            finally:
                span.count(
                    initial_k=options.candidates, **_summarise_lists([one.keyword for one in lists])
                )
            run.trace.waterfall.add_list(
                "retrieve.keyword", lists[0].keyword, depth=options.candidates
            )
        return True

    def _compute_similarities(
        self, query: Query, lists: Sequence[_SearchLists]
    ) -> list[dict[int, float]]:
        """Compute for each text the cosine of every hit, also of those only keywords found.

        The filter needs it, and nDCG@10 gains 0.001 (`bench/tune_refine.py`).
        """
        keys = sorted({found.key for one in lists for found in (*one.dense, *one.keyword)})
        if lists[0].vector is None or not keys:
            return [{} for _ in lists]
        try:
            stored = self.index.vectors(query.collection, keys)
        except Exception:  # noqa: BLE001  the scores of the dense lists are left
            return [{found.key: found.score for found in one.dense} for one in lists]
        found: list[dict[int, float]] = []
        for one in lists:
            vector = lists[0].vector if one.vector is None else one.vector
            cosines = np.clip(stored @ vector, -1, 1).tolist()
            found.append(dict(zip(keys, cosines, strict=True)))
        return found

    def _fuse(
        self, query: Query, lists: Sequence[_SearchLists], similarity: Sequence[dict[int, float]]
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
            self._fuse_convex(query, one, cosines)
            for one, cosines in zip(lists, similarity, strict=True)
        ]
        return convex_fusion(each, weights=[one.weight for one in lists])

    def _fuse_convex(
        self, query: Query, one: _SearchLists, cosines: dict[int, float]
    ) -> dict[int, float]:
        how = self.options.normalisation
        if how != "theoretical":  # the others compute their scale from the list
            cosines = {found.key: found.score for found in one.dense}
        keywords = {found.key: found.score for found in one.keyword}
        share = self._get_dense_weight(query, one)
        return convex_fusion(
            [normalise_scores(cosines, how, bounded=True), normalise_scores(keywords, how)],
            weights=[share, 1 - share],
        )

    def _get_dense_weight(self, query: Query, one: _SearchLists) -> float:
        if query.method != "hybrid":
            return 1.0 if query.method == "semantic" else 0.0
        if not is_known_script(self.embedder, query.text):
            return self.options.foreign_weight
        if not is_language_read(self.embedder, query.text):
            return self.options.other_language_weight
        return self._get_crossing_weight(query, one)

    def _get_crossing_weight(self, query: Query, one: _SearchLists) -> float:
        """Return the weight for a question whose language the embedder reads.

        If the documents are in another one, their words say little; a question that only an
        embedder of several languages can answer is worth a look at its first hits.
        """
        if reads_several(self.embedder):
            nearest = self.catalog.chunks(found.key for found in one.dense[:DEPTH])
            if find_other_language(query.text, (chunk.text for chunk in nearest.values())):
                return self.options.crossing_weight
        return self.options.dense_weight

    def _boost(self, query: Query, similarity: dict[int, float]) -> dict[int, float]:
        chunks = self.catalog.chunks(similarity)
        texts = {key: chunk.contextual_text for key, chunk in chunks.items()}
        wanted = extract_terms(query.text)
        return boost_by_keywords(similarity, texts, wanted, boost=self.options.keyword_boost)

    def _read_hits(
        self,
        query: Query,
        best: Sequence[int],
        fused: dict[int, float],
        similarity: dict[int, float],
        one: _SearchLists,
        run: QueryRun,
    ) -> Hits:
        """Read the chunks; one that is gone from the catalog is left out."""
        chunks = run.find_once("chunks", dict[int, Chunk])
        if new := [key for key in best if key not in chunks]:
            chunks |= self.catalog.chunks(new)
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


def _list_limits(query: Query) -> tuple[Hashable, ...]:
    """Return what limits the search of a query, beside its text."""
    return query.collection, query.upload_id, query.document_ids, repr(query.filter)


def _summarise_lists(lists: Sequence[Sequence[ScoredKey]]) -> dict[str, object]:
    scores = [found.score for found in lists[0]]
    return {
        "chunks_retrieved": sum(map(len, lists)),
        "scores_range": [round(min(scores), 4), round(max(scores), 4)] if scores else [],
    }


def boost_by_keywords(
    similarities: Mapping[int, float],
    texts: Mapping[int, str],
    wanted: Sequence[str],
    *,
    boost: float,
) -> dict[int, float]:
    """Return similarity + boost · (share of the wanted terms that the text holds) per id."""
    distinct = set(wanted)
    if not distinct:
        return dict(similarities)
    return {
        key: similarity
        + boost * len(distinct & set(extract_terms(texts.get(key, "")))) / len(distinct)
        for key, similarity in similarities.items()
    }


def build(context: PartContext) -> Retriever:
    """Return the engine's own search, which the builder made already."""
    assert context.search is not None
    return context.search
