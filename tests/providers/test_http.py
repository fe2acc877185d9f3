"""The HTTP client under every provider."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ragstone.providers.http import Endpoint, hide_secrets
from ragstone.providers.retry import Service, StatusError

KEY = "sk-very-secret-123"


class Repeater(BaseHTTPRequestHandler):
    """Refuses every request and repeats the key that came with it, as some services do."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        sent = self.headers.get("authorization") or self.headers.get("x-api-key") or ""
        body = f'{{"error": {{"message": "Incorrect API key provided: {sent}."}}}}'.encode()
        self.send_response(401)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Repeater) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("headers", [{"authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}])
async def test_a_key_that_the_service_repeats_is_not_in_the_error(
    address: str, headers: dict[str, str]
) -> None:
    endpoint = Endpoint(Service("OpenAI"), address, headers)
    with pytest.raises(StatusError) as refused:
        await anext(endpoint.stream_lines("/v1/chat/completions", {}))
    await endpoint.aclose()
    failure = endpoint.explain(refused.value)
    assert failure is not None
    assert "Incorrect API key provided" in failure.detail
    assert KEY not in failure.message + failure.detail + str(refused.value)


def test_only_keys_are_hidden() -> None:
    headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01", "authorization": "Bearer k"}
    assert (
        hide_secrets(f"key {KEY}, version 2023-06-01", headers)
        == "key ********, version 2023-06-01"
    )
