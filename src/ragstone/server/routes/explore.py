"""For those who look closer: the candidates of a search, two presets side by side, and the
chunks that a past query's stages saw."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from ragstone.engine import Engine
from ragstone.server.auth import CallerDep
from ragstone.server.limits import answering
from ragstone.server.routes.query import engine_of, readable_query
from ragstone.server.schemas import Problem, QueryReply
from ragstone.server.sse import while_here
from ragstone.settings import PRESETS, Setting, Settings, preset_values
from ragstone.types import DEFAULT_COLLECTION, Answer, Chunk, Hit

# What a person set for this server holds under every preset.
_FIRMLY_SET = ("flag", "environment")


class Variants:
    """Keeps the engines of one server's other settings; each is built when first asked for."""

    def __init__(self, engine: Engine, listing: Sequence[Setting] = ()) -> None:
        self._engine = engine
        self._firm = frozenset(one.path for one in listing if one.origin.startswith(_FIRMLY_SET))
        self._built: dict[tuple[tuple[str, Any], ...], Engine] = {}

    def of_preset(self, preset: str) -> Engine:
        """The engine as that preset would have it."""
        if preset == self._engine.settings.preset:
            return self._engine
        return self._with(self._changes(preset))

    def unrefined(self) -> Engine:
        """The engine with nothing filtered, reranked or deduplicated: every candidate comes out."""
        return self._with(
            {
                "refine.min_similarity": 0.0,
                "refine.reranker_enabled": False,
                "refine.duplicate_similarity": 1.0,
                "refine.mmr_lambda": 1.0,
            }
        )

    def _changes(self, preset: str) -> dict[str, Any]:
        """What the preset sets, and what only other presets set put back to the defaults."""
        defaults = Settings()
        touched = {path for name in PRESETS for path in preset_values(name)}
        wanted = {path: _value(defaults, path) for path in touched} | preset_values(preset)
        return {path: value for path, value in wanted.items() if path not in self._firm} | {
            "preset": preset
        }

    def _with(self, changes: Mapping[str, Any]) -> Engine:
        key = tuple(sorted(changes.items()))
        if key not in self._built:
            engine = self._engine
            self._built[key] = Engine(
                _changed(engine.settings, changes),
                embedder=engine.embedder,
                catalog=engine.catalog,
                index=engine.index,
                provider=engine.provider,
                moderator=engine.moderator,
            )
        return self._built[key]


def _value(settings: Settings, path: str) -> Any:
    value: Any = settings
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _changed(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Settings are frozen; a copy with other values in some sections."""
    top: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {}
    for path, value in changes.items():
        section, _, name = path.rpartition(".")
        (sections.setdefault(section, {}) if section else top)[name] = value
    for section, values in sections.items():
        top[section] = getattr(settings, section).model_copy(update=values)
    return settings.model_copy(update=top)


router = APIRouter(prefix="/v1", tags=["explore"])

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "Nothing has that id."},
    422: {"model": Problem, "description": "The request cannot be used."},
}
_PRESET = Literal["minimal", "classic", "balanced", "careful"]


class Passage(BaseModel):
    """A chunk as a person wants to see it."""

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
        return cls(
            chunk_id=chunk.id,
            document_id=chunk.document_id,
            document_name=chunk.document_name,
            page=chunk.page,
            heading_path=list(chunk.heading_path),
            start=chunk.start,
            end=chunk.end,
            text=chunk.text,
        )


class Candidate(Passage):
    score: float
    scores: dict[str, Any]

    @classmethod
    def of_hit(cls, hit: Hit) -> Self:
        passage = Passage.of(hit.chunk).model_dump()
        return cls(**passage, score=hit.score, scores=dataclasses.asdict(hit.scores))


class CandidatesReply(BaseModel):
    """Every candidate with its scores, and what the filter is set to."""

    query: str
    min_similarity: float
    min_chunks: int
    candidates: list[Candidate]


class CompareRequest(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"query": "When does the dome open?", "presets": ["minimal", "balanced"]}]
        },
    )

    query: str
    presets: tuple[_PRESET, _PRESET]
    collection: str = DEFAULT_COLLECTION


class PresetAnswer(BaseModel):
    preset: str
    settings: dict[str, Any] = Field(description="What this side sets and the other does not.")
    answer: QueryReply
    passages: list[Passage] = Field(description="Every chunk that one of its stages saw.")


class CompareReply(BaseModel):
    sides: list[PresetAnswer]


def variants_of(request: Request) -> Variants:
    state = request.app.state
    if not hasattr(state, "variants"):
        state.variants = Variants(engine_of(request), getattr(state, "listing", ()))
    variants: Variants = state.variants
    return variants


@router.get("/candidates", responses=_PROBLEMS)
async def candidates(
    request: Request,
    caller: CallerDep,
    query: Annotated[str, Query(description="The question, searched for as it stands.")],
    collection: str = DEFAULT_COLLECTION,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> CandidatesReply:
    """What the search finds before anything is filtered: for choosing a similarity threshold."""
    caller.require_read(collection)
    refine = engine_of(request).settings.refine
    hits = await variants_of(request).unrefined().search(query, collection=collection, top_k=limit)
    return CandidatesReply(
        query=query,
        min_similarity=refine.min_similarity,
        min_chunks=refine.min_chunks,
        candidates=[Candidate.of_hit(hit) for hit in hits],
    )


@router.post("/compare", responses=_PROBLEMS, dependencies=[Depends(answering)])
async def compare(body: CompareRequest, request: Request, caller: CallerDep) -> CompareReply:
    """One question under two presets, answered side by side."""
    caller.require_read(body.collection)
    variants = variants_of(request)
    engines = [variants.of_preset(preset) for preset in body.presets]
    asked = (
        engine.ask(
            body.query,
            collection=body.collection,
            request_id=request.state.request_id,
            owner=caller.owner,
        )
        for engine in engines
    )
    answers = await while_here(request, _all(asked))
    flat = [_flat(engine.settings.model_dump(mode="json")) for engine in engines]
    sides = []
    for number, (preset, answer) in enumerate(zip(body.presets, answers, strict=True)):
        other = flat[1 - number]
        own = {path: value for path, value in flat[number].items() if other[path] != value}
        sides.append(
            PresetAnswer(
                preset=preset,
                settings=own,
                answer=QueryReply.of(answer, with_trace=True),
                passages=_passages(request, answer.trace["waterfall"]),
            )
        )
    return CompareReply(sides=sides)


@router.get("/queries/{query_id}/chunks", responses=_PROBLEMS)
async def chunks_of_query(query_id: str, request: Request, caller: CallerDep) -> list[Passage]:
    """Every chunk that a stage of a past query saw and that is still there."""
    entry = readable_query(engine_of(request), caller, query_id)
    return _passages(request, entry["trace"]["waterfall"])


async def _all(asked: Iterable[Awaitable[Answer]]) -> list[Answer]:
    return await asyncio.gather(*asked)


def _passages(request: Request, waterfall: dict[str, Any]) -> list[Passage]:
    keys = (int(key) for key in waterfall.get("ids", {}))
    return [Passage.of(chunk) for chunk in engine_of(request).catalog.chunks(keys).values()]


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
