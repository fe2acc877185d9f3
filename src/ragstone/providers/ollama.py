"""Chat and embed with an Ollama server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ragstone.calls import StopReason, Usage
from ragstone.plugins import PartContext
from ragstone.providers.chat import ChatProvider, Request, build_provider, format_messages
from ragstone.providers.embed import RemoteEmbedder, build_remote
from ragstone.providers.http import Endpoint, HttpWire, parse_object
from ragstone.providers.retry import CutStreamError, Pieces, Service, StatusError, Stop, Thought
from ragstone.settings import Settings

DEFAULT_URL = "http://127.0.0.1:11434"
SERVICE = Service("Ollama", "OLLAMA", "Start it with: ollama serve.")
_MIN_CONTEXT = 4096


@dataclass(frozen=True, slots=True)
class OllamaWire(HttpWire):
    """Stream `POST /api/chat`, one JSON object per line."""

    name: str = "ollama"
    kind: str = "ollama"
    contexts: dict[str, int] = field(default_factory=dict)
    """The largest context per model so far: another size makes Ollama load the model again."""

    async def stream_pieces(self, request: Request) -> Pieces:
        stopped: str | None = None
        async for line in self.endpoint.stream_lines("api/chat", self.build_body(request)):
            if not line.strip():
                continue
            event = parse_object(line)
            if "error" in event:  # an error after the first line comes inside the stream
                raise StatusError(500, None, str(event["error"]))
            message = event.get("message") or {}
            if message.get("thinking"):
                yield Thought()
            if message.get("content"):
                yield message["content"]
            if event.get("done"):
                stopped = str(event.get("done_reason") or "stop")
                if "eval_count" in event:
                    yield Usage(event.get("prompt_eval_count") or 0, event["eval_count"])
        if stopped is None:
            raise CutStreamError
        stop: StopReason = "length" if stopped == "length" else "stop"
        yield Stop(stop)

    def build_body(self, request: Request) -> dict[str, Any]:
        """Build the body of a call with a context window that what is sent fits into.

        Without `num_ctx` Ollama cuts a long prompt silently.
        """
        known = request.capabilities
        options: dict[str, Any] = {
            known.token_field: request.token_limit,
            "num_ctx": self._choose_context(request),
        }
        if known.temperature:
            options["temperature"] = request.temperature
        body: dict[str, Any] = {
            "model": request.model,
            "messages": format_messages(request),
            "stream": True,
            "options": options,
        }
        if request.effort:
            has_levels = "low" in known.efforts
            body["think"] = request.effort if has_levels else request.effort != "off"
        if request.schema is not None and known.json != "none":
            body["format"] = dict(request.schema) if known.json == "schema" else "json"
        return body

    def _choose_context(self, request: Request) -> int:
        needed = request.count_input() + request.token_limit
        size = max(_MIN_CONTEXT, self.contexts.get(request.model, 0))
        while size < needed:
            size *= 2
        self.contexts[request.model] = size
        window = request.capabilities.context_window
        return min(size, window) if window else size


def build(context: PartContext) -> ChatProvider:
    options = context.settings.service("ollama").override(context.settings.provider)
    endpoint = Endpoint(SERVICE, options.base_url or DEFAULT_URL, build_headers(options.key))
    return build_provider(
        OllamaWire(endpoint), options, context.settings, model="llama3.2", fast_model="llama3.2"
    )


def build_headers(key: str) -> dict[str, str]:
    """Return the header with the key of Ollama's cloud; a local server needs none."""
    return {"authorization": f"Bearer {key}"} if key else {}


@dataclass(frozen=True, slots=True)
class OllamaEmbeddings:
    """Embed with `POST /api/embed`."""

    service: ClassVar[Service] = Service("Ollama", "EMBEDDING", SERVICE.start_hint)

    def path(self, model: str) -> str:
        return "api/embed"

    def body(self, model: str, texts: Sequence[str], dimension: int) -> dict[str, Any]:
        body: dict[str, Any] = {"model": model, "input": list(texts), "truncate": True}
        return body | ({"dimensions": dimension} if dimension else {})

    def vectors(self, reply: Mapping[str, Any]) -> list[list[float]]:
        return list(reply["embeddings"])


def build_embedder(settings: Settings) -> RemoteEmbedder:
    return build_remote(
        OllamaEmbeddings(),
        settings,
        name="ollama",
        model="nomic-embed-text",
        url=DEFAULT_URL,
        headers=build_headers(settings.embed.key(settings.service("ollama").key)),
        max_tokens=2048,
    )
