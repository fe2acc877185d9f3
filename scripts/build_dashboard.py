"""Write deploy/grafana.json, the dashboard of the metrics; `--check` says whether it is current."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "deploy" / "grafana.json"
P95 = "histogram_quantile(0.95, sum by (le, {by}) (rate({name}_bucket[5m])))"
# Title, unit, and the queries with their legends.
PANELS: list[tuple[str, str, list[tuple[str, str]]]] = [
    ("Requests by status", "reqps",
     [("sum by (status) (rate(ragstone_http_requests_total[5m]))", "{{status}}")]),
    ("p95 by endpoint", "s",
     [(P95.format(by="route", name="ragstone_http_request_seconds"), "{{route}}")]),
    ("p95 by stage", "s", [(P95.format(by="stage", name="ragstone_stage_seconds"), "{{stage}}")]),
    ("Answers by outcome", "ops",
     [("sum by (status) (rate(ragstone_answers_total[5m]))", "{{status}}"),
      ("sum(rate(ragstone_ungrounded_answers_total[5m]))", "ungrounded")]),
    ("Quality, mean", "percentunit",
     [("sum by (signal) (rate(ragstone_quality_sum[15m])) "
       "/ sum by (signal) (rate(ragstone_quality_count[15m]))", "{{signal}}")]),
    ("Degradations by fallback level", "ops",
     [("sum by (fallback) (rate(ragstone_degraded_total[5m]))", "{{fallback}}")]),
    ("Errors by component", "ops",
     [("sum by (component, error) (rate(ragstone_errors_total[5m]))", "{{component}} {{error}}")]),
    ("Tokens", "short",
     [("sum by (model, direction) (rate(ragstone_tokens_total[5m]))", "{{model}} {{direction}}")]),
    ("Cost per hour", "currencyUSD",
     [("sum by (model) (rate(ragstone_cost_usd_total[1h])) * 3600", "{{model}}")]),
    ("Running and waiting", "short",
     [("sum(ragstone_answers_running)", "running"), ("sum(ragstone_answers_waiting)", "waiting"),
      ("sum(ragstone_http_in_flight)", "requests")]),
]  # fmt: skip


def build_panel(
    number: int, title: str, unit: str, queries: list[tuple[str, str]]
) -> dict[str, Any]:
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(65 + at), "expr": expression, "legendFormat": legend}
            for at, (expression, legend) in enumerate(queries)
        ],
    }


def build_dashboard() -> dict[str, Any]:
    return {
        "title": "Ragstone",
        "uid": "ragstone",
        "tags": ["ragstone"],
        "timezone": "browser",
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [
                {"name": "source", "type": "datasource", "query": "prometheus", "label": "Source"}
            ]
        },
        "panels": [build_panel(number, *entry) for number, entry in enumerate(PANELS)],
    }


def main() -> int:
    text = json.dumps(build_dashboard(), indent=2) + "\n"
    if "--check" in sys.argv:
        return int(not TARGET.exists() or TARGET.read_text("utf-8") != text)
    TARGET.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
