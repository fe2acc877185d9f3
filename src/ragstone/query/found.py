"""Evidence that was found before: who asks a model the same again searches only once.

Answers of a model may differ from time to time, what the search finds does not, as long as the
collection stays as it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from ragstone.packed import PackedObject
from ragstone.query.check.evidence import Evidence
from ragstone.query.kept import Kept, limits_of, settled_version
from ragstone.query.waiting import asked
from ragstone.stages import Catalog, Index
from ragstone.trace import PastWaterfall, Trace
from ragstone.types import Query


@dataclass(frozen=True, slots=True)
class _Found:
    evidence: Evidence
    waterfall: PackedObject
    chunks_in: int
    """How many chunks the searches listed, as the stage `fuse` counts them."""


class FoundBefore:
    """The evidence of the `most` recent questions, at most `most_bytes` of it."""

    def __init__(self, catalog: Catalog, index: Index, *, most: int, most_bytes: int) -> None:
        self._catalog = catalog
        self._index = index
        self._found: Kept[_Found] = Kept(most=most, most_bytes=most_bytes)

    async def evidence(
        self, query: Query, trace: Trace, search: Callable[[Query, Trace], Awaitable[Evidence]]
    ) -> Evidence:
        """What was found for a query before, or what a `search` finds now."""
        version = await asked(
            self._catalog, settled_version, self._catalog, self._index, query.collection
        )
        if version is None or trace.degraded:
            return await search(query, trace)
        key = limits_of(replace(query, temperature=0.0, model="", history=()))
        known = self._found.find(key, version)
        if known is not None:
            with trace.span("repeat.evidence") as span:
                trace.waterfall = PastWaterfall(known.waterfall)
                span.count(
                    chunks_in=known.chunks_in, chunks_used=len(known.evidence.sources),
                    grade=known.evidence.grade,
                )  # fmt: skip
            return replace(known.evidence, query=query)
        evidence = await search(query, trace)
        if not trace.degraded:
            listed = (span.counts.get("chunks_in", 0) for span in trace.spans
                      if span.stage == "fuse")  # fmt: skip
            packed = PackedObject.of(trace.waterfall.as_dict())
            self._found.keep(key, version, _Found(evidence, packed, next(listed, 0)))
        return evidence
