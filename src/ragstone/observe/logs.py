"""Write structured logs: one JSON object per line on standard error, with the id of its request.

Questions, answers and documents are written only with `observe.log_text`. That includes errors:
their type and place are logged, their message only with `log_text`, because a database or a
provider may quote the question in it.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from http import HTTPStatus
from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from ragstone.observe.metrics import MetricsWatcher
from ragstone.observe.spans import SpanWatcher, build_tracer_provider
from ragstone.settings import Settings
from ragstone.settings.services import ObserveSettings
from ragstone.trace import QueryRun, Span, Trace, Watcher
from ragstone.types import Answer

# Of the same failure so many lines are written each second; a flood must not fill the disk.
_MAX_FAILURES_PER_S = 20
_MAX_KINDS = 1_000


class FloodFilter(logging.Filter):
    """Sample lines about failures: a few of each kind per second, the next one with the count."""

    def __init__(self, max_per_s: int = _MAX_FAILURES_PER_S) -> None:
        super().__init__()
        self._max_per_s = max_per_s
        self._second = 0
        self._written: dict[object, int] = {}
        self._left_out: dict[object, int] = {}
        self._lock = threading.Lock()

    def count(self, kind: object) -> int | None:
        """Return how many lines of a kind were left out before this one; None: leave it out."""
        with self._lock:
            second = int(time.monotonic())
            if second != self._second:
                self._second, self._written = second, {}
            if len(self._left_out) > _MAX_KINDS:
                self._left_out.clear()
            self._written[kind] = self._written.get(kind, 0) + 1
            if self._written[kind] > self._max_per_s:
                self._left_out[kind] = self._left_out.get(kind, 0) + 1
                return None
            return self._left_out.pop(kind, 0)

    def __call__(self, _: WrappedLogger, level: str, event: EventDict) -> EventDict:
        """Filter the lines of structlog. A request that was refused is a failure, too."""
        status = event.get("status")
        is_refused = isinstance(status, int) and status >= HTTPStatus.BAD_REQUEST
        if level not in ("info", "debug") or is_refused:
            left_out = self.count((level, event.get("event"), status, event.get("endpoint")))
            if left_out is None:
                raise structlog.DropEvent
            if left_out:
                event["left_out"] = left_out
        return event

    def filter(self, record: logging.LogRecord) -> bool:
        """Filter the lines of the standard library's loggers."""
        if record.levelno < logging.WARNING:
            return True
        left_out = self.count((record.levelno, record.name, record.lineno))
        if left_out:
            record.left_out = left_out
        return left_out is not None


def configure_logging(options: ObserveSettings) -> None:
    """Write all logs, also those of libraries, in one format."""
    level = logging.getLevelNamesMapping()[options.log_level.upper()]
    flood = FloodFilter()
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _describe_errors(with_message=options.log_text),
    ]
    last: Processor = structlog.processors.JSONRenderer(ensure_ascii=False)
    if options.log_format == "text":
        last = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[flood, *shared, last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
        )
    )
    handler.addFilter(flood)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries log each HTTP call with its address, which may be private.
    root.setLevel(max(level, logging.WARNING))
    logging.getLogger("ragstone").setLevel(level)


def _describe_errors(*, with_message: bool) -> Processor:
    def describe(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        given = event.pop("exc_info", None)
        error = given[1] if isinstance(given, tuple) else given
        if given is True:
            error = sys.exc_info()[1]
        if isinstance(error, BaseException):
            event["error"] = type(error).__name__
            event["stack"] = [
                f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(error.__traceback__)[-8:]
            ]
            if with_message:
                event["message"] = str(error)
        return event

    return describe


class LogWatcher:
    """Write a line for some stages of a query as they end, and one summary line."""

    def __init__(self, *, with_text: bool) -> None:
        self._with_text = with_text
        self._log = structlog.get_logger("ragstone")

    def observe_stage(self, run: QueryRun, span: Span) -> None:
        point = _POINTS.get(span.stage)
        if point is None:
            return
        event, fields = point
        if span.stage == "ground.context" and not _has_run(run, "refine.rerank"):
            self._log.info(
                "after rerank",
                request_id=run.request_id,
                reranker_type="none",
                chunks_after_rerank=span.counts.get("chunks_in", 0),
                rerank_scores=[],
            )
        self._log.info(
            event,
            request_id=run.request_id,
            duration_ms=round(span.duration_ms, 3),
            **{name: span.counts.get(name, empty) for name, empty in fields.items()},
        )

    def observe_answer(self, answer: Answer) -> None:
        run = answer.trace
        texts = {"question": answer.question, "answer": answer.text} if self._with_text else {}
        self._log.info("query", request_id=run["request_id"], **summarize_answer(answer), **texts)


def summarize_answer(answer: Answer) -> dict[str, Any]:
    """Build the fields of the one line that a query logs."""
    return {
        "query_id": answer.query_id,
        "collection": answer.collection,
        "rag_enabled": answer.route != "plain",
        "top_k": answer.top_k or None,
        "retrieval_time_ms": answer.retrieval_ms,
        "generation_time_ms": answer.generation_ms,
        "total_time_ms": answer.total_ms,
        "chunks_retrieved": answer.chunks_retrieved,
        "chunks_used": len(answer.sources),
        "status": answer.status,
        "is_grounded": answer.is_grounded,
        "groundedness_score": answer.groundedness_score,
        "confidence": answer.confidence,
        "citations": len(answer.citations),
        "degraded": list(answer.degraded),
        "provider": answer.provider,
        "model": answer.model,
    }


def _has_run(run: QueryRun, stage: str) -> bool:
    return any(span.stage == stage for span in run.trace.spans)


# Stage → the event of its log line, and its fields with their defaults.
_POINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "fuse": (
        "initial retrieval",
        {"initial_k": 0, "chunks_retrieved": 0, "scores_range": []},
    ),
    "refine.filter": (
        "after filter",
        {
            "chunks_after_filter": 0,
            "threshold_used": 0.0,
            "fallback_triggered": False,
            "filtered_scores": [],
        },
    ),
    "refine.rerank": (
        "after rerank",
        {"chunks_after_rerank": 0, "reranker_type": "", "rerank_scores": []},
    ),
    "ground.context": ("final context", {"final_chunks_count": 0, "context_size_chars": 0}),
}


def start_watching(settings: Settings) -> None:
    """Log, count and export the queries of this process from now on."""
    options = settings.observe
    watchers: list[Watcher] = [LogWatcher(with_text=options.log_text), MetricsWatcher()]
    if options.otlp_endpoint:
        provider = build_tracer_provider(options.otlp_endpoint)
        watchers.append(SpanWatcher(provider, with_text=options.log_text))
    Trace.watchers = tuple(watchers)


def stop_watching() -> None:
    for watcher in Trace.watchers:
        close = getattr(watcher, "close", None)
        if close is not None:
            close()
    Trace.watchers = ()
