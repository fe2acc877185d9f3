"""OpenTelemetry: spans by the GenAI conventions, into the SDK's memory and over real OTLP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragstone.engine import Engine
from ragstone.observe.spans import SpanWatcher, build_tracer_provider
from ragstone.trace import Trace, Watcher

QUESTION = "How large is the primary mirror?"


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    before = Trace.watchers
    Trace.watchers = (watcher,)
    try:
        yield
    finally:
        Trace.watchers = before


@pytest.mark.parametrize("with_text", [False, True])
def test_a_query_is_one_span_with_its_stages_inside(sample_engine: Engine, with_text: bool) -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    with watched_by(SpanWatcher(provider, with_text=with_text)):
        answer = asyncio.run(sample_engine.ask(QUESTION, request_id="r1"))
    spans = {span.attributes["ragstone.stage"]: span for span in memory.get_finished_spans()
             if span.attributes and "ragstone.stage" in span.attributes}  # fmt: skip
    (root,) = [span for span in memory.get_finished_spans() if span.parent is None]
    assert root.name == "ragstone.query"
    assert root.attributes["ragstone.request_id"] == "r1"
    for stage, operation in (
        ("embed", "embeddings"), ("fuse", "retrieval"), ("ground.generate", "chat"),
    ):  # fmt: skip
        attributes = spans[stage].attributes
        assert attributes["gen_ai.operation.name"] == operation
        assert attributes["gen_ai.provider.name"]
        assert spans[stage].parent.span_id == root.context.span_id
        assert root.start_time <= spans[stage].start_time <= spans[stage].end_time
    assert spans["embed"].attributes["gen_ai.request.model"] == sample_engine.embedder.name
    assert spans["fuse"].attributes["gen_ai.data_source.id"] == "default"
    everything = str([span.attributes for span in memory.get_finished_spans()])
    assert (repr(answer.text)[1:-1] in everything) is (QUESTION in everything) is with_text


def test_spans_reach_a_collector_over_http(sample_engine: Engine) -> None:
    received: list[ExportTraceServiceRequest] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            received.append(ExportTraceServiceRequest.FromString(body))
            assert self.path == "/v1/traces"
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        watcher = SpanWatcher(
            build_tracer_provider(f"http://127.0.0.1:{server.server_port}"), with_text=False
        )
        with watched_by(watcher):
            asyncio.run(sample_engine.ask(QUESTION))
        watcher.close()
        server.shutdown()
        thread.join()
    names = {
        span.name
        for request in received
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    assert "ragstone.query" in names
    assert "retrieval default" in names
