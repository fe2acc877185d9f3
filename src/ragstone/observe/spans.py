"""OpenTelemetry spans of a query, by the GenAI conventions, sent where an exporter is configured.

They are drawn from the finished trace: a query pays nothing for them while it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ragstone.errors import SettingsError
from ragstone.trace import QueryRun, Span
from ragstone.types import Answer

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

# Stage → the operation of the conventions; stages without one are plain inner spans.
_OPERATIONS = {"embed": "embeddings", "ground.generate": "chat", "fuse": "retrieval"}


def exporting(endpoint: str) -> TracerProvider:
    """A tracer provider that sends to an OTLP collector over HTTP."""
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
    """Turns each finished query into one span with its stages inside."""

    def __init__(self, provider: TracerProvider, *, with_text: bool) -> None:
        self._tracer = provider.get_tracer("ragstone")
        self._provider = provider
        self._with_text = with_text

    def stage(self, run: QueryRun, span: Span) -> None:
        """Nothing: the whole query is sent when it is answered."""

    def answered(self, answer: Answer) -> None:
        from opentelemetry import trace as api

        begun_s: float = answer.trace["started_at"]
        root = self._tracer.start_span(
            "ragstone.query", start_time=_ns(begun_s), attributes=self._of_answer(answer)
        )
        parent = api.set_span_in_context(root)
        for stage in answer.trace["spans"]:
            start_s = begun_s + stage["started_ms"] / 1000
            span = self._tracer.start_span(
                _name(stage, answer), context=parent, start_time=_ns(start_s),
                attributes=_of_stage(stage, answer),
            )  # fmt: skip
            if stage["error"]:
                kind = stage["error"].partition(":")[0]
                span.set_attribute("error.type", kind)
                span.set_status(api.StatusCode.ERROR, kind)
            span.end(_ns(start_s + stage["duration_ms"] / 1000))
        root.end(_ns(begun_s + answer.trace["total_ms"] / 1000))

    def close(self) -> None:
        """Send what is still waiting."""
        self._provider.shutdown()

    def _of_answer(self, answer: Answer) -> dict[str, Any]:
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


def _name(stage: Mapping[str, Any], answer: Answer) -> str:
    """`{operation} {model or data source}`, as the conventions want it."""
    operation = _OPERATIONS.get(stage["stage"])
    if operation is None:
        return str(stage["stage"])
    about = answer.collection if operation == "retrieval" else stage["counts"].get("model", "")
    return f"{operation} {about}".strip()


def _of_stage(stage: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
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


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
