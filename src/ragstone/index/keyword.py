"""Keyword search of one collection on tantivy, with our own analyzer in front.

Terms are made by `analyze` and handed to tantivy ready-made, so that it only counts and ranks.
Each chunk is known by its catalog key. tantivy's BM25 has k1 = 1.2 and b = 0.75 built in; for
other values its head is scored again from the stored terms, by the exact formula.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path

import tantivy
from tantivy import Occur, Query

from ragstone.index.analyze import query_terms, terms
from ragstone.protocols import Found, Within
from ragstone.types import Chunk


def idf(frequencies: Sequence[int], total: int) -> list[float]:
    """ln(1 + (N - df + 0.5) / (df + 0.5)) for each term's document frequency."""
    return [math.log(1 + (total - df + 0.5) / (df + 0.5)) for df in frequencies]


def score_documents(
    wanted: Sequence[str],
    weights: Sequence[float],
    documents: Sequence[Sequence[str]],
    *,
    average_length: float,
    k1: float,
    b: float,
) -> list[float]:
    """Σ idf · tf·(k1+1) / (tf + k1·(1 - b + b·length/average)) for every document."""
    found: list[float] = []
    for document in documents:
        counts = Counter(document)
        norm = k1 * (1 - b + b * len(document) / average_length)
        score = 0.0
        for term, weight in zip(wanted, weights, strict=True):
            tf = counts[term]
            if tf:
                score += weight * tf * (k1 + 1) / (tf + norm)
        found.append(score)
    return found


_HEAP_BYTES = 64_000_000
_TANTIVY_K1, _TANTIVY_B = 1.2, 0.75
# tantivy's first hundred hold 99.5 % of the exact first ten for other values of k1 and b.
_RESCORED = 100
# Limits by key: so few spans are each a range, so many keys are a set; beyond that the best of
# all are fetched and those that are not allowed dropped.
_MOST_SPANS = 16
_MOST_KEYS = 20_000


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("terms", stored=True, tokenizer_name="whitespace", index_option="freq")
    builder.add_unsigned_field("key", indexed=True, fast=True)
    builder.add_unsigned_field("length", fast=True)
    return builder.build()


class KeywordIndex:
    """The terms of a collection's chunks in one directory, as of the last commit."""

    def __init__(self, directory: Path | None) -> None:
        """Open what is there, which must be; None is an empty one in memory."""
        if directory is not None and not (directory / "meta.json").is_file():
            raise FileNotFoundError(f"{directory.name} has no meta.json")
        self._schema = _schema()
        path = None if directory is None else str(directory)
        self._index = tantivy.Index(self._schema, path=path, reuse=True)
        self._index.config_reader(reload_policy="Manual")
        self._index.reload()
        self._searcher = self._index.searcher()

    @classmethod
    def create(cls, directory: Path) -> KeywordIndex:
        """The one in a directory, made first if there is none."""
        directory.mkdir(parents=True, exist_ok=True)
        tantivy.Index(_schema(), path=str(directory), reuse=True)
        return cls(directory)

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def apply(self, removed: Iterable[range], added: Iterable[Chunk]) -> None:
        """Take in removals, then additions, in one commit."""
        writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        for keys in removed:
            writer.delete_documents_by_query(self._keys(keys))
        for chunk in added:
            found = terms(chunk.contextual_text)
            document = tantivy.Document()
            document.add_text("terms", " ".join(found))
            document.add_unsigned("key", chunk.key)
            document.add_unsigned("length", len(found))
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()

    def search(
        self, text: str, *, limit: int, k1: float, b: float, within: Within | None
    ) -> list[Found]:
        """The best chunks by BM25, best first, equal scores in the order of their keys."""
        wanted = query_terms(text)
        if not wanted or not len(self) or not limit:
            return []
        builtin = (k1, b) == (_TANTIVY_K1, _TANTIVY_B)
        depth = limit if builtin else max(limit, _RESCORED)
        hits = self._hits(wanted, depth, within)
        if builtin:
            found = [Found(key, score) for key, score, _ in hits]
        else:
            found = self._rescored(wanted, hits, k1=k1, b=b)
        return sorted(found, key=lambda hit: (-hit.score, hit.key))[:limit]

    def _hits(
        self, wanted: Sequence[str], depth: int, within: Within | None
    ) -> list[tuple[int, float, tantivy.DocAddress]]:
        any_term = Query.boolean_query(
            [(Occur.Should, Query.term_query(self._schema, "terms", term)) for term in wanted]
        )
        if within is None:
            return self._fetch(any_term, depth)
        allowed = self._allowed(within.ranges)
        if allowed is not None:
            limited = [(Occur.Must, any_term), (Occur.Must, Query.const_score_query(allowed, 0.0))]
            return self._fetch(Query.boolean_query(limited), depth)
        return self._fetch_allowed(any_term, depth, within.ranges)

    def _fetch(self, query: Query, depth: int) -> list[tuple[int, float, tantivy.DocAddress]]:
        hits = self._searcher.search(query, limit=depth, count=False).hits
        addresses = [address for _, address in hits]
        keys = self._searcher.fast_field_values("key", addresses)
        return [
            (int(key or 0), float(score), address)
            for key, (score, address) in zip(keys, hits, strict=True)
        ]

    def _fetch_allowed(
        self, query: Query, depth: int, ranges: Sequence[range]
    ) -> list[tuple[int, float, tantivy.DocAddress]]:
        """Dig until enough of what is found is allowed; a broad limit leaves most of it."""
        dug = 4 * depth
        while True:
            hits = self._fetch(query, dug)
            kept = [hit for hit in hits if _inside(hit[0], ranges)]
            if len(kept) >= depth or len(hits) < dug:
                return kept[:depth]
            dug *= 4

    def _allowed(self, ranges: Sequence[range]) -> Query | None:
        if not ranges:
            return Query.empty_query()
        if len(ranges) <= _MOST_SPANS:
            return Query.boolean_query([(Occur.Should, self._keys(keys)) for keys in ranges])
        if sum(map(len, ranges)) <= _MOST_KEYS:
            return Query.term_set_query(self._schema, "key", list(chain.from_iterable(ranges)))
        return None

    def _keys(self, keys: range) -> Query:
        return Query.range_query(
            self._schema, "key", tantivy.FieldType.Unsigned, keys.start, keys.stop - 1
        )

    def _rescored(
        self, wanted: Sequence[str], hits: Sequence[tuple[int, float, tantivy.DocAddress]], *,
        k1: float, b: float,
    ) -> list[Found]:  # fmt: skip
        frequencies = [self._searcher.doc_freq("terms", term) for term in wanted]
        stored = [self._searcher.doc(address).get_first("terms") for _, _, address in hits]
        scores = score_documents(
            wanted,
            idf(frequencies, len(self)),
            [str(text or "").split(" ") for text in stored],
            average_length=self._average_length,
            k1=k1,
            b=b,
        )
        return [Found(key, score) for (key, _, _), score in zip(hits, scores, strict=True)]

    @cached_property
    def _average_length(self) -> float:
        # Once per commit, since every commit is seen through a new object.
        request = {"mean": {"avg": {"field": "length"}}}
        reply = self._searcher.aggregate(Query.all_query(), request)
        return float(reply["mean"]["value"] or 1.0)


def _inside(key: int, ranges: Sequence[range]) -> bool:
    low, high = 0, len(ranges)
    while low < high:
        middle = (low + high) // 2
        if ranges[middle].stop <= key:
            low = middle + 1
        else:
            high = middle
    return low < len(ranges) and key in ranges[low]
