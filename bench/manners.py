"""Serve ten models that cite badly, over a real HTTP server with OpenAI's protocol.

They know the answer to each sample question (the sentence that holds it) and say it, each with
markers of its own kind.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CITATION_STYLES: dict[str, Callable[[random.Random], str]] = {
    "never cites": lambda chance: "",
    "cites at random": lambda chance: f" [Source {chance.randint(1, 10)}]",
    "invents sources": lambda chance: f" [Source {chance.randint(40, 900)}]",
    "writes [1]": lambda chance: f" [{chance.randint(1, 10)}]",
    "writes 【1】": lambda chance: f" 【{chance.randint(1, 10)}†source】",
    "writes (Source 1)": lambda chance: f" (Source {chance.randint(1, 10)})",
    "writes [^1]": lambda chance: f"[^{chance.randint(1, 10)}]",
    "cites everything": lambda chance: " [Sources 1, 2, 3, 4, 5]",
    "repeats itself": lambda chance: f" [Source {chance.randint(1, 10)}] Sure! I hope this helps.",
    "links elsewhere": lambda chance: " [1](https://evil.example/x) ![x](https://evil.example/y)",
}


@contextmanager
def serve_model(manner: str, sayings: Mapping[str, list[str]]) -> Iterator[str]:
    """Serve a model that answers `sayings[question]`, sentence by sentence; yield its address."""
    chance = random.Random(11)

    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            question = body["messages"][-1]["content"]
            said = sayings.get(question, ["I cannot say."])
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for sentence in said:
                self._event({"content": f"{sentence}{CITATION_STYLES[manner](chance)} "})
            self._event({}, "stop")
            self.wfile.write(b"data: [DONE]\n\n")

        def _event(self, delta: dict[str, str], finish: str | None = None) -> None:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            self.wfile.write(f"data: {json.dumps({'choices': [choice]})}\n\n".encode())

        def log_message(self, *_: object) -> None:
            """Nothing: the benchmark prints its own lines."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
