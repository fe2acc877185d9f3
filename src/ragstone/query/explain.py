"""Why this chunk, or why not: its way through the stages of one search, in words.

A recorded waterfall and a chunk's id in → one step per stage out. For a chunk that no search
listed, the index is asked now what it would have scored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ragstone.errors import NotFoundError
from ragstone.filters import is_in
from ragstone.protocols import Catalog, Embedder, Index, Within
from ragstone.settings import RetrieveSettings
from ragstone.trace import Step, explain
from ragstone.types import Chunk, Query


@dataclass(frozen=True, slots=True)
class Explanation:
    """The way of one chunk. `verdict` is the whole of it in a sentence."""

    chunk: Chunk
    steps: tuple[Step, ...]
    verdict: str


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explains the searches of one engine."""

    catalog: Catalog
    index: Index
    embedder: Embedder
    options: RetrieveSettings

    def explain(self, query: Query, waterfall: Mapping[str, Any], chunk_id: str) -> Explanation:
        chunk = find_chunk(self.catalog, query.collection, chunk_id)
        steps = [self._with_score(query, chunk, step) for step in explain(waterfall, chunk.key)]
        return Explanation(chunk, tuple(steps), self._verdict(query, chunk, steps))

    def _with_score(self, query: Query, chunk: Chunk, step: Step) -> Step:
        """What a search that did not list the chunk would have said of it."""
        if step.outcome != "absent" or not step.stage.startswith("retrieve."):
            return step
        if step.stage == "retrieve.semantic":
            vector = self.embedder.embed([query.text])[0]
            score = float((self.index.vectors(query.collection, [chunk.key]) @ vector)[0])
            return replace(step, score=round(score, 4))
        alone = Within(
            is_in("document_id", [chunk.document_id]), (range(chunk.key, chunk.key + 1),)
        )
        found = self.index.keyword(
            query.collection, query.text, limit=1, k1=self.options.bm25_k1, b=self.options.bm25_b,
            within=alone,
        )  # fmt: skip
        if not found:
            return replace(step, score=0.0, reason="It shares no term with the question.")
        return replace(step, score=round(found[0].score, 4))

    def _verdict(self, query: Query, chunk: Chunk, steps: list[Step]) -> str:
        within = self.catalog.keys_within(query)
        if within is not None and not any(chunk.key in keys for keys in within.ranges):
            return "It is outside what the query was limited to."
        lost = next((step for step in steps if step.outcome == "dropped"), None)
        if lost is not None:
            return f"Dropped at {lost.stage}: {lost.reason}"
        if not any(step.outcome == "found" for step in steps):
            return "No search listed it."
        last = steps[-1]
        return f"Returned, rank {last.rank}." if last.rank else "Returned."


def find_chunk(catalog: Catalog, collection: str, chunk_id: str) -> Chunk:
    """A chunk by its id, DOCUMENT:INDEX, if it is in that collection."""
    document_id, _, index = chunk_id.rpartition(":")
    asked = Query(id="", text="", collection=collection, document_ids=(document_id,))
    within = catalog.keys_within(asked)
    keys = [key for keys in (within.ranges if within else ()) for key in keys]
    for chunk in catalog.chunks(keys).values():
        if chunk.document_id == document_id and str(chunk.index) == index:
            return chunk
    raise NotFoundError(
        f"There is no chunk '{chunk_id}' in the collection '{collection}'.",
        hint="A chunk's id is DOCUMENT:INDEX, as `ragstone search` prints it.",
    )
