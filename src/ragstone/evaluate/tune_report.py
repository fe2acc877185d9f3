"""What tuning found, as a page with plots and as Markdown."""

from __future__ import annotations

from html import escape
from typing import Any

from ragstone.evaluate.plots import Axis, Series, plot
from ragstone.evaluate.report import html_table, markdown_table, page
from ragstone.evaluate.tune import Swept, Tuned, value_at

_WORKFLOW = (
    "Search without a threshold and look at the similarities of every question's first ten hits.",
    "For each threshold count the relevant hits that stay, and the others.",
    "Take the highest that loses at most 1 % of the relevant hits.",
    "Check it on questions that had no part in the choice.",
    "Do this again when the embedder or the kind of documents changes: similarities have no scale "
    "of their own.",
)


def html_page(tuned: Tuned, toml: str) -> str:
    title = f"Tuning on {tuned.dataset.name}"
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="about">{tuned.tuned_on} questions to tune on, {tuned.checked_on} held back</p>',
        f"<p><b>{escape(tuned.sentence)}</b></p>",
        f"<pre>{escape(toml)}</pre>",
        html_table(_COLUMNS, _rows(tuned)),
        "<h2>Quality against each value</h2>",
        '<div class="plots">',
        *(_value_plot(one) for one in tuned.swept),
        "</div>",
        "<h2>Quality against cost</h2>",
        '<div class="plots">',
        _cost_plot(tuned),
        "</div>",
        "<h2>The similarity threshold</h2>",
        f"<p>{escape(_threshold_sentence(tuned))}</p>",
        '<div class="plots">',
        _threshold_plot(tuned),
        "</div><ol>",
        *(f"<li>{escape(step)}</li>" for step in _WORKFLOW),
        "</ol>",
    ]
    return page(title, "\n".join(body))


def markdown_page(tuned: Tuned, toml: str) -> str:
    lines = [
        f"# Tuning on {tuned.dataset.name}", "", tuned.sentence, "",
        "```toml", toml.rstrip(), "```", "",
        *markdown_table(_COLUMNS, _rows(tuned)), "", _threshold_sentence(tuned), "",
        *(f"{number}. {step}" for number, step in enumerate(_WORKFLOW, start=1)),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def as_dict(tuned: Tuned) -> dict[str, Any]:
    return {
        "dataset": tuned.dataset.name,
        "sentence": tuned.sentence,
        "values": dict(tuned.values),
        "rejected": dict(tuned.rejected),
        "threshold": tuned.threshold,
        "held_back": {
            "before": tuned.before, "after": tuned.after, "low": tuned.interval[0],
            "high": tuned.interval[1], "questions": tuned.checked_on,
        },
        "swept": [
            {"setting": one.path, "before": one.before, "taken": one.taken,
             "tried": [{"value": t.value, "ndcg@10": t.quality, "cpu_ms": t.cpu_ms}
                       for t in one.tried]}
            for one in tuned.swept
        ],
        "threshold_curve": [
            {"threshold": one.threshold, "relevant_kept": one.relevant_kept,
             "others_kept": one.others_kept}
            for one in tuned.curve
        ],
    }  # fmt: skip


_COLUMNS = ["setting", "before", "best of those tried", "taken", "nDCG@10 on the tuning half"]


def _rows(tuned: Tuned) -> list[list[str]]:
    rows = []
    for one in tuned.swept:
        best = max(one.tried, key=lambda tried: tried.quality)
        held = next(tried for tried in one.tried if tried.value == one.before)
        taken = f"{one.taken:g}" if one.taken != one.before else "as before"
        span = f"{held.quality:.4f} before, {best.quality:.4f} at best"
        rows.append([one.path, f"{one.before:g}", f"{best.value:g}", taken, span])
    was = value_at(tuned.settings, "refine.min_similarity")
    kept = tuned.values.get("refine.min_similarity")
    rows.append(["refine.min_similarity", f"{was:g}", f"{tuned.threshold:g}",
                 "as before" if kept is None else f"{kept:g}", "by its own curve"])  # fmt: skip
    return rows


def _value_plot(one: Swept) -> str:
    points = [(tried.value, tried.quality) for tried in one.tried]
    return plot(
        one.path, [Series("", points), Series("", points, kind="dots")],
        Axis(one.path.rpartition(".")[2]), Axis("nDCG@10"),
        mark=one.taken, mark_label="taken" if one.taken != one.before else "kept",
    )  # fmt: skip


def _cost_plot(tuned: Tuned) -> str:
    series = [
        Series(
            one.path.rpartition(".")[2], [(t.cpu_ms, t.quality) for t in one.tried], "dots",
            colour=number % 4 + 1,
        )
        for number, one in enumerate(tuned.swept)
    ]  # fmt: skip
    return plot(
        "Every value that was tried", series, Axis("CPU ms per search", 0, None), Axis("nDCG@10")
    )


def _threshold_plot(tuned: Tuned) -> str:
    return plot(
        "What a threshold keeps of the first ten hits",
        [
            Series("relevant hits", [(one.threshold, one.relevant_kept) for one in tuned.curve]),
            Series("others", [(one.threshold, one.others_kept) for one in tuned.curve], colour=2),
        ],
        Axis("RAG_MIN_SIMILARITY", 0, None), Axis("share kept", 0, 1),
        mark=tuned.threshold, mark_label="recommended",
    )  # fmt: skip


def _threshold_sentence(tuned: Tuned) -> str:
    kept = tuned.kept_on_check
    if kept is None:
        return f"Recommended: RAG_MIN_SIMILARITY={tuned.threshold:g}."
    return (
        f"Recommended: RAG_MIN_SIMILARITY={tuned.threshold:g}. On the held-back half it keeps "
        f"{kept.relevant_kept:.1%} of the relevant hits and {kept.others_kept:.1%} of the others."
    )
