"""The Model Context Protocol: `search`, `fetch` and `ask` for assistants, over stdio and HTTP.

Each tool replies with exactly one text that holds JSON, the shape that assistants expect:
search → {"results": [{"id", "title", "url"}]}, fetch → {"id", "title", "text", "url", "metadata"}.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from ragstone import __version__
from ragstone.catalog.documents import no_document
from ragstone.engine import Engine
from ragstone.errors import ForbiddenError, NotFoundError, RagstoneError
from ragstone.query.explain import find_chunk
from ragstone.server.auth import Caller, admitted_request
from ragstone.server.errors import ClientGoneError, explained
from ragstone.server.limits import Admission
from ragstone.server.sse import base_url, hung_up, place_url, unless
from ragstone.types import DEFAULT_COLLECTION, Answer, Chunk

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_INSTRUCTIONS = (
    "Search the documents with `search`, read what you found with `fetch`, or let Ragstone answer "
    "with citations that were checked, with `ask`."
)


@dataclass(frozen=True, slots=True)
class Visit:
    """Who calls a tool, what they look in, and where their sources can be opened."""

    caller: Caller
    collection: str
    base_url: str
    admission: Admission | None = None
    """Where only so many answers are written at once."""
    gone: asyncio.Event | None = None
    """Set when whoever called has hung up."""

    async def waited_for(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """The answer, which is no longer written once nobody waits for it."""
        return await (unless(self.gone.wait(), work) if self.gone else work)

    def place(self) -> AbstractAsyncContextManager[None]:
        return self.admission.place() if self.admission else nullcontext()


def collection_for(engine: Engine, caller: Caller, wanted: str | None) -> str:
    """The collection asked for, or the first one that the caller may read."""
    if wanted:
        caller.require_read(wanted)
        return wanted
    if caller.may_read(DEFAULT_COLLECTION):
        return DEFAULT_COLLECTION
    readable = [name for name in engine.catalog.collections() if caller.may_read(name)]
    if not readable:
        raise ForbiddenError("This key may not read any collection.", hint="Ask for another one.")
    return readable[0]


def build(engine: Engine, visit: Callable[[Context[Any, Any]], Visit]) -> MCPServer[Any]:
    """A server with the three tools; `visit` says who is calling."""
    server: MCPServer[Any] = MCPServer(
        "ragstone", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING"
    )

    @server.tool(structured_output=False)
    async def search(query: str, ctx: Context[Any, Any]) -> str:
        """Find the passages of the documents that fit a question or a few words."""
        with _told():
            now = visit(ctx)
            hits = await engine.search(query, collection=now.collection)
            return _json({"results": [_result(hit.chunk, now.base_url) for hit in hits]})

    @server.tool(structured_output=False)
    async def fetch(id: str, ctx: Context[Any, Any]) -> str:  # noqa: A002  assistants say `id`
        """Read what `search` found: a passage by its id, or a whole document by its own."""
        with _told():
            return _json(_fetched(engine, visit(ctx), id))

    @server.tool(structured_output=False)
    async def ask(question: str, ctx: Context[Any, Any]) -> str:
        """Answer a question from the documents, with citations that were checked."""
        with _told():
            now = visit(ctx)
            async with now.place():
                answer = await now.waited_for(
                    engine.ask(question, collection=now.collection, owner=now.caller.owner)
                )
            return _json(_answered(answer, now.base_url))

    return server


@contextmanager
def _told() -> Iterator[None]:
    """A failure that we understand is told; the SDK keeps the text of all others to itself."""
    try:
        yield
    except RagstoneError as error:
        raise ToolError(str(error)) from error
    except ClientGoneError as error:
        raise ToolError("Nobody waits for this any more.") from error


def _answered(answer: Answer, base: str) -> dict[str, Any]:
    return {
        "answer": answer.text,
        "status": answer.status,
        "confidence": answer.confidence,
        "is_grounded": answer.is_grounded,
        "citations": [
            {
                "id": citation.chunk_id,
                "title": citation.document_name,
                "url": place_url(base, citation.document_id, citation.start, citation.end),
                "snippet": citation.snippet,
                "verdict": citation.verdict,
            }
            for citation in answer.citations
        ],
    }


def _fetched(engine: Engine, now: Visit, wanted: str) -> dict[str, Any]:
    document_id, colon, _ = wanted.rpartition(":")
    try:
        document = now.caller.readable_document(engine, document_id if colon else wanted)
    except NotFoundError:
        raise no_document(wanted) from None
    about: dict[str, Any] = {
        "document_id": document.id, "collection": document.collection, **document.metadata,
    }  # fmt: skip
    if not colon:
        url = place_url(now.base_url, document.id, 0, len(document.text))
        return _item(document.id, document.name, document.text, url, about)
    chunk = find_chunk(engine.catalog, document.collection, wanted)
    if chunk.page is not None:
        about["page"] = chunk.page
    if chunk.heading_path:
        about["section"] = " > ".join(chunk.heading_path)
    about |= {"start": chunk.start, "end": chunk.end}
    url = place_url(now.base_url, document.id, chunk.start, chunk.end)
    return _item(wanted, document.name, chunk.text, url, about)


def _item(id_: str, title: str, text: str, url: str, metadata: dict[str, Any]) -> dict[str, Any]:
    return {"id": id_, "title": title, "text": text, "url": url, "metadata": metadata}


def _result(chunk: Chunk, base: str) -> dict[str, str]:
    title = " › ".join([chunk.document_name, *chunk.heading_path[-1:]])
    url = place_url(base, chunk.document_id, chunk.start, chunk.end)
    return {"id": chunk.id, "title": title, "url": url}


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


async def run_stdio(engine: Engine, admit: Callable[[], Caller], collection: str | None) -> None:
    """Serve one assistant that started this process. `admit` says at each call who it is: a key
    may expire or be revoked while the assistant is there."""
    host = engine.settings.server
    base = host.public_url.rstrip("/") or f"http://{host.host}:{host.port}"

    def visit(_: object = None) -> Visit:
        caller = admit()
        return Visit(caller, collection_for(engine, caller, collection), base)

    visit()  # refused now rather than at the first call
    async with engine:
        await build(engine, visit).run_stdio_async()


class HttpDoor:
    """`/mcp`: streamable HTTP, each request on its own, so that any worker may take it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._server = build(engine, self._visit)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        # The names that may be asked for are checked in front of all doors.
        trusting = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self._server.streamable_http_app(
            stateless_http=True, json_response=True, transport_security=trusting
        )
        async with self.manager.run():
            yield

    @property
    def manager(self) -> StreamableHTTPSessionManager:
        return self._server.session_manager

    def _visit(self, ctx: Context[Any, Any]) -> Visit:
        request = ctx.request_context.request
        assert isinstance(request, Request)
        caller: Caller = request.scope["state"]["caller"]
        wanted = request.query_params.get("collection")
        collection = collection_for(self._engine, caller, wanted)
        gone: asyncio.Event = request.scope["state"]["gone"]
        return Visit(caller, collection, base_url(request), request.app.state.admission, gone)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            await admitted_request(request)
        except RagstoneError as error:
            await explained(request, error)(scope, receive, send)
            return
        # The SDK reads the body and then never looks whether anybody is still there.
        body = await request.body()
        gone = scope["state"]["gone"] = asyncio.Event()
        watching = asyncio.create_task(_watch(receive, gone))
        try:
            await self.manager.handle_request(scope, _again(body, gone), send)
        finally:
            watching.cancel()


async def _watch(receive: Receive, gone: asyncio.Event) -> None:
    await hung_up(receive)
    gone.set()


def _again(body: bytes, gone: asyncio.Event) -> Receive:
    """A body that was read, for somebody who reads it once more."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    return receive
