"""Serve assistants over the Model Context Protocol: `search`, `fetch`, `ask`, by stdio and HTTP.

Each tool replies with exactly one text that holds JSON, as assistants expect it:
search → {"results": [{"id", "title", "url"}]}, fetch → {"id", "title", "text", "url", "metadata"}.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from ragstone import __version__
from ragstone.catalog.documents import document_not_found
from ragstone.engine import Engine
from ragstone.errors import ForbiddenError, NotFoundError, RagstoneError
from ragstone.query.explain import find_chunk
from ragstone.server.auth import Caller, authenticate_request
from ragstone.server.deps import base_url_of, refuse_missing_collection
from ragstone.server.errors import ClientGoneError, respond_to_error
from ragstone.server.events import link_source, shape_tool_answer
from ragstone.server.limits import AnswerSlots
from ragstone.server.sse import run_until, wait_for_disconnect
from ragstone.types import DEFAULT_COLLECTION, Answer, Chunk

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_INSTRUCTIONS = (
    "Search the documents with `search`, read what you found with `fetch`, or let Ragstone answer "
    "with checked citations, with `ask`."
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool: who calls, which collection, and the address for links to sources."""

    caller: Caller
    collection: str
    base_url: str
    slots: AnswerSlots | None = None
    """Limits the answers that are written at once."""
    disconnect: asyncio.Event | None = None
    """Set when the client has disconnected."""

    async def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Return the answer; cancel it when the client disconnects."""
        return await (run_until(self.disconnect.wait(), work) if self.disconnect else work)

    def hold_slot(self) -> AbstractAsyncContextManager[None]:
        return self.slots.hold_slot() if self.slots else nullcontext()


def choose_collection(engine: Engine, caller: Caller, name: str | None) -> str:
    """Return the named collection, or else the first one that the caller can read."""
    if name:
        caller.require_read(name)
        refuse_missing_collection(engine, caller, name)
        return name
    if caller.can_read(DEFAULT_COLLECTION):
        return DEFAULT_COLLECTION
    readable = [name for name in engine.catalog.collections() if caller.can_read(name)]
    if not readable:
        raise ForbiddenError("This key cannot read any collection.", hint="Ask for another one.")
    return readable[0]


def build_server(
    engine: Engine, start_call: Callable[[Context[Any, Any]], ToolCall]
) -> MCPServer[Any]:
    """Build a server with the three tools; `start_call` identifies the caller."""
    server: MCPServer[Any] = MCPServer(
        "ragstone", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING"
    )

    @server.tool(structured_output=False)
    async def search(query: str, ctx: Context[Any, Any]) -> str:
        """Find the passages of the documents that match a question or a few words."""
        with _report_errors():
            call = start_call(ctx)
            hits = await engine.search(query, collection=call.collection)
            return _dump({"results": [_describe_hit(hit.chunk, call.base_url) for hit in hits]})

    @server.tool(structured_output=False)
    async def fetch(id: str, ctx: Context[Any, Any]) -> str:  # noqa: A002  assistants say `id`
        """Read what `search` found: a passage by its id, or a whole document by its id."""
        with _report_errors():
            return _dump(_fetch(engine, start_call(ctx), id))

    @server.tool(structured_output=False)
    async def ask(question: str, ctx: Context[Any, Any], rag_enabled: bool | None = None) -> str:
        """Answer a question from the documents, with checked citations; with `rag_enabled` false
        from the model alone, without documents."""
        with _report_errors():
            call = start_call(ctx)
            async with call.hold_slot():
                answer = await call.run(
                    engine.ask(
                        question,
                        collection=call.collection,
                        rag_enabled=rag_enabled,
                        owner=call.caller.owner,
                        is_chat=True,
                    )
                )
            return _dump(shape_tool_answer(answer, call.base_url))

    return server


@contextmanager
def _report_errors() -> Iterator[None]:
    """Pass the message of our own errors to the client; the SDK hides those of all others."""
    try:
        yield
    except RagstoneError as error:
        raise ToolError(str(error)) from error
    except ClientGoneError as error:
        raise ToolError("The client has disconnected.") from error


def _fetch(engine: Engine, call: ToolCall, item_id: str) -> dict[str, Any]:
    """Read a document, or with `document:number` one of its chunks."""
    document_id, colon, _ = item_id.rpartition(":")
    try:
        document = call.caller.find_document(engine, document_id if colon else item_id)
    except NotFoundError:
        raise document_not_found(item_id) from None
    metadata: dict[str, Any] = {"document_id": document.id, "collection": document.collection}
    metadata |= document.metadata
    text, start, end = document.text, 0, len(document.text)
    if colon:
        chunk = find_chunk(engine.catalog, document.collection, item_id)
        text, start, end = chunk.text, chunk.start, chunk.end
        if chunk.page is not None:
            metadata["page"] = chunk.page
        if chunk.heading_path:
            metadata["section"] = " > ".join(chunk.heading_path)
        metadata |= {"start": start, "end": end}
    url = link_source(call.base_url, document.id, start, end)
    return {
        "id": item_id if colon else document.id,
        "title": document.name,
        "text": text,
        "url": url,
        "metadata": metadata,
    }


def _describe_hit(chunk: Chunk, base_url: str) -> dict[str, str]:
    title = " › ".join([chunk.document_name, *chunk.heading_path[-1:]])
    url = link_source(base_url, chunk.document_id, chunk.start, chunk.end)
    return {"id": chunk.id, "title": title, "url": url}


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


async def run_stdio(engine: Engine, identify: Callable[[], Caller], collection: str | None) -> None:
    """Serve one assistant that started this process.

    `identify` runs at each call: a key may expire or be revoked while the assistant runs.
    """
    server = engine.settings.server
    base_url = server.public_url.rstrip("/") or f"http://{server.host}:{server.port}"

    def start_call(_: object = None) -> ToolCall:
        caller = identify()
        return ToolCall(caller, choose_collection(engine, caller, collection), base_url)

    start_call()  # refuse a bad key now, not at the first call
    async with engine:
        await build_server(engine, start_call).run_stdio_async()


class McpEndpoint:
    """Serve `/mcp` over streamable HTTP without sessions: any worker can take a request."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._server = build_server(engine, self._start_call)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        # Host names are checked by a middleware, before all endpoints.
        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self._server.streamable_http_app(
            stateless_http=True, json_response=True, transport_security=security
        )
        async with self._manager.run():
            yield

    @property
    def _manager(self) -> StreamableHTTPSessionManager:
        return self._server.session_manager

    def _start_call(self, ctx: Context[Any, Any]) -> ToolCall:
        request = ctx.request_context.request
        assert isinstance(request, Request)
        caller: Caller = request.scope["state"]["caller"]
        name = request.query_params.get("collection")
        return ToolCall(
            caller,
            choose_collection(self._engine, caller, name),
            base_url_of(request),
            request.app.state.answer_slots,
            request.scope["state"]["disconnect"],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            await authenticate_request(request)
        except RagstoneError as error:
            await respond_to_error(request, error)(scope, receive, send)
            return
        # The SDK reads the body and then never checks if the client is still connected.
        body = await request.body()
        disconnect = scope["state"]["disconnect"] = asyncio.Event()
        watch = asyncio.create_task(_watch_connection(receive, disconnect))
        try:
            await self._manager.handle_request(scope, _replay_body(body, disconnect), send)
        finally:
            watch.cancel()


async def _watch_connection(receive: Receive, disconnect: asyncio.Event) -> None:
    await wait_for_disconnect(receive)
    disconnect.set()


def _replay_body(body: bytes, disconnect: asyncio.Event) -> Receive:
    """Give a body that was read before to another reader."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await disconnect.wait()
        return {"type": "http.disconnect"}

    return receive
