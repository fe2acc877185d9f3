"""Explore a search: its candidates before the filter, two presets side by side, and the chunks of
a past query."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field

from ragstone.engine import Engine
from ragstone.server.deps import (
    CallerDep,
    EngineDep,
    find_query,
    hold_answer_slot,
    require_collection,
    wait_for_history,
)
from ragstone.server.openapi import INVALID, NOT_FOUND
from ragstone.server.schemas import QueryReply, copy_fields, forbid_other_fields
from ragstone.server.sse import run_until_disconnect
from ragstone.settings import PRESETS, Setting, Settings, get_value, list_settings, preset_values
from ragstone.settings.change import UNREFINED, change_settings
from ragstone.threads import run_in_thread
from ragstone.types import DEFAULT_COLLECTION, Answer, Chunk, Hit

# Settings from these origins keep their value under every preset.
_FIXED_ORIGINS = ("flag", "environment")


class EngineVariants:
    """Build engines with other settings over the same data, each when it is first needed."""

    def __init__(self, engine: Engine, listing: Sequence[Setting]) -> None:
        self._engine = engine
        self._fixed = frozenset(
            one.path for one in listing if one.origin.startswith(_FIXED_ORIGINS)
        )
        self._built: dict[tuple[tuple[str, Any], ...], Engine] = {}

    def with_preset(self, preset: str) -> Engine:
        if preset == self._engine.settings.preset:
            return self._engine
        return self._build(self._list_changes(preset))

    def build_unrefined(self) -> Engine:
        """Build an engine that filters, reranks and deduplicates nothing."""
        return self._build(UNREFINED)

    def build_quoting(self) -> Engine:
        """Build an engine that quotes the documents, calls no model and keeps no history."""
        return self._build(
            {"provider.name": "extractive", "journal.query_log": "off"}, is_quoting=True
        )

    def _list_changes(self, preset: str) -> dict[str, Any]:
        """List what the preset sets, and reset what only other presets set to the defaults."""
        defaults = Settings()
        paths = {path for name in PRESETS for path in preset_values(name)}
        wanted = {path: get_value(defaults, path) for path in paths} | preset_values(preset)
        return {path: value for path, value in wanted.items() if path not in self._fixed} | {
            "preset": preset
        }

    def _build(self, changes: Mapping[str, Any], *, is_quoting: bool = False) -> Engine:
        key = tuple(sorted(changes.items()))
        if key not in self._built:
            engine = self._engine
            built = self._built[key] = Engine(
                change_settings(engine.settings, changes),
                embedder=engine.embedder,
                catalog=engine.catalog,
                index=engine.index,
                provider=None if is_quoting else engine.provider,
                moderator=engine.moderator,
            )
            built.share_derived(engine)
        return self._built[key]


router = APIRouter(prefix="/v1", tags=["explore"])

_PROBLEMS = NOT_FOUND | INVALID
_PRESET = Literal["minimal", "classic", "balanced", "careful"]


class Passage(BaseModel):
    """A chunk with its place in the document."""

    chunk_id: str
    document_id: str
    document_name: str
    page: int | None
    heading_path: list[str]
    start: int
    end: int
    text: str

    @classmethod
    def of(cls, chunk: Chunk) -> Self:
        return cls(**copy_fields(Passage, chunk), chunk_id=chunk.id)


class Candidate(Passage):
    score: float
    scores: dict[str, Any]

    @classmethod
    def of_hit(cls, hit: Hit) -> Self:
        passage = Passage.of(hit.chunk).model_dump()
        return cls(**passage, score=hit.score, scores=dataclasses.asdict(hit.scores))


class CandidatesReply(BaseModel):
    """Every candidate with its scores, and the settings of the filter."""

    query: str
    min_similarity: float
    min_chunks: int
    candidates: list[Candidate]


class CompareRequest(BaseModel):
    model_config = forbid_other_fields(
        {"query": "When does the dome open?", "presets": ["minimal", "balanced"]}
    )

    query: str
    presets: tuple[_PRESET, _PRESET]
    collection: str = DEFAULT_COLLECTION


class PresetAnswer(BaseModel):
    preset: str
    settings: dict[str, Any] = Field(description="Settings that differ from the other side.")
    answer: QueryReply
    passages: list[Passage] = Field(description="Every chunk that a stage received.")


class CompareReply(BaseModel):
    sides: list[PresetAnswer]


def variants_of(request: Request) -> EngineVariants:
    variants: EngineVariants = request.app.state.variants
    return variants


@router.get("/candidates", responses=_PROBLEMS)
async def list_candidates(
    request: Request,
    engine: EngineDep,
    caller: CallerDep,
    query: Annotated[str, Query(description="The question, searched without changes.")],
    collection: str = DEFAULT_COLLECTION,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> CandidatesReply:
    """List what the search finds before the filter, to choose a similarity threshold."""
    await require_collection(engine, caller, collection)
    refine = engine.settings.refine
    hits = (
        await variants_of(request)
        .build_unrefined()
        .search(query, collection=collection, top_k=limit)
    )
    return CandidatesReply(
        query=query,
        min_similarity=refine.min_similarity,
        min_chunks=refine.min_chunks,
        candidates=[Candidate.of_hit(hit) for hit in hits],
    )


@router.post("/compare", responses=_PROBLEMS, dependencies=[Depends(hold_answer_slot)])
async def compare_presets(
    body: CompareRequest, request: Request, engine: EngineDep, caller: CallerDep
) -> CompareReply:
    """Answer one question under two presets."""
    await require_collection(engine, caller, body.collection)
    variants = variants_of(request)
    engines = [variants.with_preset(preset) for preset in body.presets]
    work = (
        variant.ask(
            body.query,
            collection=body.collection,
            request_id=request.state.request_id,
            owner=caller.owner,
        )
        for variant in engines
    )
    answers = await run_until_disconnect(request, _gather(work))
    flat = [{s.path: s.value for s in list_settings(one.settings)} for one in engines]
    sides = []
    for number, (preset, answer) in enumerate(zip(body.presets, answers, strict=True)):
        other = flat[1 - number]
        own = {path: value for path, value in flat[number].items() if other[path] != value}
        sides.append(
            PresetAnswer(
                preset=preset,
                settings=own,
                answer=QueryReply.of(answer, with_trace=True),
                passages=_list_passages(engine, answer.trace["waterfall"]),
            )
        )
    return CompareReply(sides=sides)


@router.get(
    "/queries/{query_id}/chunks", responses=_PROBLEMS, dependencies=[Depends(wait_for_history)]
)
async def list_query_chunks(query_id: str, engine: EngineDep, caller: CallerDep) -> list[Passage]:
    """List every chunk that a stage of a past query received and that still exists."""
    entry = await run_in_thread("store", find_query, engine, caller, query_id)
    return _list_passages(engine, entry["trace"]["waterfall"])


async def _gather(work: Iterable[Awaitable[Answer]]) -> list[Answer]:
    return await asyncio.gather(*work)


def _list_passages(engine: Engine, waterfall: dict[str, Any]) -> list[Passage]:
    keys = (int(key) for key in waterfall.get("ids", {}))
    return [Passage.of(chunk) for chunk in engine.catalog.chunks(keys).values()]
