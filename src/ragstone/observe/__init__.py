"""Export logs, metrics and spans, all from the trace of a query."""
