"""For a summary: the chunks of the document in question, in their order, evenly spread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragstone.protocols import Catalog, Embedder, Retriever
from ragstone.text import spoken_words
from ragstone.threads import run_in_thread_if_blocking
from ragstone.trace import QueryRun
from ragstone.types import Chunk, Hit, Hits, Query, Retrieved

# How many of the best hits say which document is meant when none is named.
_VOTES = 10


def evenly(count: int, most: int) -> list[int]:
    """At most `most` positions out of `count`, evenly spread, the first and the last among them."""
    if count <= most:
        return list(range(count))
    if most <= 1:
        return [0][:most]
    return [round(at * (count - 1) / (most - 1)) for at in range(most)]


@dataclass(frozen=True, slots=True)
class SequentialRetriever:
    """Reads whole documents. Which: the query's own limits, else the one it names or is about."""

    catalog: Catalog
    embedder: Embedder
    search: Retriever
    max_tokens: int

    async def retrieve(self, query: Query, run: QueryRun) -> Retrieved:
        document_ids = query.document_ids
        found = Retrieved()
        if not document_ids and query.upload_id is None:
            found = await self.search.retrieve(query, run)
            document_ids = _meant(query, found.hits)
        with run.span("retrieve.sequential") as span:
            limited = replace(query, document_ids=document_ids)
            chunks = await run_in_thread_if_blocking(self.catalog, self._chunks, limited)
            chosen = self._within_budget(chunks)
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
            return Retrieved(hits, found=found.found)

    def _chunks(self, query: Query) -> list[Chunk]:
        if not query.document_ids and query.upload_id is None:
            return []
        within = self.catalog.keys_within(query)
        keys = [key for keys in (within.ranges if within else ()) for key in keys]
        found = self.catalog.chunks(keys)
        return sorted(found.values(), key=lambda chunk: (chunk.document_name, chunk.key))

    def _within_budget(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        sizes = [len(self.embedder.token_starts(chunk.text)) + 20 for chunk in chunks]
        most = len(chunks)
        while most > 1 and sum(sizes[at] for at in evenly(len(chunks), most)) > self.max_tokens:
            most = min(most - 1, max(1, int(most * 0.95)))
        return [chunks[at] for at in evenly(len(chunks), most)]


def _meant(query: Query, hits: Hits) -> tuple[str, ...]:
    """The document whose name the question says, else the one most of the best hits are from."""
    if not hits:
        return ()
    words = set(spoken_words(query.text))
    for hit in hits:
        stem = hit.chunk.document_name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
        named = set(spoken_words(stem.replace("-", " ").replace("_", " ")))
        if named and named <= words:
            return (hit.chunk.document_id,)
    votes: dict[str, float] = defaultdict(float)
    for hit in hits[:_VOTES]:
        votes[hit.chunk.document_id] += max(hit.score, 0.0)
    return (max(votes, key=lambda one: (votes[one], one)),)
