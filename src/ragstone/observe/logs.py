"""Structured logs: one JSON object per line on standard error, each with its request's id.

No question, answer, document or key is written unless `observe.log_text` asks for it. That holds
for failures too: their kind and place are logged, their message only with `log_text`, because a
database or a provider may quote the question in it.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from ragstone.observe.metrics import MetricsWatcher
from ragstone.observe.spans import SpanWatcher, exporting
from ragstone.settings import Settings
from ragstone.settings.services import ObserveSettings
from ragstone.trace import QueryRun, Span, Trace, Watcher
from ragstone.types import Answer


def configure(options: ObserveSettings) -> None:
    """Send everything that is logged, also by libraries, through one format."""
    level = logging.getLevelNamesMapping()[options.log_level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _failure(with_message=options.log_text),
    ]
    last: Processor = structlog.processors.JSONRenderer(ensure_ascii=False)
    if options.log_format == "text":
        last = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[*shared, last],
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
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # A library's own chatter (each HTTP call with its address) is not ours to publish.
    root.setLevel(max(level, logging.WARNING))
    logging.getLogger("ragstone").setLevel(level)


def _failure(*, with_message: bool) -> Processor:
    def told(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
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

    return told


class LogWatcher:
    """Writes the log points of a query as its stages end, and one summary line."""

    def __init__(self, *, with_text: bool) -> None:
        self._with_text = with_text
        self._log = structlog.get_logger("ragstone")

    def stage(self, run: QueryRun, span: Span) -> None:
        point = _POINTS.get(span.stage)
        if point is None:
            return
        event, fields = point
        if span.stage == "ground.context" and not _ran(run, "refine.rerank"):
            self._rerank_left_out(run, span)
        self._log.info(
            event,
            request_id=run.request_id,
            duration_ms=round(span.duration_ms, 3),
            **{name: span.counts.get(name, empty) for name, empty in fields.items()},
        )

    def _rerank_left_out(self, run: QueryRun, span: Span) -> None:
        self._log.info(
            "after rerank", request_id=run.request_id, reranker_type="none",
            chunks_after_rerank=span.counts.get("chunks_in", 0), rerank_scores=[],
        )  # fmt: skip

    def answered(self, answer: Answer) -> None:
        run = answer.trace
        texts = {"question": answer.question, "answer": answer.text} if self._with_text else {}
        self._log.info("query", request_id=run["request_id"], **summary(answer), **texts)


def summary(answer: Answer) -> dict[str, Any]:
    """The one line of a request, in figures."""
    return {
        "query_id": answer.query_id,
        "collection": answer.collection,
        "rag_enabled": bool(answer.collection),
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


def _ran(run: QueryRun, stage: str) -> bool:
    return any(span.stage == stage for span in run.trace.spans)


# Stage → the event of its log line, and its fields with what stands there when there is nothing.
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


def watch(settings: Settings) -> None:
    """Log, count and send the queries of this process from now on."""
    options = settings.observe
    watchers: list[Watcher] = [LogWatcher(with_text=options.log_text), MetricsWatcher()]
    if options.otlp_endpoint:
        provider = exporting(options.otlp_endpoint)
        watchers.append(SpanWatcher(provider, with_text=options.log_text))
    Trace.watchers = tuple(watchers)


def stop_watching() -> None:
    for watcher in Trace.watchers:
        close = getattr(watcher, "close", None)
        if close is not None:
            close()
    Trace.watchers = ()
