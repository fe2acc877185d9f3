"""Who watches the queries of this process, as the settings say."""

from __future__ import annotations

from ragstone.observe import logs
from ragstone.observe.metrics import MetricsWatcher
from ragstone.observe.spans import SpanWatcher, exporting
from ragstone.settings import Settings
from ragstone.trace import Trace, Watcher


def watch(settings: Settings) -> None:
    """Log, count and send the queries of this process from now on."""
    options = settings.observe
    watchers: list[Watcher] = [logs.LogWatcher(with_text=options.log_text), MetricsWatcher()]
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
