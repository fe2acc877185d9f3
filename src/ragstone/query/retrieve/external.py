"""Search with a retriever that holds other documents than the catalog, on every route.

The question and each expansion are distinct requests; none is sent twice for one query, and their
lists are fused. A summary reads what the service finds in the order of its documents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from ragstone.index.analyze import extract_terms
from ragstone.outline import Outline
from ragstone.protocols import Retriever
from ragstone.query.retrieve.fuse import reciprocal_rank_fusion
from ragstone.query.retrieve.match import find_named
from ragstone.query.retrieve.sequential import MAX_SUMMARIZED, find_about, list_documents
from ragstone.reading.documents import find_subject
from ragstone.trace import QueryRun
from ragstone.types import Chunk, Hit, Hits, Query, RetrievedHits

# As in the built-in search: an expansion weighs half as much as its question.
_EXPANSION_WEIGHT = 0.5
# How probable it is that the hits are of the document that is meant.
_NAMED, _BY_SEARCH = 0.85, 0.7


@dataclass(slots=True)
class _Asked:
    """The requests of one query with their replies, and the keys of the chunks in them."""

    replies: dict[tuple[str, int], asyncio.Task[RetrievedHits]] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)

    def set_key(self, chunk: Chunk) -> Chunk:
        """Give a chunk a key that no chunk of the own index has, the same in every reply."""
        if chunk.key > 0:
            return chunk
        return replace(chunk, key=self.keys.setdefault(chunk.id, -len(self.keys) - 1))


@dataclass(frozen=True, slots=True)
class ExternalSearch:
    """Ask `retriever` for the question and its expansions, each once, and fuse the lists."""

    retriever: Retriever
    rrf_k: int = 60
    _asked: WeakKeyDictionary[QueryRun, _Asked] = field(default_factory=WeakKeyDictionary)

    async def retrieve(self, query: Query, run: QueryRun) -> RetrievedHits:
        texts = dict.fromkeys((query.text, *(expansion.text for expansion in query.expansions)))
        tasks = [self._ask_once(replace(query, text=text, expansions=()), run) for text in texts]
        first, *others = await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(first, BaseException):
            raise first
        lists = [first, *(found for found in others if not isinstance(found, BaseException))]
        with run.span("fuse") as span:
            hits = first if len(lists) == 1 else _fuse(lists, self.rrf_k)
            span.count(
                method="external" if len(lists) == 1 else "rrf",
                requests=len(texts),
                chunks_in=sum(map(len, lists)),
                chunks_out=len(hits),
                top_k=query.top_k,
                initial_k=query.top_k,
                chunks_retrieved=len(hits),
                scores_range=[round(hits[-1].score, 4), round(hits[0].score, 4)] if hits else [],
            )
            if failed := len(texts) - len(lists):
                span.note(f"{failed} of {len(texts)} requests to the external retriever failed.")
            scores = {hit.chunk.key: hit.score for hit in hits}
            run.trace.waterfall.add_scores("fuse", scores, kept=list(scores))
        return RetrievedHits(hits, chunks_found=len(hits))

    async def _ask_once(self, query: Query, run: QueryRun) -> Hits:
        asked = self._asked.setdefault(run, _Asked())
        request = (query.text, query.top_k)
        if request not in asked.replies:
            work: Coroutine[Any, Any, RetrievedHits] = self.retriever.retrieve(query, run)
            asked.replies[request] = asyncio.create_task(work)
        found = await asked.replies[request]
        return tuple(replace(hit, chunk=asked.set_key(hit.chunk)) for hit in found.hits)

    async def aclose(self) -> None:
        aclose = getattr(self.retriever, "aclose", None)
        if aclose is not None:
            await aclose()


def _fuse(lists: Sequence[Hits], k: int) -> Hits:
    """Fuse by rank; the best score that the service gave stays as the similarity."""
    weights = [1.0, *[_EXPANSION_WEIGHT] * (len(lists) - 1)]
    rankings = [[hit.chunk.key for hit in hits] for hits in lists]
    fused = reciprocal_rank_fusion(rankings, k=k, weights=weights)
    best: dict[int, Hit] = {}
    for hit in (hit for hits in lists for hit in hits):
        known = best.get(hit.chunk.key)
        if known is None or hit.score > known.score:
            best[hit.chunk.key] = hit
    # Keys depend on the order of arrival; ids do not.
    order = sorted(best, key=lambda key: (-fused[key], best[key].chunk.id))
    return tuple(
        best[key].with_scores(
            score=fused[key],
            fused=fused[key],
            similarity=best[key].scores.similarity or best[key].score,
        )
        for key in order
    )


@dataclass(frozen=True, slots=True)
class ExternalDocuments:
    """Read what the service has of the documents that a request is about, in their order."""

    search: ExternalSearch
    candidates: int

    async def retrieve(self, query: Query, run: QueryRun) -> RetrievedHits:
        wanted = max(query.top_k, self.candidates)
        found = await self.search.retrieve(replace(query, top_k=wanted), run)
        with run.span("retrieve.sequential") as span:
            subject = find_subject(query.text)
            chosen, probability = choose_hits(subject, found.hits)
            in_order = sorted(chosen, key=lambda hit: (hit.chunk.document_name, hit.chunk.index))
            documents = list_documents(tuple(in_order))
            span.count(
                documents=len(documents), chunks_in=len(found.hits), chunks_out=len(in_order)
            )
        if not in_order:
            return replace(found, hits=found.hits[: query.top_k])
        count = len(documents)
        outline = Outline("summary", subject, documents, count, count, (), True, probability)
        return RetrievedHits(tuple(in_order), chunks_found=found.chunks_found, outline=outline)


def choose_hits(subject: str, hits: Hits) -> tuple[Hits, float]:
    """Keep the hits of the documents that a subject names, else those about it."""
    named = find_named(set(extract_terms(subject)), list_documents(hits))
    if 0 < len(named) <= MAX_SUMMARIZED:
        ids = {entry.id for entry in named}
        return tuple(hit for hit in hits if hit.chunk.document_id in ids), _NAMED
    return find_about(subject, hits)[0], _BY_SEARCH
