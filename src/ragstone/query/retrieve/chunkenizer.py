"""Retrieve hits from an external service instead of the own index.

`POST {url}/search` with `{"query", "top_k"}`. An unreachable, slow, empty or malformed reply gives
no hits, a warning in the log and a note in the trace; the answer goes on without context. Page,
offset and headings are taken from a result's metadata, where another Ragstone puts them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, FiniteFloat, ValidationError

from ragstone.errors import SettingsError
from ragstone.plugins import PartContext
from ragstone.text import remove_unstorable
from ragstone.trace import QueryRun
from ragstone.types import Chunk, Hit, Query, RetrievedHits

log = logging.getLogger(__name__)

_MAX_BYTES = 20_000_000


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

    url: str
    timeout_s: float
    api_key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise SettingsError(
                f"Invalid CHUNKENIZER_API_URL '{self.url}'. It must start with http:// or https://.",
                hint="Example: CHUNKENIZER_API_URL=http://host:port.",
            )

    async def retrieve(self, query: Query, run: QueryRun) -> RetrievedHits:
        with run.span("retrieve.chunkenizer") as span:
            try:
                reply = await asyncio.wait_for(
                    asyncio.to_thread(self._post, query.text, query.top_k), self.timeout_s
                )
                found = parse_results(reply)
            except (OSError, ValueError, TimeoutError) as error:
                # urllib's failures are OSErrors, bad JSON and bad shapes are ValueErrors.
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

    def _post(self, text: str, top_k: int) -> Any:
        key = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        request = urllib.request.Request(  # noqa: S310  the scheme was checked above
            f"{self.url.rstrip('/')}/search",
            data=json.dumps({"query": text, "top_k": top_k}).encode(),
            headers={"Content-Type": "application/json", **key},
        )
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as reply:  # noqa: S310
                return json.loads(reply.read(_MAX_BYTES))
        except urllib.error.HTTPError as error:
            error.close()  # it holds the connection
            raise


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
