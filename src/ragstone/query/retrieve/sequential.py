"""Find the documents that a request is about as a whole, and read them in order.

"Summarize the lease", "What are these documents about?", "List all contracts", "Compare the lease
and the catering agreement" → chunks in reading order, with an outline that names the documents.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ragstone.catalog.collections import list_entries
from ragstone.outline import DocumentEntry, Outline
from ragstone.protocols import Catalog, Embedder, Retriever
from ragstone.query.retrieve.match import (
    choose_documents,
    group_documents,
    match_documents,
    measure_coverage,
    read_subject,
)
from ragstone.reading.documents import (
    DocumentRequest,
    match_comparison,
    match_request,
    split_topic,
)
from ragstone.threads import run_in_thread_if_blocking
from ragstone.trace import QueryRun
from ragstone.types import Chunk, Hit, Hits, Query, RetrievedHits

# So many of the best hits decide which document is meant when none is named.
_VOTES = 10
# So many documents are summarized together; more are listed.
_MAX_SUMMARIZED = 6
_MAX_LISTED = 60
# The beginnings of so many documents are read for a list or an overview, by so many chunks.
_MAX_QUOTED = 10
_CHUNKS_QUOTED = 2
# Of a longer document so many chunks are read, evenly spread.
_MAX_CHUNKS = 400
# A passage is about a topic when it and its headings hold this share of the topic's words.
_TOPIC_COVERAGE = 0.75
_MAX_PASSAGES = 12
_MAX_CACHED = 8
# How probable it is that the right documents were found: named, several named, by a search, none.
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
    return query.route == "summarize" or _read_request(query) is not None


@dataclass(frozen=True, slots=True)
class _Request:
    """Hold a request with the two sides of a comparison."""

    asked: DocumentRequest
    sides: tuple[str, str] | None = None


def _read_request(query: Query) -> _Request | None:
    asked = match_request(query.text)
    if asked is not None:
        return None if asked.kind == "compose" else _Request(asked)
    sides = match_comparison(query.text)
    return _Request(DocumentRequest("summary", is_strict=False), sides) if sides else None


def _list_words(request: _Request) -> list[str]:
    """List the beginnings of words by which the documents of a large collection are found."""
    texts = request.sides or (request.asked.subject,)
    subjects = [read_subject(text, by_kind=by_kind) for text in texts for by_kind in (False, True)]
    terms = {term.lstrip("=") for one in subjects for item in one.items for term in item}
    return sorted(terms)


@dataclass(frozen=True, slots=True)
class SequentialRetriever:
    """Read whole documents: those the query is limited to, else those it names or is about."""

    catalog: Catalog
    embedder: Embedder
    search: Retriever
    max_tokens: int
    _listed: OrderedDict[tuple[object, ...], tuple[list[DocumentEntry], int]] = field(
        default_factory=OrderedDict
    )

    async def retrieve(self, query: Query, run: QueryRun) -> RetrievedHits:
        request = _read_request(query)
        loose = _Request(DocumentRequest("summary", query.text, is_strict=False))
        found = RetrievedHits()
        with run.span("retrieve.documents") as span:
            outline = await run_in_thread_if_blocking(
                self.catalog, self._find_documents, query, request or loose
            )
            span.count(documents=len(outline.documents) if outline else 0)
        if outline is None:
            found = await self.search.retrieve(query, run)
            outline = self._find_topic(query, request or loose, found.hits)
            if outline is None:
                return found
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
                Hit(chunk, 1.0, query.method, scores[chunk.key])
                if chunk.key in scores
                else Hit(chunk, 1.0, query.method)
                for chunk in chosen
            )
            run.trace.waterfall.add_step(span.stage, found.hits, hits, span.counts)
            return RetrievedHits(hits, chunks_found=found.chunks_found, outline=outline)

    def _find_documents(self, query: Query, request: _Request) -> Outline | None:
        """Name the documents that are meant, from the catalog alone; None if it cannot tell."""
        entries, total = self._list_entries(query, request)
        asked = request.asked
        if not entries:
            return None
        if request.sides is not None:
            return _compare(request.sides, entries, total)
        if asked.kind == "catalog":
            return _list_matching(asked, entries, total)
        is_limited = bool(query.document_ids) or query.upload_id is not None
        named = entries if is_limited or len(entries) == 1 else []
        if asked.kind == "overview" or len(named) > _MAX_SUMMARIZED:
            return _survey(entries, total) if len(entries) > 1 else _make_summary("", named, total)
        named = named if is_limited else find_named(asked.subject, entries, _MAX_SUMMARIZED)
        return _make_summary(asked.subject, named, total) if named else None

    def _list_entries(self, query: Query, request: _Request) -> tuple[list[DocumentEntry], int]:
        """List the documents of the catalog once for each of its states."""
        state = self.catalog.last_change(query.collection)
        limits = (query.collection, query.document_ids, query.upload_id, repr(query.filter))
        key = (state, *limits)
        if key not in self._listed:
            found = list_entries(self.catalog, query, _list_words(request))
            if found[1] > len(found[0]):
                return found  # listed for these words only
            self._listed[key] = found
            while len(self._listed) > _MAX_CACHED:
                self._listed.popitem(last=False)
        return self._listed[key]

    def _find_topic(self, query: Query, request: _Request, hits: Hits) -> Outline | None:
        """Name the documents of the passages about a topic; None to answer it as a question."""
        asked = request.asked
        if asked.kind != "summary" or request.sides is not None or not hits:
            return None
        about = find_passages(asked.subject, hits)
        entries, total = self._list_entries(query, request)
        if not about and not (asked.is_strict and entries):
            return None
        groups = group_documents(entries)
        if not about:  # a model may still find the document in what is nearest
            return Outline("summary", asked.subject, (), 0, total, groups, probability=_NOT_FOUND)
        known = {one.id: one for one in entries}
        ids = dict.fromkeys(hit.chunk.document_id for hit in about)
        documents = tuple(
            known.get(one) or DocumentEntry(one, hit.chunk.document_name)
            for one in ids
            for hit in [next(h for h in about if h.chunk.document_id == one)]
        )
        return Outline(
            "summary", asked.subject, documents, len(ids), total, groups, True, _BY_SEARCH
        )

    def _load_chunks(self, query: Query, outline: Outline, hits: Hits) -> list[Chunk]:
        """Read the chunks to answer from: passages on a topic, beginnings, or whole documents."""
        if hits and outline.documents:
            about = find_passages(outline.subject, hits)
            return sorted((hit.chunk for hit in about), key=lambda c: (c.document_name, c.key))
        if outline.kind in ("overview", "catalog"):
            first = outline.documents[:_MAX_QUOTED]
            keys = [
                one.first_key + at
                for one in first
                for at in range(min(_CHUNKS_QUOTED, one.chunk_count))
            ]
        elif outline.documents:
            limit = _MAX_CHUNKS // len(outline.documents)
            keys = [key for one in outline.documents for key in _spread_keys(one, limit)]
        else:
            return self._load_nearest(hits)
        allowed = self.catalog.resolve_scope(query) if query.filter is not None else None
        if allowed is not None:
            keys = [key for key in keys if any(key in keys_ for keys_ in allowed.ranges)]
        return list(self.catalog.chunks(keys).values())

    def _load_nearest(self, hits: Hits) -> list[Chunk]:
        """Read the document with most of the best hits: a model may find in it what is meant."""
        votes: dict[str, float] = defaultdict(float)
        for hit in hits[:_VOTES]:
            votes[hit.chunk.document_id] += max(hit.score, 0.0)
        nearest = max(votes, key=lambda one: (votes[one], one))
        one = next(hit.chunk for hit in hits if hit.chunk.document_id == nearest)
        first = one.key - one.index  # the keys of a document's chunks are consecutive
        near = self.catalog.chunks(range(first, first + _MAX_CHUNKS)).values()
        return [chunk for chunk in near if chunk.document_id == nearest]

    def _fit_budget(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Keep as many chunks as fit, evenly spread; every document gets the same share."""
        by_document: dict[str, list[Chunk]] = defaultdict(list)
        for chunk in chunks:
            by_document[chunk.document_id].append(chunk)
        left, chosen = self.max_tokens, set[str]()
        # The shortest first: what it does not need is left for the others.
        ordered = sorted(by_document.values(), key=len)
        for at, own in enumerate(ordered):
            kept, used = self._fit_document(own, left // (len(ordered) - at))
            left -= used
            chosen |= {chunk.id for chunk in kept}
        return [chunk for chunk in chunks if chunk.id in chosen]

    def _fit_document(self, chunks: Sequence[Chunk], max_tokens: int) -> tuple[list[Chunk], int]:
        sizes = [len(self.embedder.token_starts(chunk.text)) + 20 for chunk in chunks]
        positions = list(range(len(chunks)))
        while len(positions) > 1 and sum(sizes[at] for at in positions) > max_tokens:
            limit = min(len(positions) - 1, max(1, int(len(positions) * 0.95)))
            positions = spread_evenly(len(chunks), limit)
        return [chunks[at] for at in positions], sum(sizes[at] for at in positions)


def _spread_keys(entry: DocumentEntry, limit: int) -> list[int]:
    return [entry.first_key + at for at in spread_evenly(entry.chunk_count, limit)]


def _make_summary(subject: str, documents: Sequence[DocumentEntry], total: int) -> Outline:
    probability = _NAMED if len(documents) == 1 else _SEVERAL
    ordered = tuple(sorted(documents, key=lambda one: one.name))
    return Outline("summary", subject, ordered, len(documents), total, probability=probability)


def _survey(entries: Sequence[DocumentEntry], total: int) -> Outline:
    """Outline a whole collection: its groups, and the main document of each."""
    groups = group_documents(entries)
    main = tuple(group.documents[0] for group in groups)
    return Outline("overview", "", main, total, total, groups, probability=_NAMED)


def _list_matching(
    asked: DocumentRequest, entries: Sequence[DocumentEntry], total: int
) -> Outline | None:
    """List the documents of a kind, or about something; None if the catalog names none."""
    head, topic = split_topic(asked.subject)
    subject = read_subject(f"{head} {topic}", by_kind=True)
    if not subject.items:
        return Outline("catalog", asked.subject, _cut(entries), total, total, probability=_NAMED)
    matches = match_documents(subject, entries)
    found = [one.entry for one in matches if one.coverage >= 1 - 1e-6]
    if not found:
        return None
    return Outline("catalog", asked.subject, _cut(found), len(found), total, probability=_SEVERAL)


def _cut(entries: Iterable[DocumentEntry]) -> tuple[DocumentEntry, ...]:
    return tuple(entries)[:_MAX_LISTED]


def _compare(
    sides: tuple[str, str], entries: Sequence[DocumentEntry], total: int
) -> Outline | None:
    """Name the two documents of a comparison; None unless each side names one."""
    documents: list[DocumentEntry] = []
    for side in sides:
        found = find_named(side, entries, 1)
        if not found:
            return None
        documents += found
    if documents[0].id == documents[1].id:
        return None
    subject = " / ".join(sides)
    return Outline("comparison", subject, tuple(documents), 2, total, probability=_NAMED)


def find_named(subject: str, entries: Sequence[DocumentEntry], limit: int) -> list[DocumentEntry]:
    """Return the documents that a subject names.

    By all its words, else by those that say what it is about, else by the kind of document.
    """
    for read in (
        read_subject(subject, drops_light=False),
        read_subject(subject),
        read_subject(subject, by_kind=True),
    ):
        if chosen := choose_documents(match_documents(read, entries), limit):
            return [one.entry for one in chosen]
    return []


def find_passages(topic: str, hits: Hits) -> list[Hit]:
    """Return the hits about a topic: they and their headings hold most of its words."""
    subject = read_subject(topic)
    if not subject.items:
        return []
    found = []
    for hit in hits:
        chunk = hit.chunk
        text = "\n".join((chunk.document_name, *chunk.heading_path, chunk.text))
        if measure_coverage(subject, text) >= _TOPIC_COVERAGE:
            found.append(hit)
    return found[:_MAX_PASSAGES]
