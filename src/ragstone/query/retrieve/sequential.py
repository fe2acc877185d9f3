"""Find the documents that a request is about as a whole, and read them in order.

"Summarize the lease", "What are these documents about?", "List all contracts", "Compare the lease
and the catering agreement" → chunks in reading order, with an outline that names the documents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragstone.catalog.collections import list_entries
from ragstone.index.analyze import extract_terms
from ragstone.outline import DocumentEntry, Outline, OutlineKind
from ragstone.protocols import Catalog, Embedder, Retriever
from ragstone.query.retrieve.match import (
    find_described,
    find_named,
    find_two,
    group_documents,
    list_terms,
    weigh_terms,
)
from ragstone.reading.documents import find_request, find_subject, is_certain
from ragstone.threads import run_in_thread_if_blocking
from ragstone.trace import QueryRun
from ragstone.types import Chunk, Hit, Hits, Query, RetrievedHits, Scores

# So many of the best hits decide which document is meant when none is named.
_VOTES = 10
# So many documents are summarized together; more are listed, up to a limit.
MAX_SUMMARIZED, _MAX_LISTED = 6, 60
# The beginnings of so many documents are read for a list or an overview, by so many chunks.
_MAX_QUOTED, _CHUNKS_QUOTED = 10, 2
# Of a longer document so many chunks are read, evenly spread.
_MAX_CHUNKS = 400
# A passage is about a subject when it and its headings hold this share of the subject's words.
_MIN_COVERAGE, _MAX_PASSAGES = 0.6, 12
# How probable it is that these documents are meant: named, several named, by a search, none found.
_NAMED, _SEVERAL, _BY_SEARCH, _NOT_FOUND = 0.95, 0.85, 0.7, 0.05


def spread_evenly(count: int, limit: int) -> list[int]:
    """Return at most `limit` of `count` positions, evenly spread, with the first and the last."""
    if count <= limit:
        return list(range(count))
    if limit <= 1:
        return [0][:limit]
    return [round(at * (count - 1) / (limit - 1)) for at in range(limit)]


def asks_for_documents(query: Query) -> bool:
    """Return True when a question may be about documents as a whole; the catalog decides."""
    return query.route == "summarize" or find_request(query.text) is not None


@dataclass(frozen=True, slots=True)
class SequentialRetriever:
    """Read whole documents: those the query is limited to, else those it names or is about."""

    catalog: Catalog
    embedder: Embedder
    search: Retriever
    max_tokens: int

    async def retrieve(self, query: Query, run: QueryRun) -> RetrievedHits:
        subject = find_subject(query.text)
        found = RetrievedHits()
        with run.span("retrieve.documents") as span:
            outline = await run_in_thread_if_blocking(
                self.catalog, self._find_documents, query, subject
            )
            span.count(documents=len(outline.documents) if outline else 0)
        if outline is None:
            found = await self.search.retrieve(query, run)
            about, is_one = find_about(subject, found.hits)
            kind = find_request(query.text)
            if kind in ("list", "compare") or not (about or is_certain(query.text)):
                return found
            outline = await run_in_thread_if_blocking(
                self.catalog, self._outline_hits, query, subject, about, is_one
            )
            if not about:
                return replace(found, outline=outline)
            found = replace(found, hits=about)
        with run.span("retrieve.sequential") as span:
            chunks = await run_in_thread_if_blocking(
                self.catalog, self._load_chunks, query, outline, found.hits
            )
            chosen = self._fit_budget(chunks)
            span.count(
                documents=len({chunk.document_id for chunk in chunks}),
                chunks_in=len(chunks),
                chunks_out=len(chosen),
                initial_k=len(chunks),
                chunks_retrieved=len(chosen),
            )
            if len(chosen) < len(chunks):
                span.note(f"{len(chosen)} of {len(chunks)} chunks fit the context, evenly spread.")
            scores = {hit.chunk.key: hit.scores for hit in found.hits}
            hits = tuple(
                Hit(chunk, 1.0, query.method, scores.get(chunk.key, Scores())) for chunk in chosen
            )
            run.trace.waterfall.add_step(span.stage, found.hits, hits, span.counts)
            return RetrievedHits(hits, chunks_found=found.chunks_found, outline=outline)

    def _find_documents(self, query: Query, subject: str) -> Outline | None:
        """Name the documents that are meant, from the catalog alone; None if it cannot tell."""
        kind = find_request(query.text) or "summarize"
        # "What do the documents say about dogs?" may be about one of them.
        kind = "summarize" if kind == "overview" and not is_certain(query.text) else kind
        terms = list(dict.fromkeys(extract_terms(subject)))
        entries, total = list_entries(self.catalog, query, terms)
        if not entries:
            return None
        if kind == "compare":
            two = find_two(terms, entries)
            return _outline("comparison", subject, two, total) if two else None
        if kind == "list":
            return _outline("catalog", subject, find_described(terms, entries) or entries, total)
        is_limited = bool(query.document_ids) or query.upload_id is not None
        named = entries if is_limited or len(entries) == 1 else []
        if kind == "summarize" and not named:
            named = find_named(terms, entries)
        if 0 < len(named) <= MAX_SUMMARIZED:
            return _outline("summary", subject, sorted(named, key=lambda entry: entry.name), total)
        if kind == "overview" or is_limited or not terms:
            groups = group_documents(entries)
            main = [group.documents[0] for group in groups]
            return replace(_outline("overview", "", main, total), groups=groups)
        return None

    def _outline_hits(self, query: Query, subject: str, hits: Hits, is_one: bool) -> Outline:
        """Name the documents of hits about a subject; without any, only those there are."""
        ids = tuple(dict.fromkeys(hit.chunk.document_id for hit in hits))
        entries, total = list_entries(self.catalog, replace(query, document_ids=ids))
        if not hits:
            groups = group_documents(entries)
            return Outline("summary", subject, (), 0, total, groups, probability=_NOT_FOUND)
        outline = _outline("summary", subject, entries, total)
        return replace(outline, is_topic=not is_one, probability=_BY_SEARCH)

    def _load_chunks(self, query: Query, outline: Outline, hits: Hits) -> list[Chunk]:
        """Read the chunks to answer from: passages on a topic, beginnings, or whole documents."""
        if outline.is_topic:
            return sorted((hit.chunk for hit in hits), key=lambda c: (c.document_name, c.key))
        if outline.kind in ("overview", "catalog"):
            documents = outline.documents[:_MAX_QUOTED]
            spans = [list(range(min(entry.chunk_count, _CHUNKS_QUOTED))) for entry in documents]
        else:
            documents = outline.documents
            limit = _MAX_CHUNKS // len(documents)
            spans = [spread_evenly(entry.chunk_count, limit) for entry in documents]
        keys = [one.first_key + at for one, own in zip(documents, spans, strict=True) for at in own]
        if query.filter is not None and (allowed := self.catalog.resolve_scope(query)) is not None:
            keys = [key for key in keys if any(key in some for some in allowed.ranges)]
        return list(self.catalog.chunks(keys).values())

    def _fit_budget(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Keep as many chunks as fit, evenly spread; every document gets the same share."""
        by_document: dict[str, list[Chunk]] = defaultdict(list)
        for chunk in chunks:
            by_document[chunk.document_id].append(chunk)
        left, chosen = self.max_tokens, set[str]()
        # The shortest first: what it does not need is left for the others.
        ordered = sorted(by_document.values(), key=len)
        for at, own in enumerate(ordered):
            sizes = [len(self.embedder.token_starts(chunk.text)) + 20 for chunk in own]
            places = list(range(len(own)))
            while len(places) > 1 and sum(sizes[n] for n in places) > left // (len(ordered) - at):
                places = spread_evenly(len(own), max(1, int(len(places) * 0.95)))
            left -= sum(sizes[n] for n in places)
            chosen |= {own[n].id for n in places}
        return [chunk for chunk in chunks if chunk.id in chosen]


def _outline(
    kind: OutlineKind, subject: str, documents: Sequence[DocumentEntry], total: int
) -> Outline:
    probability = _NAMED if len(documents) == 1 or kind != "summary" else _SEVERAL
    count = total if kind == "overview" else len(documents)
    listed = tuple(documents[:_MAX_LISTED])
    return Outline(kind, subject, listed, count, total, probability=probability)


def find_about(subject: str, hits: Hits) -> tuple[Hits, bool]:
    """Return the hits that hold most of a subject's words, and True when one document is meant:
    most of the best hits are its, and they hold these words or its name has some of them."""
    terms = set(extract_terms(subject))
    texts = [(h.chunk.document_name, *h.chunk.heading_path, h.chunk.text) for h in hits]
    held = [terms & list_terms("\n".join(parts)) for parts in texts]
    weights = weigh_terms(terms, held)
    enough = _MIN_COVERAGE * sum(weights.values())
    scores = [sum(weights[term] for term in some) for some in held]
    about = [hit for hit, score in zip(hits, scores, strict=True) if score >= enough > 0]
    named = {entry.id for entry in find_named(terms, list_documents(hits), least=0)}
    votes: dict[str, float] = defaultdict(float)
    for hit in hits[:_VOTES]:
        is_vote = hit in about or hit.chunk.document_id in named
        votes[hit.chunk.document_id if is_vote else ""] += max(hit.score, 0.0)
    best = max(votes, key=lambda name: votes[name], default="")
    if best and votes[best] > sum(votes.values()) / 2:
        return tuple(hit for hit in hits if hit.chunk.document_id == best), True
    return tuple(about[:_MAX_PASSAGES]), False


def list_documents(hits: Hits) -> tuple[DocumentEntry, ...]:
    names = {hit.chunk.document_id: hit.chunk.document_name for hit in hits}
    return tuple(DocumentEntry(document_id, name) for document_id, name in names.items())
