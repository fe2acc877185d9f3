"""Why this chunk, or why not: its way through the stages of one search, in words.

A recorded waterfall and a chunk's id in → one step per stage out. For a chunk that no search
listed, the index is asked now what it would have scored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ragstone.errors import NotFoundError
from ragstone.filters import is_in
from ragstone.protocols import Catalog, Embedder, Index, Within
from ragstone.settings import RetrieveSettings
from ragstone.types import Chunk, Query

_SEARCHES = ("retrieve.semantic", "retrieve.keyword")


@dataclass(frozen=True, slots=True)
class Step:
    """One stage's word on one chunk. `outcome` is found, kept, dropped or absent."""

    stage: str
    outcome: str
    rank: int | None = None
    score: float | None = None
    said: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


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
        steps = [self._with_score(query, chunk, step) for step in trace_chunk(waterfall, chunk.key)]
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


def trace_chunk(waterfall: Mapping[str, Any], key: int) -> list[Step]:
    """The way of one chunk through the stages, as far as it came. `waterfall` is `as_dict()`."""
    steps: list[Step] = []
    alive = True
    for entry in waterfall["stages"]:
        stage, line = entry["stage"], entry["lines"].get(str(key))
        if line is None:
            if stage in _SEARCHES:
                steps.append(Step(stage, "absent", reason=_outside(entry["cutoff"])))
            elif alive:
                steps.append(Step(stage, "absent", reason="No search listed it."))
                alive = False
            continue
        said = {name: value for name, value in line.items()
                if name not in ("rank", "score", "kept", "was")}  # fmt: skip
        if line["kept"]:
            outcome = "found" if stage in _SEARCHES else "kept"
            steps.append(Step(stage, outcome, line.get("rank"), line["score"], said))
        else:
            reason = _dropped(stage, entry["cutoff"], line)
            steps.append(Step(stage, "dropped", line.get("rank"), line["score"], said, reason))
            alive = False
    return steps


def _outside(cutoff: Mapping[str, Any]) -> str:
    if cutoff.get("listed", 0) < cutoff.get("depth", 0):
        return "It does not match at all."
    return (
        f"Not among the first {cutoff.get('depth')}; the last of them has {cutoff['last_score']}."
    )


_LEFT_OUT = {
    "refine.deduplicate": "It says nearly the same as a hit before it.",
    "refine.merge": "It stands inside the passage of a hit before it.",
    "ground.context": "The prompt's context was full.",
}


def _dropped(stage: str, cutoff: Mapping[str, Any], line: Mapping[str, Any]) -> str:
    if stage == "fuse":
        return (
            f"Rank {line['rank']} after fusion; only the first {cutoff['depth']} go on "
            f"(the last has {cutoff['last_score']})."
        )
    if stage == "refine.filter":
        return f"Its similarity is below {cutoff.get('threshold_used')}."
    if stage == "refine.select":
        return (
            f"Rank {line['was']}; {cutoff.get('chunks_out')} hits were chosen "
            f"(λ {cutoff.get('mmr_lambda')})."
        )
    return _LEFT_OUT.get(stage, "This step left it out.")
