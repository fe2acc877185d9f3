"""What is asked and how well it is answered: the journal's short lines added up.

lines of the journal → volume by day, latency by stage, what went unanswered, what was used, cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

Line: TypeAlias = Mapping[str, Any]

MOST_LINES = 50_000
"""Newest first; beyond this an analysis says that it saw only a part."""
_LISTED = 20


def analyse(lines: Sequence[Line]) -> dict[str, Any]:
    """Every figure from lines with `figures`; small talk counts as a query and nothing else."""
    asked = [line for line in lines if _figures(line).get("provider") != "none"]
    unanswered = [line for line in asked if line["status"] == "abstained"]
    answered = [line for line in asked if line["status"] == "answered"]
    ungrounded = [line for line in answered if not _figures(line).get("is_grounded")]
    degraded = Counter(name for line in lines for name in _figures(line).get("degraded", ()))
    costs = [cost for line in lines if (cost := _figures(line).get("cost_usd")) is not None]
    return {
        "queries": {
            "total": len(lines),
            "small_talk": len(lines) - len(asked),
            "answered": len(answered),
            "unanswered": len(unanswered),
            "ungrounded": len(ungrounded),
        },
        "per_day": _per_day(lines),
        "latency_ms": {
            "total": _spread([_figures(line).get("total_ms", 0.0) for line in lines]),
            "stages": _stages(lines),
        },
        "unanswered": _questions(unanswered),
        "ungrounded": _questions(ungrounded),
        "slow": _slow(lines),
        "documents": _documents(asked),
        "degraded": dict(degraded.most_common()),
        "tokens": {
            "input": sum(_figures(line).get("input_tokens", 0) for line in lines),
            "output": sum(_figures(line).get("output_tokens", 0) for line in lines),
        },
        "cost_usd": round(sum(costs), 6) if costs else None,
    }


def _figures(line: Line) -> Mapping[str, Any]:
    """Empty for a query that was asked before figures were kept."""
    return line["figures"] or {}


def _per_day(lines: Iterable[Line]) -> list[dict[str, Any]]:
    days: dict[str, Counter[str]] = {}
    for line in lines:
        day = datetime.fromtimestamp(line["created_at"], UTC).date().isoformat()
        days.setdefault(day, Counter())[line["status"]] += 1
    return [
        {"day": day, "queries": count.total(), "unanswered": count["abstained"]}
        for day, count in sorted(days.items())
    ]


def _stages(lines: Iterable[Line]) -> dict[str, dict[str, float]]:
    took: dict[str, list[float]] = {}
    for line in lines:
        for stage, ms in _figures(line).get("stages", {}).items():
            took.setdefault(stage, []).append(ms)
    return {stage: _spread(values) for stage, values in took.items()}


def _spread(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {"count": 0, "mean": 0.0, "p50": 0.0, "p95": 0.0, "p99": 0.0}
    ordered = sorted(values)

    def rank(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)

    mean = round(sum(ordered) / len(ordered), 3)
    return {"count": len(ordered), "mean": mean, "p50": rank(0.5), "p95": rank(0.95),
            "p99": rank(0.99)}  # fmt: skip


def _questions(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """Those asked most often first, then the newest; the same words are one question."""
    groups: dict[str, dict[str, Any]] = {}
    for line in lines:  # newest first
        text = line["question"]
        same = " ".join(text.casefold().split()).rstrip("?!. ") if text else line["id"]
        group = groups.setdefault(same, {**_named(line), "count": 0})
        group["count"] += 1
    return sorted(groups.values(), key=lambda one: (-one["count"], -one["created_at"]))[:_LISTED]


def _slow(lines: Sequence[Line]) -> list[dict[str, Any]]:
    order = sorted(lines, key=lambda line: -_figures(line).get("total_ms", 0.0))
    return [{**_named(line), "total_ms": _figures(line).get("total_ms", 0.0)}
            for line in order[:_LISTED]]  # fmt: skip


def _named(line: Line) -> dict[str, Any]:
    return {
        "query_id": line["id"],
        "query": line["question"],
        "collection": line["collection"],
        "created_at": line["created_at"],
    }


def _documents(lines: Iterable[Line]) -> list[dict[str, Any]]:
    used: Counter[str] = Counter()
    names: dict[str, str] = {}
    for line in lines:
        for document_id, name in _figures(line).get("documents", {}).items():
            used[document_id] += 1
            names.setdefault(document_id, name)
    order = sorted(used.items(), key=lambda item: (-item[1], item[0]))
    return [{"document_id": document_id, "name": names[document_id], "answers": count}
            for document_id, count in order[:_LISTED]]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A text to offer, and where it is from."""

    text: str
    kind: Literal["history", "heading"]
    collection: str


def suggest(
    prefix: str,
    asked: Sequence[tuple[str, str]],
    headings: Iterable[tuple[str, str]],
    *,
    limit: int,
) -> list[Suggestion]:
    """`asked` (newest first) and `headings` are pairs of text and collection.

    A past question comes before a heading, a text that begins with the prefix before one that has
    it inside, and what was asked more often before the rest. Without a prefix: what is asked most.
    """
    wanted = " ".join(prefix.casefold().split())
    times = Counter(_same(text) for text, _ in asked)
    ranked: list[tuple[tuple[int, int, int, int], Suggestion]] = []
    seen: set[str] = set()
    offered = [
        *(Suggestion(text, "history", collection) for text, collection in asked),
        *(Suggestion(text, "heading", collection) for text, collection in headings),
    ]
    for place, one in enumerate(offered):
        match = _match(wanted, one.text)
        if match is None or _same(one.text) in seen:
            continue
        seen.add(_same(one.text))
        is_heading = one.kind == "heading"
        rank = (match, int(is_heading), 0 if is_heading else -times[_same(one.text)], place)
        ranked.append((rank, one))
    return [one for _, one in sorted(ranked, key=lambda pair: pair[0])[:limit]]


def _match(wanted: str, text: str) -> int | None:
    """0: it begins with the prefix; 1: one of its words does; None: neither."""
    spoken = " ".join(text.casefold().split())
    if spoken.startswith(wanted):
        return 0
    return 1 if f" {wanted}" in spoken else None


def _same(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip("?!. ")
