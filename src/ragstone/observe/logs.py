"""Write structured logs: a line each on standard error, JSON or text, with the id of its request.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    last: list[Processor] = [structlog.processors.JSONRenderer(ensure_ascii=False)]
    is_text = options.log_format == "auto" and sys.stderr.isatty()
    if is_text or options.log_format == "text":
        last = [_join_stack, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    structlog.configure(
        processors=[flood, *shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    handler.addFilter(flood)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries log each HTTP call with its address, which may be private.
    root.setLevel(max(level, logging.WARNING))
    logging.getLogger("ragstone").setLevel(level)


def _join_stack(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Write the stack as one text, which is what the renderer of text logs expects."""
    if isinstance(event.get("stack"), list):
        event["stack"] = "\n".join(event["stack"])
    return event


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
    """Write four lines for each search as its stages end, and one summary line per query.

    A stage that is switched off has its line too, with the count that it passes on.
    """

    def __init__(self, *, with_text: bool) -> None:
        self._with_text = with_text
        self._log = structlog.get_logger("ragstone")

    def observe_stage(self, run: QueryRun, span: Span) -> None:
        found = _list_stages(run.trace.spans, span)
        for stage in found.due:
            self._log.info(
                _EVENTS[stage],
                request_id=run.request_id,
                duration_ms=round(span.duration_ms, 3) if stage == found.current else 0.0,
                **found.fields(stage),
            )
        if found.current == "search" and not found.fields("search")["chunks_retrieved"]:
            self._log.warning("no chunks found", request_id=run.request_id)
        if found.current == "context" and span.counts.get("is_truncated"):
            self._log.warning(
                "context truncated",
                request_id=run.request_id,
                sources_left_out=span.counts["sources_left_out"],
                **found.fields("context"),
            )

    def observe_answer(self, answer: Answer) -> None:
        run = answer.trace
        texts = {"question": answer.question, "answer": answer.text} if self._with_text else {}
        self._log.info("query", request_id=run["request_id"], **summarize_answer(answer), **texts)


@dataclass(frozen=True, slots=True)
class _Stages:
    """Hold the figures of the stages since the last search, and which lines are due now."""

    counts: Mapping[str, Mapping[str, Any]]
    current: str = ""
    due: tuple[str, ...] = ()

    def fields(self, stage: str) -> dict[str, Any]:
        """Return the fields of a stage's line; one that did not run passes on what it got."""
        own = self.counts.get(stage, {})
        passed = {"filter": "chunks_after_filter", "rerank": "chunks_after_rerank"}
        fields = {name: own.get(name, empty) for name, empty in _FIELDS[stage].items()}
        if stage in passed and passed[stage] not in own:
            before = self.fields("search" if stage == "filter" else "filter")
            count = before.get("chunks_after_filter", before.get("chunks_retrieved"))
            fields[passed[stage]] = own.get("chunks_out", count)
        return fields


def _list_stages(spans: Sequence[Any], span: Span | None = None) -> _Stages:
    """Read the stages since the last search, and which lines are due at the end of `span`."""
    counts: dict[str, Mapping[str, Any]] = {}
    for one in spans:
        name, figures = (
            (one.stage, one.counts) if isinstance(one, Span) else (one["stage"], one["counts"])
        )
        stage = _STAGES.get(name)
        # Whole documents are read in order, after a search or in place of one.
        if name == "retrieve.sequential" and "search" in counts:
            continue
        if stage == "search":
            counts = {}
        if stage is not None:
            counts[stage] = figures
    current = _STAGES.get(span.stage, "") if span is not None else ""
    if not current or counts.get(current) is not getattr(span, "counts", None):
        return _Stages(counts)
    # The last stage ends the search: what has not run until then is switched off.
    skipped = [stage for stage in _FIELDS if stage not in counts] if current == "context" else []
    return _Stages(counts, current, (*skipped, current))


def summarize_answer(answer: Answer) -> dict[str, Any]:
    """Build the fields of the one line that a query logs."""
    stages = _list_stages(answer.trace.get("spans", ()))
    search, kept, ranked = (stages.fields(one) for one in ("search", "filter", "rerank"))
    is_searched = "search" in stages.counts
    return {
        "query_id": answer.query_id,
        "collection": answer.collection,
        "rag_enabled": answer.route != "plain",
        "top_k": answer.top_k or None,
        "initial_k": search["initial_k"] if is_searched else None,
        "filtered_k": kept["chunks_after_filter"] if is_searched else None,
        "final_k": len(answer.sources),
        "threshold": kept["threshold_used"],
        "fallback": kept["fallback_triggered"],
        "reranker": ranked["reranker_type"],
        "scores_range": search["scores_range"],
        "context_size": sum(len(source.prompt_text) for source in answer.sources),
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


# The stages that have a line, in their order, with its fields and their values when it is off.
_FIELDS: dict[str, dict[str, Any]] = {
    "search": {"initial_k": 0, "chunks_retrieved": 0, "scores_range": []},
    "filter": {
        "chunks_after_filter": 0,
        "threshold_used": 0.0,
        "fallback_triggered": False,
        "filtered_scores": [],
    },
    "rerank": {"chunks_after_rerank": 0, "reranker_type": "none", "rerank_scores": []},
    "context": {"final_chunks_count": 0, "context_size_chars": 0},
}
_EVENTS = {
    "search": "initial retrieval",
    "filter": "after filter",
    "rerank": "after rerank",
    "context": "final context",
}
_STAGES = {
    "fuse": "search",
    "retrieve.sequential": "search",
    "refine.filter": "filter",
    "refine.rerank": "rerank",
    "ground.context": "context",
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
