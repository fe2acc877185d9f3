"""Read a document in order, for a summary: its chunks, evenly spread when not all fit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragstone.protocols import Catalog, Embedder, Retriever
from ragstone.text import normalize_words
from ragstone.threads import run_in_thread_if_blocking
from ragstone.trace import QueryRun
from ragstone.types import Chunk, Hit, Hits, Query, RetrievedHits

# So many of the best hits decide which document is meant when none is named.
_VOTES = 10


def spread_evenly(count: int, limit: int) -> list[int]:
    """Return at most `limit` of `count` positions, evenly spread, with the first and the last."""
    if count <= limit:
        return list(range(count))
    if limit <= 1:
        return [0][:limit]
    return [round(at * (count - 1) / (limit - 1)) for at in range(limit)]


@dataclass(frozen=True, slots=True)
class SequentialRetriever:
    """Read whole documents: those the query is limited to, else the one it names or is about."""

    catalog: Catalog
    embedder: Embedder
    search: Retriever
    max_tokens: int

    async def retrieve(self, query: Query, run: QueryRun) -> RetrievedHits:
        document_ids = query.document_ids
        found = RetrievedHits()
        if not document_ids and query.upload_id is None:
            found = await self.search.retrieve(query, run)
            document_ids = _find_document(query, found.hits)
        with run.span("retrieve.sequential") as span:
            limited = replace(query, document_ids=document_ids)
            chunks = await run_in_thread_if_blocking(self.catalog, self._load_chunks, limited)
            chosen = self._fit_budget(chunks)
            similarity = {hit.chunk.key: hit.scores for hit in found.hits}
            span.count(
                documents=len({chunk.document_id for chunk in chunks}),
                chunks_in=len(chunks),
                chunks_out=len(chosen),
            )
            if len(chosen) < len(chunks):
                span.note(f"{len(chosen)} of {len(chunks)} chunks fit the context, evenly spread.")
            hits = tuple(
                Hit(chunk, 1.0, query.method, similarity[chunk.key])
                if chunk.key in similarity
                else Hit(chunk, 1.0, query.method)
                for chunk in chosen
            )
            run.trace.waterfall.add_step(span.stage, found.hits, hits, span.counts)
            return RetrievedHits(hits, chunks_found=found.chunks_found)

    def _load_chunks(self, query: Query) -> list[Chunk]:
        if not query.document_ids and query.upload_id is None:
            return []
        within = self.catalog.resolve_scope(query)
        keys = [key for keys in (within.ranges if within else ()) for key in keys]
        found = self.catalog.chunks(keys)
        return sorted(found.values(), key=lambda chunk: (chunk.document_name, chunk.key))

    def _fit_budget(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        sizes = [len(self.embedder.token_starts(chunk.text)) + 20 for chunk in chunks]
        positions = spread_evenly(len(chunks), len(chunks))
        while len(positions) > 1 and sum(sizes[at] for at in positions) > self.max_tokens:
            limit = min(len(positions) - 1, max(1, int(len(positions) * 0.95)))
            positions = spread_evenly(len(chunks), limit)
        return [chunks[at] for at in positions]


def _find_document(query: Query, hits: Hits) -> tuple[str, ...]:
    """Return the document that the question names, else the one with most of the best hits."""
    if not hits:
        return ()
    words = set(normalize_words(query.text))
    for hit in hits:
        stem = hit.chunk.document_name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
        named = set(normalize_words(stem.replace("-", " ").replace("_", " ")))
        if named and named <= words:
            return (hit.chunk.document_id,)
    votes: dict[str, float] = defaultdict(float)
    for hit in hits[:_VOTES]:
        votes[hit.chunk.document_id] += max(hit.score, 0.0)
    return (max(votes, key=lambda one: (votes[one], one)),)
