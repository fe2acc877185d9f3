"""Render the result of tuning as an HTML page, as Markdown and as a dictionary."""

from __future__ import annotations

import dataclasses
from html import escape
from typing import Any

from ragstone.evaluate.plots import Axis, Series, draw_plot
from ragstone.evaluate.report import (
    draw_thresholds,
    render_html_table,
    render_markdown_table,
    render_page,
)
from ragstone.evaluate.tune import Sweep, TuningResult
from ragstone.settings import get_value

_WORKFLOW = (
    "Search without a threshold and look at the similarities of every question's first ten hits.",
    "For each threshold count the relevant hits and the other hits that it keeps.",
    "Take the highest threshold that loses at most 1 % of the relevant hits.",
    "Check it on questions that were not used to choose it.",
    "Repeat this when the embedder or the kind of documents changes: similarities of different "
    "embedders cannot be compared.",
)


def render_tuning_html(tuned: TuningResult, toml: str) -> str:
    title = f"Tuning on {tuned.dataset.name}"
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="about">{tuned.tuning_count} questions to tune on, '
        f"{tuned.check_count} held back</p>",
        f"<p><b>{escape(tuned.sentence)}</b></p>",
        f"<pre>{escape(toml)}</pre>",
        render_html_table(_SWEEP_COLUMNS, _sweep_rows(tuned)),
        "<h2>Quality against each value</h2>",
        '<div class="plots">',
        *(_draw_sweep(one) for one in tuned.sweeps),
        "</div>",
        "<h2>Quality against cost</h2>",
        '<div class="plots">',
        _draw_costs(tuned),
        "</div>",
        "<h2>The similarity threshold</h2>",
        f"<p>{escape(_describe_threshold(tuned))}</p>",
        '<div class="plots">',
        draw_thresholds(
            "What a threshold keeps of the first ten hits",
            tuned.curve,
            tuned.threshold,
            "recommended",
        ),
        "</div><ol>",
        *(f"<li>{escape(step)}</li>" for step in _WORKFLOW),
        "</ol>",
    ]
    return render_page(title, "\n".join(body))


def render_tuning_markdown(tuned: TuningResult, toml: str) -> str:
    blocks = [
        f"# Tuning on {tuned.dataset.name}",
        tuned.sentence,
        f"```toml\n{toml.rstrip()}\n```",
        "\n".join(render_markdown_table(_SWEEP_COLUMNS, _sweep_rows(tuned))),
        _describe_threshold(tuned),
        "\n".join(f"{number}. {step}" for number, step in enumerate(_WORKFLOW, start=1)),
    ]
    return "\n\n".join(blocks) + "\n"


def tuning_as_dict(tuned: TuningResult) -> dict[str, Any]:
    return {
        "dataset": tuned.dataset.name,
        "sentence": tuned.sentence,
        "values": dict(tuned.values),
        "rejected": dict(tuned.rejected),
        "threshold": tuned.threshold,
        "held_back": {
            "before": tuned.before,
            "after": tuned.after,
            "low": tuned.interval[0],
            "high": tuned.interval[1],
            "questions": tuned.check_count,
        },
        "swept": [
            {
                "setting": one.path,
                "before": one.before,
                "taken": one.chosen,
                "tried": [
                    {"value": t.value, "ndcg@10": t.quality, "cpu_ms": t.cpu_ms} for t in one.trials
                ],
            }
            for one in tuned.sweeps
        ],
        "threshold_curve": [dataclasses.asdict(one) for one in tuned.curve],
    }


_SWEEP_COLUMNS = ["setting", "before", "best value tried", "taken", "nDCG@10 on the tuning half"]


def _sweep_rows(tuned: TuningResult) -> list[list[str]]:
    rows = []
    for one in tuned.sweeps:
        best = max(one.trials, key=lambda trial: trial.quality)
        current = next(trial for trial in one.trials if trial.value == one.before)
        taken = f"{one.chosen:g}" if one.chosen != one.before else "as before"
        span = f"{current.quality:.4f} before, {best.quality:.4f} at best"
        rows.append([one.path, f"{one.before:g}", f"{best.value:g}", taken, span])
    path = "refine.min_similarity"
    before, chosen = get_value(tuned.settings, path), tuned.values.get(path)
    taken = "as before" if chosen is None else f"{chosen:g}"
    rows.append([path, f"{before:g}", f"{tuned.threshold:g}", taken, "see the threshold plot"])
    return rows


def _draw_sweep(one: Sweep) -> str:
    points = [(trial.value, trial.quality) for trial in one.trials]
    return draw_plot(
        one.path,
        [Series("", points), Series("", points, kind="dots")],
        Axis(one.path.rpartition(".")[2]),
        Axis("nDCG@10"),
        mark=one.chosen,
        mark_label="taken" if one.chosen != one.before else "kept",
    )


def _draw_costs(tuned: TuningResult) -> str:
    series = [
        Series(
            one.path.rpartition(".")[2],
            [(t.cpu_ms, t.quality) for t in one.trials],
            "dots",
            colour=number % 4 + 1,
        )
        for number, one in enumerate(tuned.sweeps)
    ]
    return draw_plot(
        "Every value tried", series, Axis("CPU ms per search", 0, None), Axis("nDCG@10")
    )


def _describe_threshold(tuned: TuningResult) -> str:
    point = tuned.check_point
    if point is None:
        return f"Recommended: RAG_MIN_SIMILARITY={tuned.threshold:g}."
    return (
        f"Recommended: RAG_MIN_SIMILARITY={tuned.threshold:g}. On the held-back half it keeps "
        f"{point.relevant_kept:.1%} of the relevant hits and {point.others_kept:.1%} of the rest."
    )
