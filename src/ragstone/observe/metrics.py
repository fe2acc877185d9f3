"""Count and time for Prometheus: stages, quality of answers, cost, failures, requests.

No label holds a text, a collection or an owner: their number has no limit.
"""

from __future__ import annotations

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

from ragstone.calls import Usage
from ragstone.trace import QueryRun, Span
from ragstone.types import Answer

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)

STAGE_SECONDS = Histogram(
    "ragstone_stage_seconds", "Time of each stage of a query.", ["stage"], buckets=_SECONDS
)
ANSWER_SECONDS = Histogram(
    "ragstone_answer_seconds", "Time of a whole answer.", ["provider"], buckets=_SECONDS
)
ANSWERS = Counter("ragstone_answers", "Answers by outcome.", ["status", "intent"])
QUALITY = Histogram(
    "ragstone_quality", "Signals of quality per answer, 0 to 1.", ["signal"], buckets=_SHARES
)
UNGROUNDED = Counter("ragstone_ungrounded_answers", "Answers that their sources do not support.")
TOKENS = Counter(
    "ragstone_tokens",
    "Tokens of models: input, output, and the part of the input that was cached.",
    ["provider", "model", "direction"],
)
CALLS = Counter(
    "ragstone_model_calls", "Calls to models.", ["provider", "model", "stage", "stop_reason"]
)
COST = Counter("ragstone_cost_usd", "What the tokens cost, in dollars.", ["provider", "model"])
ERRORS = Counter("ragstone_errors", "Failures by component.", ["component", "error"])
DEGRADED = Counter("ragstone_degraded", "Answers that went on without a part.", ["fallback"])
CACHE = Counter("ragstone_answer_cache", "Answers taken from the cache, or not.", ["outcome"])
FEEDBACK = Counter("ragstone_feedback", "Ratings of answers that were sent.", ["vote"])
RATING = Histogram("ragstone_rating", "Ratings from 1 to 5.", buckets=(1, 2, 3, 4, 5))
REQUESTS = Counter("ragstone_http_requests", "Requests.", ["method", "route", "status"])
REQUEST_SECONDS = Histogram(
    "ragstone_http_request_seconds", "Time of a request.", ["route"], buckets=_SECONDS
)
IN_FLIGHT = Gauge("ragstone_http_in_flight", "Requests running.", multiprocess_mode="livesum")
WRITING = Gauge("ragstone_answers_running", "Answers being written.", multiprocess_mode="livesum")
WAITING = Gauge("ragstone_answers_waiting", "Questions in the queue.", multiprocess_mode="livesum")


# A client may choose the model, and each name would be a line of the metrics for ever.
_MAX_MODELS = 32
_OTHER = "other"
_SIGNALS = ("groundedness_score", "confidence", "citation_precision", "citation_recall")


class MetricsWatcher:
    """Count what the trace of a query holds."""

    def __init__(self) -> None:
        self._models: set[str] = set()

    def observe_stage(self, run: QueryRun, span: Span) -> None:
        STAGE_SECONDS.labels(span.stage).observe(span.duration_ms / 1000)
        if span.error is not None:
            ERRORS.labels(span.stage, span.error.partition(":")[0]).inc()
        for usage in span.usage:
            self._count_tokens(usage)

    def observe_answer(self, answer: Answer) -> None:
        ANSWERS.labels(answer.status, answer.detected_intent).inc()
        ANSWER_SECONDS.labels(answer.provider).observe(answer.total_ms / 1000)
        CACHE.labels("hit" if answer.cached else "miss").inc()
        for level in answer.degraded:
            DEGRADED.labels(level).inc()
        if not answer.sources:
            return
        similarity = answer.sources[0].hit.scores.similarity
        if similarity is not None:
            QUALITY.labels("retrieval_similarity").observe(similarity)
        if answer.status == "answered":
            for signal in _SIGNALS:
                QUALITY.labels(signal).observe(getattr(answer, signal))
            if not answer.is_grounded:
                UNGROUNDED.inc()

    def _count_tokens(self, usage: Usage) -> None:
        labels = usage.provider, self._limit_model(usage.model)
        TOKENS.labels(*labels, "input").inc(usage.input_tokens)
        TOKENS.labels(*labels, "output").inc(usage.output_tokens)
        TOKENS.labels(*labels, "cached").inc(usage.cached_tokens)
        COST.labels(*labels).inc(usage.cost_usd or 0)
        CALLS.labels(*labels, usage.stage, usage.stop_reason).inc()

    def _limit_model(self, model: str) -> str:
        if model not in self._models and len(self._models) >= _MAX_MODELS:
            return _OTHER
        self._models.add(model)
        return model


def render_metrics(shared_directory: str) -> tuple[bytes, str]:
    """Render the metrics of this process, or of all that share a directory, with the media type."""
    registry = REGISTRY
    if shared_directory:
        registry = CollectorRegistry()
        # This one class of prometheus_client has no types.
        multiprocess.MultiProcessCollector(registry, shared_directory)  # type: ignore[no-untyped-call]
    return generate_latest(registry), CONTENT_TYPE_LATEST
