"""Explain why a chunk is, or is not, among the hits of a search or the sources of an answer.

recorded waterfall and chunk id → one step per stage, with a reason. For a chunk that no search
listed, the index is asked now for its score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragstone.errors import NotFoundError
from ragstone.filters import SearchScope, match_any
from ragstone.protocols import Catalog, Embedder, Index
from ragstone.settings import RetrieveSettings
from ragstone.types import Chunk, Query

_SEARCHES = ("retrieve.semantic", "retrieve.keyword")


@dataclass(frozen=True, slots=True)
class Step:
    """Hold what one stage did with a chunk. `outcome` is found, kept, dropped or absent."""

    stage: str
    outcome: str
    rank: int | None = None
    score: float | None = None
    said: Mapping[str, Any] = field(default_factory=dict)
    """Further figures of the stage; the name is part of the HTTP reply."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Hold the steps of one chunk. `verdict` sums them up in a sentence."""

    chunk: Chunk
    steps: tuple[Step, ...]
    verdict: str


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explain the searches of one engine."""

    catalog: Catalog
    index: Index
    embedder: Embedder
    options: RetrieveSettings

    def explain(self, query: Query, waterfall: Mapping[str, Any], chunk_id: str) -> Explanation:
        chunk = find_chunk(self.catalog, query.collection, chunk_id)
        steps = [self._add_score(query, chunk, step) for step in trace_chunk(waterfall, chunk.key)]
        return Explanation(chunk, tuple(steps), self._sum_up(query, chunk, steps))

    def _add_score(self, query: Query, chunk: Chunk, step: Step) -> Step:
        """Add the score that a search would have given to a chunk that it did not list."""
        if step.outcome != "absent" or not step.stage.startswith("retrieve."):
            return step
        if step.stage == "retrieve.semantic":
            vector = self.embedder.embed([query.text])[0]
            score = float((self.index.vectors(query.collection, [chunk.key]) @ vector)[0])
            return replace(step, score=round(score, 4))
        alone = SearchScope(
            match_any("document_id", [chunk.document_id]), (range(chunk.key, chunk.key + 1),)
        )
        found = self.index.search_keyword(
            query.collection,
            query.text,
            limit=1,
            k1=self.options.bm25_k1,
            b=self.options.bm25_b,
            scope=alone,
        )
        if not found:
            return replace(step, score=0.0, reason="It shares no term with the question.")
        return replace(step, score=round(found[0].score, 4))

    def _sum_up(self, query: Query, chunk: Chunk, steps: list[Step]) -> str:
        within = self.catalog.resolve_scope(query)
        if within is not None and not any(chunk.key in keys for keys in within.ranges):
            return "It does not match the filters of the query."
        lost = next((step for step in steps if step.outcome == "dropped"), None)
        if lost is not None:
            return f"Dropped at {lost.stage}: {lost.reason}"
        last = steps[-1] if steps else None
        if last is None or last.outcome == "absent":
            return last.reason if last and last.reason else "No search listed it."
        if last.stage == "ground.context" and last.rank:
            return f"Read for the answer, as source {last.rank}."
        return f"Returned, rank {last.rank}." if last.rank else "Returned."


def find_chunk(catalog: Catalog, collection: str, chunk_id: str) -> Chunk:
    """Return the chunk with an id DOCUMENT:INDEX, if it is in that collection."""
    document_id, _, index = chunk_id.rpartition(":")
    query = Query(id="", text="", collection=collection, document_ids=(document_id,))
    within = catalog.resolve_scope(query)
    keys = [key for keys in (within.ranges if within else ()) for key in keys]
    for chunk in catalog.chunks(keys).values():
        if chunk.document_id == document_id and str(chunk.index) == index:
            return chunk
    raise NotFoundError(
        f"Chunk '{chunk_id}' not found in the collection '{collection}'.",
        hint="A chunk's id is DOCUMENT:INDEX, as `ragstone search` prints it.",
    )


def trace_chunk(waterfall: Mapping[str, Any], key: int) -> list[Step]:
    """Return the steps of one chunk through the stages. `waterfall` is `Waterfall.as_dict()`."""
    steps: list[Step] = []
    alive = True
    for entry in waterfall["stages"]:
        stage, line = entry["stage"], entry["lines"].get(str(key))
        if line is None:
            if stage in _SEARCHES:
                steps.append(Step(stage, "absent", reason=_explain_absence(entry["cutoff"])))
            elif alive:
                steps.append(Step(stage, "absent", reason=_explain_loss(steps)))
                alive = False
            continue
        details = {
            name: value
            for name, value in line.items()
            if name not in ("rank", "score", "kept", "was")
        }
        if line["kept"]:
            outcome = "found" if stage in _SEARCHES else "kept"
            steps.append(Step(stage, outcome, line.get("rank"), line["score"], details))
        else:
            reason = _explain_drop(stage, entry["cutoff"], line)
            steps.append(Step(stage, "dropped", line.get("rank"), line["score"], details, reason))
            alive = False
    return steps


def find_closest_chunk(waterfall: Mapping[str, Any], keys: Sequence[int]) -> tuple[int, int]:
    """Find the chunk among `keys` that most stages kept; return its place in them.

    Also returns how many of them a stage listed at all.
    """
    kept: dict[int, int] = {}
    for place, key in enumerate(keys):
        lines = [stage["lines"].get(str(key)) for stage in waterfall.get("stages", ())]
        if any(line is not None for line in lines):
            kept[place] = sum(bool(line and line.get("kept")) for line in lines)
    closest = max(kept, key=lambda place: kept[place], default=0)
    return closest, len(kept)


def _explain_loss(steps: Sequence[Step]) -> str:
    """Explain that a stage did not see a chunk, by the last stage that did."""
    last = next((step.stage for step in reversed(steps) if step.outcome in ("found", "kept")), None)
    return f"It was lost after {last}." if last else "No search listed it."


def _explain_absence(cutoff: Mapping[str, Any]) -> str:
    if cutoff.get("listed", 0) < cutoff.get("depth", 0):
        return "It does not match."
    return (
        f"Not among the first {cutoff.get('depth')}; the last of them has {cutoff['last_score']}."
    )


_DROP_REASONS = {
    "refine.deduplicate": "It is nearly the same as a better hit.",
    "refine.merge": "It is inside the passage of a better hit.",
    "ground.context": "The context of the prompt was full.",
    "retrieve.sequential": "The summary reads another part, or another document.",
}


def _explain_drop(stage: str, cutoff: Mapping[str, Any], line: Mapping[str, Any]) -> str:
    if stage == "fuse":
        return (
            f"Rank {line['rank']} after fusion; only the first {cutoff['depth']} go on "
            f"(the last has {cutoff['last_score']})."
        )
    if stage == "refine.top_k":
        return f"Rank {line['was']}; only the first {cutoff.get('top_k')} are used."
    if stage == "refine.filter" and cutoff.get("fallback_triggered"):
        return (
            f"Too few hits reached a similarity of {cutoff.get('threshold_used')}, and it is not "
            f"among the {cutoff.get('chunks_after_filter')} best."
        )
    if stage == "refine.filter":
        return f"Its similarity is below {cutoff.get('threshold_used')}."
    if stage == "refine.select":
        return (
            f"Rank {line['was']}; {cutoff.get('chunks_out')} hits were chosen "
            f"(λ {cutoff.get('mmr_lambda')})."
        )
    return _DROP_REASONS.get(stage, "This step dropped it.")
