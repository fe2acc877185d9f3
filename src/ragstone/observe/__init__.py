"""What can be seen from outside: logs, metrics and spans, all drawn from the trace of a query."""
