"""Search the keywords of one collection with tantivy (BM25).

`analyze` makes the terms, so that tantivy only counts and ranks. Chunks are identified by their
catalog keys. tantivy's BM25 has k1 = 1.2 and b = 0.75 built in; for other values its best hits are
scored again from the stored terms, by the exact formula.
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import tantivy
from tantivy import Occur, Query

from ragstone.filters import SearchScope
from ragstone.index.analyze import (
    FUNCTION_WORDS,
    choose_language,
    extract_query_terms,
    extract_terms,
)
from ragstone.protocols import Catalog, ScoredKey
from ragstone.types import Chunk


def idf(frequencies: Sequence[int], total: int) -> list[float]:
    """Compute ln(1 + (N - df + 0.5) / (df + 0.5)) for each term's document frequency."""
    return [math.log(1 + (total - df + 0.5) / (df + 0.5)) for df in frequencies]


def score_documents(
    query_terms: Sequence[str],
    weights: Sequence[float],
    documents: Sequence[Sequence[str]],
    *,
    average_length: float,
    k1: float,
    b: float,
) -> list[float]:
    """Compute Σ idf · tf·(k1+1) / (tf + k1·(1 - b + b·length/average)) for every document."""
    scores: list[float] = []
    for document in documents:
        counts = Counter(document)
        norm = k1 * (1 - b + b * len(document) / average_length)
        score = 0.0
        for term, weight in zip(query_terms, weights, strict=True):
            tf = counts[term]
            if tf:
                score += weight * tf * (k1 + 1) / (tf + norm)
        scores.append(score)
    return scores


def read_language_codes(catalog: Catalog, chunks: Iterable[Chunk]) -> dict[str, object]:
    """Read the languages that were detected when the chunks' documents were read, by their ids."""
    fields = catalog.document_fields({chunk.document_id for chunk in chunks})
    return {one: found.get("language") for one, found in fields.items()}


_Hit: TypeAlias = tuple[int, float, tantivy.DocAddress]  # key, score, address
_HEAP_BYTES = 64_000_000
_TANTIVY_K1, _TANTIVY_B = 1.2, 0.75
# tantivy's first 100 hits contain 99.5 % of the exact first ten for other values of k1 and b.
_RESCORE_DEPTH = 100
# A scope of few ranges becomes range queries, one of few keys a set of terms; with a larger scope
# the best of all hits are fetched, and those outside it are dropped.
_MAX_RANGES = 16
_MAX_KEYS = 20_000
_OS_ERROR = re.compile(r"\bcode: (\d+)|\(os error (\d+)\)")


def _build_schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("terms", stored=True, tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field("language", tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field("key", indexed=True, fast=True)
    builder.add_unsigned_field("length", fast=True)
    return builder.build()


@contextmanager
def _raise_os_errors() -> Iterator[None]:
    """Raise the OSError that tantivy reports as a ValueError, e.g. of a full disk."""
    try:
        yield
    except ValueError as error:
        if (found := _OS_ERROR.search(str(error))) is None:
            raise
        number = int(found[1] or found[2])
        raise OSError(number, os.strerror(number)) from error


class KeywordIndex:
    """Search the terms of a collection's chunks in one directory, as of the last commit."""

    @_raise_os_errors()
    def __init__(self, directory: Path | None) -> None:
        """Open an existing directory; None is an empty index in memory."""
        if directory is not None and not (directory / "meta.json").is_file():
            raise FileNotFoundError(f"{directory.name} has no meta.json")
        self._schema = _build_schema()
        path = None if directory is None else str(directory)
        self._index = tantivy.Index(self._schema, path=path, reuse=True)
        self._index.config_reader(reload_policy="Manual")
        self._index.reload()
        self._searcher = self._index.searcher()

    @classmethod
    @_raise_os_errors()
    def create(cls, directory: Path) -> KeywordIndex:
        """Open the index in a directory; create it if there is none."""
        directory.mkdir(parents=True, exist_ok=True)
        tantivy.Index(_build_schema(), path=str(directory), reuse=True)
        return cls(directory)

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    @_raise_os_errors()
    def apply(
        self,
        removed: Iterable[range],
        added: Iterable[Chunk],
        codes: Mapping[str, object] | None = None,
    ) -> None:
        """Apply removals, then additions, in one commit.

        `codes` are the languages of the documents, by their ids.
        """
        codes = codes or {}
        writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        for keys in removed:
            writer.delete_documents_by_query(self._match_keys(keys))
        for chunk in added:
            text = chunk.contextual_text
            language = choose_language(text, codes.get(chunk.document_id))
            terms = extract_terms(text, language)
            document = tantivy.Document()
            document.add_text("language", language)
            document.add_text("terms", " ".join(terms))
            document.add_unsigned("key", chunk.key)
            document.add_unsigned("length", len(terms))
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Return the languages of the chunks, the most frequent first."""
        counts = {one: self._searcher.doc_freq("language", one) for one in FUNCTION_WORDS}
        return tuple(sorted(filter(counts.get, counts), key=lambda one: -counts[one]))

    def search(
        self, text: str, *, limit: int, k1: float, b: float, scope: SearchScope | None
    ) -> list[ScoredKey]:
        """Return the best chunks by BM25, best first, equal scores by ascending key."""
        terms = extract_query_terms(text, self.languages)
        if not terms or not len(self) or not limit:
            return []
        is_builtin = (k1, b) == (_TANTIVY_K1, _TANTIVY_B)
        depth = limit if is_builtin else max(limit, _RESCORE_DEPTH)
        hits = self._search(terms, depth, scope)
        if is_builtin:
            scored = [ScoredKey(key, score) for key, score, _ in hits]
        else:
            scored = self._rescore(terms, hits, k1=k1, b=b)
        return sorted(scored, key=lambda hit: (-hit.score, hit.key))[:limit]

    def _search(self, terms: Sequence[str], depth: int, scope: SearchScope | None) -> list[_Hit]:
        any_term = Query.boolean_query(
            [(Occur.Should, Query.term_query(self._schema, "terms", term)) for term in terms]
        )
        if scope is None:
            return self._fetch(any_term, depth)
        allowed = self._match_ranges(scope.ranges)
        if allowed is not None:
            limited = [(Occur.Must, any_term), (Occur.Must, Query.const_score_query(allowed, 0.0))]
            return self._fetch(Query.boolean_query(limited), depth)
        return self._fetch_allowed(any_term, depth, scope.ranges)

    def _fetch(self, query: Query, depth: int) -> list[_Hit]:
        hits = self._searcher.search(query, limit=depth, count=False).hits
        addresses = [address for _, address in hits]
        keys = self._searcher.fast_field_values("key", addresses)
        return [
            (int(key or 0), float(score), address)
            for key, (score, address) in zip(keys, hits, strict=True)
        ]

    def _fetch_allowed(self, query: Query, depth: int, ranges: Sequence[range]) -> list[_Hit]:
        """Fetch more hits until enough of them are allowed; a large scope allows most hits."""
        fetch_depth = 4 * depth
        while True:
            hits = self._fetch(query, fetch_depth)
            allowed = [hit for hit in hits if _is_inside(hit[0], ranges)]
            if len(allowed) >= depth or len(hits) < fetch_depth:
                return allowed[:depth]
            fetch_depth *= 4

    def _match_ranges(self, ranges: Sequence[range]) -> Query | None:
        if not ranges:
            return Query.empty_query()
        if len(ranges) <= _MAX_RANGES:
            return Query.boolean_query([(Occur.Should, self._match_keys(keys)) for keys in ranges])
        if sum(map(len, ranges)) <= _MAX_KEYS:
            return Query.term_set_query(self._schema, "key", list(chain.from_iterable(ranges)))
        return None

    def _match_keys(self, keys: range) -> Query:
        return Query.range_query(
            self._schema, "key", tantivy.FieldType.Unsigned, keys.start, keys.stop - 1
        )

    def _rescore(
        self, terms: Sequence[str], hits: Sequence[_Hit], *, k1: float, b: float
    ) -> list[ScoredKey]:
        frequencies = [self._searcher.doc_freq("terms", term) for term in terms]
        stored = [self._searcher.doc(address).get_first("terms") for _, _, address in hits]
        scores = score_documents(
            terms,
            idf(frequencies, len(self)),
            [str(text or "").split(" ") for text in stored],
            average_length=self._average_length,
            k1=k1,
            b=b,
        )
        return [ScoredKey(key, score) for (key, _, _), score in zip(hits, scores, strict=True)]

    @cached_property
    def _average_length(self) -> float:
        # Computed once per commit, because every commit is read by a new object.
        request = {"mean": {"avg": {"field": "length"}}}
        reply = self._searcher.aggregate(Query.all_query(), request)
        return float(reply["mean"]["value"] or 1.0)


def _is_inside(key: int, ranges: Sequence[range]) -> bool:
    position = bisect_right(ranges, key, key=lambda keys: keys.stop)
    return position < len(ranges) and key in ranges[position]
