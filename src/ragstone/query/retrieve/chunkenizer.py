"""An external retrieval service in the place of our own search: a question → its hits.

`POST {url}/search` with `{"query", "top_k"}`. Unreachable, slow, empty or malformed answers give
no hits, a warning in the log and a note in the trace; the chat goes on without context. A page, an
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
from ragstone.text import storable
from ragstone.trace import QueryRun
from ragstone.types import Chunk, Hit, Query, Retrieved

log = logging.getLogger(__name__)

_MOST_BYTES = 20_000_000


_Text: TypeAlias = Annotated[str, AfterValidator(storable)]


class ServiceHit(BaseModel):
    """One result; what a service adds beyond this is left alone."""

    model_config = ConfigDict(extra="ignore")

    score: FiniteFloat
    document_id: _Text
    chunk_text: _Text
    document_name: _Text = ""
    chunk_index: int = 0
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ChunkenizerRetriever:
    """Asks the service at `url`."""

    url: str
    timeout_s: float
    api_key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise SettingsError(
                f"The Chunkenizer's address '{self.url}' is no web address.",
                hint="Write CHUNKENIZER_API_URL=http://host:port.",
            )

    async def retrieve(self, query: Query, run: QueryRun) -> Retrieved:
        with run.span("retrieve.chunkenizer") as span:
            try:
                reply = await asyncio.wait_for(
                    asyncio.to_thread(self._asked, query.text, query.top_k), self.timeout_s
                )
                found = read_results(reply)
            except (OSError, ValueError, TimeoutError) as error:
                # urllib's failures are OSErrors, bad JSON and bad shapes are ValueErrors.
                span.error = f"{type(error).__name__}: {error}"
                span.note(
                    f"The Chunkenizer gave nothing usable ({type(error).__name__}); "
                    "the answer goes on without context."
                )
                run.degrade("without_context")
                log.warning("chunkenizer failed", extra={"error": type(error).__name__})
                found = []
            span.count(chunks_retrieved=len(found))
            return Retrieved(tuple(_hits(found)), found=len(found))

    def _key(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    def _asked(self, text: str, top_k: int) -> Any:
        request = urllib.request.Request(  # noqa: S310  the scheme was checked above
            f"{self.url.rstrip('/')}/search",
            data=json.dumps({"query": text, "top_k": top_k}).encode(),
            headers={"Content-Type": "application/json", **self._key()},
        )
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as reply:  # noqa: S310
                return json.loads(reply.read(_MOST_BYTES))
        except urllib.error.HTTPError as error:
            error.close()  # it holds the connection
            raise


def read_results(reply: Any) -> list[ServiceHit]:
    """The results of a reply, bare list or not. One that cannot be read is left out; if none can,
    the reply is no reply."""
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


def _hits(found: Iterable[ServiceHit]) -> Iterable[Hit]:
    ranked = sorted(found, key=lambda one: (-one.score, one.document_id, one.chunk_index))
    for rank, one in enumerate(ranked, start=1):
        said = one.metadata or {}
        page, start, headings = said.get("page"), said.get("start"), said.get("heading_path")
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
            key=-rank,  # no key of our own index, and different for each
        )
        yield Hit(chunk, one.score, "semantic")


def build(context: PartContext) -> ChunkenizerRetriever:
    options = context.settings.retrieve
    return ChunkenizerRetriever(
        options.chunkenizer_url,
        options.chunkenizer_timeout_s,
        options.chunkenizer_api_key.get_secret_value(),
    )
