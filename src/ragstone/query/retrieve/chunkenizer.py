"""Retrieve hits from an external service instead of the own index.

`POST {url}/search` with `{"query", "top_k"}`. An unreachable, slow, empty or malformed reply gives
no hits, a warning in the log and a note in the trace; the answer goes on without context. Page,
offset and headings are taken from a result's metadata, where another Ragstone puts them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, TypeAlias

import httpx
from pydantic import AfterValidator, BaseModel, ConfigDict, FiniteFloat, ValidationError

from ragstone.errors import SettingsError
from ragstone.plugins import PartContext
from ragstone.providers.http import Endpoint
from ragstone.providers.retry import Service, StatusError
from ragstone.text import remove_unstorable
from ragstone.trace import QueryRun
from ragstone.types import Chunk, Hit, Query, RetrievedHits

log = logging.getLogger(__name__)

_MAX_CHARS = 20_000_000


_Text: TypeAlias = Annotated[str, AfterValidator(remove_unstorable)]


class ServiceHit(BaseModel):
    """Hold one result; further fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    score: FiniteFloat
    document_id: _Text
    chunk_text: _Text
    document_name: _Text = ""
    chunk_index: int = 0
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ChunkenizerRetriever:
    """Search with the service at `url`."""

    is_external: ClassVar[bool] = True
    url: str
    timeout_s: float
    api_key: str = field(default="", repr=False)
    _endpoint: Endpoint = field(init=False, repr=False)

    def __post_init__(self) -> None:
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        endpoint = Endpoint(Service("Chunkenizer"), self.url, headers)
        object.__setattr__(self, "_endpoint", endpoint)
        if not self.url.startswith(("http://", "https://")):
            raise SettingsError(
                f"Invalid CHUNKENIZER_API_URL '{self.url}'. It must start with http:// or https://.",
                hint="Example: CHUNKENIZER_API_URL=http://host:port.",
            )

    async def retrieve(self, query: Query, run: QueryRun) -> RetrievedHits:
        with run.span("retrieve.chunkenizer") as span:
            try:
                async with asyncio.timeout(self.timeout_s):
                    reply = await self._post(query.text, query.top_k)
                found = parse_results(reply)
            except (httpx.HTTPError, StatusError, ValueError, TimeoutError) as error:
                span.error = f"{type(error).__name__}: {error}"
                span.note(
                    f"The Chunkenizer gave no usable reply ({type(error).__name__}); "
                    "the answer goes on without context."
                )
                run.degrade("without_context")
                log.warning("chunkenizer failed", extra={"error": type(error).__name__})
                found = []
            span.count(chunks_retrieved=len(found))
            return RetrievedHits(tuple(_build_hits(found)), chunks_found=len(found))

    async def _post(self, text: str, top_k: int) -> Any:
        body = {"query": text, "top_k": top_k}
        lines: list[str] = []
        size = 0
        async with aclosing(self._endpoint.stream_lines("/search", body)) as reply:
            async for line in reply:
                size += len(line)
                if size > _MAX_CHARS:
                    raise ValueError("the reply is too long")
                lines.append(line)
        return json.loads("\n".join(lines))

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._endpoint.aclose()


def parse_results(reply: Any) -> list[ServiceHit]:
    """Return the results of a reply, a bare list or one under `results`.

    A result that cannot be read is left out; a ValueError if none can.
    """
    rows = reply.get("results") if isinstance(reply, dict) else reply
    if not isinstance(rows, list):
        raise ValueError("the reply holds no list of results")  # noqa: TRY004  it is bad data
    found: list[ServiceHit] = []
    for row in rows:
        try:
            found.append(ServiceHit.model_validate(row))
        except ValidationError:
            continue
    if rows and not found:
        raise ValueError("no result has the expected shape")
    return found


def _build_hits(found: Iterable[ServiceHit]) -> Iterable[Hit]:
    ranked = sorted(found, key=lambda one: (-one.score, one.document_id, one.chunk_index))
    for rank, one in enumerate(ranked, start=1):
        extra = one.metadata or {}
        page, start, headings = extra.get("page"), extra.get("start"), extra.get("heading_path")
        start = start if isinstance(start, int) and start >= 0 else 0
        chunk = Chunk(
            document_id=one.document_id,
            index=one.chunk_index,
            text=one.chunk_text,
            start=start,
            end=start + len(one.chunk_text),
            document_name=one.document_name or one.document_id,
            page=page if isinstance(page, int) else None,
            heading_path=tuple(map(str, headings)) if isinstance(headings, list) else (),
            key=-rank,  # unique, and never a key of the own index
        )
        yield Hit(chunk, one.score, "semantic")


def build(context: PartContext) -> ChunkenizerRetriever:
    options = context.settings.retrieve
    return ChunkenizerRetriever(
        options.chunkenizer_url,
        options.chunkenizer_timeout_s,
        options.chunkenizer_api_key.get_secret_value(),
    )
