"""Export the spans of a query to OpenTelemetry, by its GenAI conventions.

They are built from the finished trace, so they cost a query nothing while it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ragstone.errors import SettingsError
from ragstone.trace import QueryRun, Span
from ragstone.types import Answer

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

# Stage → its operation in the conventions; other stages are plain inner spans.
_OPERATIONS = {"embed": "embeddings", "ground.generate": "chat", "fuse": "retrieval"}


def build_tracer_provider(endpoint: str) -> TracerProvider:
    """Build a provider that sends spans to an OTLP collector over HTTP."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise SettingsError(
            "OpenTelemetry is not installed.", hint="Try: pip install 'ragstone[otel]'"
        ) from error
    provider = TracerProvider(resource=Resource.create({"service.name": "ragstone"}))
    address = endpoint.rstrip("/")
    if not address.endswith("/v1/traces"):
        address += "/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=address)))
    return provider


class SpanWatcher:
    """Turn each finished query into one span with its stages inside."""

    def __init__(self, provider: TracerProvider, *, with_text: bool) -> None:
        self._tracer = provider.get_tracer("ragstone")
        self._provider = provider
        self._with_text = with_text

    def observe_stage(self, run: QueryRun, span: Span) -> None:
        """Do nothing: the whole query is sent when it is answered."""

    def observe_answer(self, answer: Answer) -> None:
        from opentelemetry import trace as api

        started_s: float = answer.trace["started_at"]
        root = self._tracer.start_span(
            "ragstone.query", start_time=_to_ns(started_s), attributes=self._describe_answer(answer)
        )
        parent = api.set_span_in_context(root)
        for stage in answer.trace["spans"]:
            start_s = started_s + stage["started_ms"] / 1000
            span = self._tracer.start_span(
                _name_span(stage, answer),
                context=parent,
                start_time=_to_ns(start_s),
                attributes=_describe_stage(stage, answer),
            )
            if stage["error"]:
                kind = stage["error"].partition(":")[0]
                span.set_attribute("error.type", kind)
                span.set_status(api.StatusCode.ERROR, kind)
            span.end(_to_ns(start_s + stage["duration_ms"] / 1000))
        root.end(_to_ns(started_s + answer.trace["total_ms"] / 1000))

    def close(self) -> None:
        """Send the spans that are still waiting."""
        self._provider.shutdown()

    def _describe_answer(self, answer: Answer) -> dict[str, Any]:
        attributes: dict[str, Any] = {
            "ragstone.request_id": answer.trace["request_id"],
            "ragstone.query_id": answer.query_id,
            "ragstone.status": answer.status,
            "ragstone.degraded": list(answer.degraded),
            "ragstone.groundedness_score": answer.groundedness_score,
            "ragstone.confidence": answer.confidence,
            "gen_ai.data_source.id": answer.collection,
        }
        if self._with_text:
            attributes["gen_ai.input.messages"] = answer.question
            attributes["gen_ai.output.messages"] = answer.text
            attributes["gen_ai.retrieval.documents"] = [s.text for s in answer.sources]
        return attributes


def _name_span(stage: Mapping[str, Any], answer: Answer) -> str:
    """Build `{operation} {model or data source}`, the name in the conventions."""
    operation = _OPERATIONS.get(stage["stage"])
    if operation is None:
        return str(stage["stage"])
    subject = answer.collection if operation == "retrieval" else stage["counts"].get("model", "")
    return f"{operation} {subject}".strip()


def _describe_stage(stage: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    counts = stage["counts"]
    attributes: dict[str, Any] = {
        f"ragstone.{name}": value
        for name, value in counts.items()
        if isinstance(value, str | int | float | bool)
    }
    attributes["ragstone.stage"] = stage["stage"]
    operation = _OPERATIONS.get(stage["stage"])
    if operation is None:
        return attributes
    attributes["gen_ai.operation.name"] = operation
    attributes["gen_ai.provider.name"] = counts.get("provider", "ragstone")
    if operation == "retrieval":
        attributes["gen_ai.data_source.id"] = answer.collection
    if "model" in counts:
        attributes["gen_ai.request.model"] = counts["model"]
    for ours, theirs in (("input_tokens", "input"), ("output_tokens", "output")):
        if ours in counts:
            attributes[f"gen_ai.usage.{theirs}_tokens"] = counts[ours]
    return attributes


def _to_ns(seconds: float) -> int:
    return int(seconds * 1e9)
