"""Write src/ragstone/server/examples.json: one request and its reply for every endpoint.

Sends each request to a real server with the sample documents; shortens long lists and texts. The
OpenAPI schema (`server/openapi.py`) shows them; `tests/server/test_openapi.py` validates them.
"""

from __future__ import annotations

import functools
import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from ragstone.engine import Engine
from ragstone.server.app import create_app
from ragstone.settings import load_settings

TARGET = Path(__file__).parents[1] / "src" / "ragstone" / "server" / "examples.json"
LEASE = "How long is the lease?"
MESSAGES = [{"role": "user", "content": LEASE}]
_ITEMS, _CHARS = 2, 240


class Recorder:
    """Sends requests and records the replies."""

    def __init__(self, client: TestClient) -> None:
        self._client = client
        self.examples: dict[str, Any] = {}

    def send(
        self,
        method: str,
        path: str,
        *,
        record: bool = True,
        params: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        **body: Any,
    ) -> Any:
        """Send and record a request, with {names} in the path from `params`; return the reply."""
        given = dict(params or {})
        named = {name: given.pop(name) for name in list(given) if f"{{{name}}}" in path}
        reply = self._client.request(
            method, path.format(**named), params=given, headers=headers, **body
        )
        assert reply.status_code < 300, (method, path, reply.text)
        kind = reply.headers.get("content-type", "").partition(";")[0]
        whole = reply.json() if kind == "application/json" and reply.content else reply.text
        if record:
            entry = self.examples.setdefault(f"{method} {path}", {"params": {}, "replies": {}})
            entry["params"] |= params or {}
            if reply.content:
                entry["replies"][f"{reply.status_code} {kind}"] = _shorten(whole)
        return whole


def _shorten(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shorten(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shorten(inner) for inner in value[:_ITEMS]]
    if isinstance(value, str) and value.startswith("data: "):
        events = value.split("\n\n")
        return "\n\n".join(
            [
                f"{event[:_CHARS]}…" if len(event) > _CHARS else event
                for event in [*events[:_ITEMS], *events[-_ITEMS:]]
            ]
        )
    if isinstance(value, str) and len(value) > _CHARS:
        return value[:_CHARS] + "…"
    return value


def record_examples(client: TestClient) -> dict[str, Any]:
    recorder = Recorder(client)
    send = recorder.send
    send("POST", "/v1/samples", json={"collection": "default"})
    send("POST", "/v1/consent")
    send("GET", "/v1/consent")
    _record_documents(recorder)
    asked = send("POST", "/v1/query", json={"query": LEASE, "session_id": "lease"})
    events = {"accept": "text/event-stream"}
    send("POST", "/v1/query", json={"query": LEASE}, headers=events)
    send("POST", "/v1/query/batch", json={"queries": [LEASE]})
    send("POST", "/v1/context", json={"query": LEASE, "max_tokens": 500})
    facts = {"answer": "The gate is red.", "facts": ["The gate is green."]}
    send("POST", "/v1/check-grounding", json=facts)
    send("POST", "/api/chat", json={"messages": MESSAGES}, params={"compare": False})
    send("POST", "/api/chat/compare", json={"messages": MESSAGES})
    send("POST", "/api/chat/stream", json={"messages": MESSAGES}, params={"compare": False})
    send(
        "POST",
        "/chat/{chat_id}/stream",
        json={"message": "What is the gate code?"},
        params={"chat_id": "42"},
    )
    model = {"model": "ragstone/default", "messages": MESSAGES}
    send("POST", "/v1/chat/completions", json=model)
    send("POST", "/v1/chat/completions", json={**model, "stream": True})
    send("GET", "/v1/models")
    send("GET", "/v1/models/{model}", params={"model": "ragstone/default"})
    send("POST", "/search", json={"query": "notice period", "top_k": 3})
    send("GET", "/v1/candidates", params={"query": LEASE, "collection": "default", "limit": 2})
    send("POST", "/v1/compare", json={"query": LEASE, "presets": ["minimal", "balanced"]})
    _record_history(recorder, asked)
    send("PUT", "/v1/provider/state")
    send("GET", "/v1/providers")
    send("GET", "/v1/watched-folder")
    send("GET", "/v1/imports")
    with serve_samples() as url:
        send("POST", "/v1/imports", json={"url": f"{url}/policies/safety.md", "collection": "web"})
    send("PATCH", "/v1/settings", json={"values": {"refine.top_k": 8}})
    for path in ("/v1/settings", "/healthz", "/readyz", "/metrics"):
        send("GET", path)
    return recorder.examples


def _record_documents(recorder: Recorder) -> None:
    send = recorder.send
    note = {"name": "gate.md", "text": "# Gate\n\nThe gate code is 8812.", "collection": "house"}
    params = {"collection": "house", "name": "gate.md", "wait": True}
    sent = send("POST", "/v1/documents", json=note, params=params)
    send("POST", "/v1/documents", json={**note, "name": "door.md"}, params={"wait": False})
    files = {"files": ("gate.txt", b"The gate code is 8812.")}
    send("POST", "/chat/{chat_id}/documents", files=files, params={"chat_id": "42"})
    send("POST", "/documents", files={"file": ("porch.txt", b"The porch is blue.")})
    page = {"skip": 0, "limit": 2}
    documents = send("GET", "/v1/documents", params={"collection": "default"}, record=False)
    send("GET", "/v1/documents", params={"collection": "default", **page})
    lease = next(one["id"] for one in documents if one["name"].endswith("ridge.pdf"))
    one, span = {"document_id": lease}, {"start": 784, "end": 850}
    send("GET", "/v1/documents/{document_id}", params=one)
    send("PATCH", "/v1/documents/{document_id}", params=one, json={"tags": ["contract"]})
    send("GET", "/v1/documents/{document_id}/lines", params={**one, **span})
    send("GET", "/v1/documents/{document_id}/original", params=one, record=False)
    recorder.examples["GET /v1/documents/{document_id}/original"] = {"params": one, "replies": {}}
    send("GET", "/v1/documents/{document_id}/text", params={**one, **span, "around": 40})
    send("GET", "/v1/documents/{document_id}/chunks", params={**one, **page})
    send("GET", "/v1/documents/{document_id}/versions", params=one)
    upload = {"upload_id": sent["upload_id"]}
    send("GET", "/v1/uploads/{upload_id}", params=upload)
    send("GET", "/v1/uploads/{upload_id}/events", params=upload)
    send(
        "DELETE", "/v1/documents/{document_id}", params={"document_id": sent["documents"][0]["id"]}
    )
    send("POST", "/v1/collections", json={"name": "contracts"})
    send("GET", "/v1/collections")
    send("GET", "/v1/collections/{name}", params={"name": "default"})
    send("GET", "/v1/collections/{name}/overview", params={"name": "default"})
    send("DELETE", "/v1/collections/{name}", params={"name": "contracts"})


def _record_history(recorder: Recorder, asked: dict[str, Any]) -> None:
    send = recorder.send
    one = {"query_id": asked["query_id"]}
    session = {"session_id": "lease"}
    page = {"skip": 0, "limit": 2}
    send("GET", "/v1/queries", params={**page, **session, "collection": "default"})
    send("GET", "/v1/queries/{query_id}", params=one)
    chunk = asked["used_chunks"][0]["chunk_id"]
    send("GET", "/v1/queries/{query_id}/explain", params={**one, "chunk_id": chunk})
    send("GET", "/v1/queries/{query_id}/chunks", params=one)
    shared = send("PUT", "/v1/queries/{query_id}/share", params=one)
    send("GET", "/v1/shared/{token}", params={"token": shared["token"]})
    send("DELETE", "/v1/queries/{query_id}/share", params=one)
    rating = {"vote": "down", "comment": "The lease was extended."}
    send("POST", "/v1/queries/{query_id}/feedback", params=one, json=rating)
    send("GET", "/v1/queries/{query_id}/feedback", params=one)
    send("GET", "/v1/feedback", params={**page, **session, "collection": "default", "mine": True})
    send("GET", "/v1/feedback/export", params={"collection": "default", "mine": True})
    send("DELETE", "/v1/queries/{query_id}/feedback", params=one)
    send("GET", "/v1/analytics", params={"collection": "default", "days": 30})
    send("GET", "/v1/suggestions", params={"prefix": "how", "collection": "default", "limit": 3})
    send("GET", "/v1/sessions", params=page)
    send("GET", "/v1/sessions/{session_id}", params=session)
    send("PATCH", "/v1/sessions/{session_id}", params=session, json={"title": "The lease"})
    send("GET", "/v1/sessions/{session_id}/export", params={**session, "format": "markdown"})
    send("DELETE", "/v1/queries/{query_id}", params=one)
    send("DELETE", "/v1/queries", params=session)
    send("DELETE", "/v1/sessions/{session_id}", params=session)
    send("DELETE", "/v1/sessions", params={"owner": "local"})
    send("DELETE", "/v1/consent", params={"owner": "local"})


@contextmanager
def serve_samples() -> Iterator[str]:
    """Serve the sample documents at an address of this machine."""
    folder = str(resources.files("ragstone.samples") / "documents")
    handler = functools.partial(SimpleHTTPRequestHandler, directory=folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def main() -> None:
    assert (resources.files("ragstone.samples") / "documents").is_dir()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ragstone.toml"
        file.touch()
        loaded = load_settings(
            flags={
                "RAGSTONE_DATA": folder,
                "REQUIRE_CONSENT": "true",
                "IMPORT_HOSTS": "127.0.0.1",
                "IMPORT_PRIVATE": "true",
            },
            config_file=file,
        )
        app = create_app(Engine(loaded.settings), loaded=loaded)
        with TestClient(app, base_url="http://127.0.0.1:8642") as client:
            found = record_examples(client)
    text = json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True)
    TARGET.write_text(text.replace(folder, "/var/lib/ragstone") + "\n", "utf-8")


if __name__ == "__main__":
    main()
