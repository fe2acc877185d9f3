"""Keyword search of one collection on tantivy, with our own analyzer in front.

Terms are made by `analyze.terms` and handed to tantivy ready-made, so that it only counts and
ranks. Each chunk is known by its catalog key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import tantivy
from tantivy import Occur

from ragstone.stages import Found, KeyRanges
from ragstone.stores import bm25
from ragstone.stores.analyze import query_terms, terms
from ragstone.types import Chunk

_HEAP_BYTES = 64_000_000
# tantivy's own constants; its top 100 hold 99.5 % of the exact top 10 for other values.
_TANTIVY_K1, _TANTIVY_B = 1.2, 0.75
_RESCORED_HEAD = 100


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("terms", stored=True, tokenizer_name="whitespace", index_option="freq")
    builder.add_unsigned_field("key", indexed=True, fast=True)
    return builder.build()


class KeywordIndex:
    """The terms of a collection's chunks in one directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._schema = _schema()
        self._index = tantivy.Index(self._schema, path=str(directory), reuse=True)
        self._index.config_reader(reload_policy="Manual")
        self.reload()

    def reload(self) -> None:
        """See what has been committed since."""
        self._index.reload()
        self._searcher = self._index.searcher()

    def apply(self, removed: Iterable[range], added: Iterable[Chunk]) -> None:
        """Take in removals and additions in one commit. Additions may be there already."""
        writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        for keys in removed:
            writer.delete_documents_by_query(self._key_query(keys))
        for chunk in added:
            document = tantivy.Document()
            document.add_text("terms", " ".join(terms(chunk.contextual_text)))
            document.add_unsigned("key", chunk.key)
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        self.reload()

    def search(
        self, text: str, *, limit: int, k1: float, b: float, within: KeyRanges
    ) -> list[Found]:
        """The best chunks by BM25, best first, equal scores in the order of their keys."""
        wanted = query_terms(text)
        if not wanted or self._searcher.num_docs == 0:
            return []
        exact = (k1, b) == (_TANTIVY_K1, _TANTIVY_B)
        depth = limit if exact else max(limit, _RESCORED_HEAD)
        hits = self._searcher.search(self._query(wanted, within), limit=depth, count=False).hits
        addresses = [address for _, address in hits]
        keys = self._searcher.fast_field_values("key", addresses)
        scores = [float(score) for score, _ in hits]
        if not exact:
            texts = [self._searcher.doc(address).get_first("terms") for address in addresses]
            scores = self._rescore(wanted, texts, k1=k1, b=b)
        found = [Found(int(key or 0), score) for key, score in zip(keys, scores, strict=True)]
        return sorted(found, key=lambda hit: (-hit.score, hit.key))[:limit]

    def _query(self, wanted: Sequence[str], within: KeyRanges) -> tantivy.Query:
        any_term = tantivy.Query.boolean_query(
            [(Occur.Should, tantivy.Query.term_query(self._schema, "terms", t)) for t in wanted]
        )
        if within is None:
            return any_term
        allowed = tantivy.Query.boolean_query(
            [(Occur.Should, self._key_query(keys)) for keys in within]
        )
        return tantivy.Query.boolean_query(
            [(Occur.Must, any_term), (Occur.Must, tantivy.Query.const_score_query(allowed, 0.0))]
        )

    def _key_query(self, keys: range) -> tantivy.Query:
        return tantivy.Query.range_query(
            self._schema, "key", tantivy.FieldType.Unsigned, keys.start, keys.stop - 1
        )

    def _rescore(
        self, wanted: Sequence[str], texts: Sequence[str | None], *, k1: float, b: float
    ) -> list[float]:
        frequencies = [self._searcher.doc_freq("terms", term) for term in wanted]
        documents = [(text or "").split(" ") for text in texts]
        # Over the head only: the collection's own average would need a second look at every chunk.
        average = sum(map(len, documents)) / max(1, len(documents))
        weights = bm25.idf(frequencies, self._searcher.num_docs)
        return bm25.scores(wanted, weights, documents, average_length=average, k1=k1, b=b)
