"""The report of an evaluation: one HTML file that needs nothing beside it, and Markdown.

Runs and their summaries in → a file out, with plots and the worst questions down to their traces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from ragstone import __version__
from ragstone.errors import InputError
from ragstone.evaluate.compare import threshold_curve, way_in_words
from ragstone.evaluate.datasets import Question
from ragstone.evaluate.plots import Axis, Series, histogram, horizontal_bars, plot
from ragstone.evaluate.run import Outcome, Run
from ragstone.evaluate.summary import ByQuestion, Summary, main_measure, measures, shown
from ragstone.evaluate.tune import Swept, Tuned, value_at
from ragstone.files import replace_file

_WORST = 15
# A question went as badly as the worst of these: what was found, what was said, whether to speak.
_WENT_BADLY = ("ndcg@10", "containment", "decided_right")


def page(title: str, body: str) -> str:
    """A whole HTML page without scripts, pictures or anything from elsewhere."""
    text = resources.files("ragstone.evaluate").joinpath("page.html").read_text("utf-8")
    return Template(text).substitute(title=escape(title), body=body)


def write_report(runs: Sequence[Run], summaries: Mapping[str, Summary], path: Path | None) -> Path:
    """Both forms beside the results, or one of them at `path`. Gives where it is."""
    html, markdown = html_report(runs, summaries), markdown_report(runs, summaries)
    folder = runs[0].directory
    replace_file(folder / "report.html", html.encode())
    replace_file(folder / "report.md", markdown.encode())
    if path is None:
        return folder / "report.html"
    text = markdown if path.suffix == ".md" else html
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError as error:
        raise InputError(
            f"The report '{path}' cannot be written: {error.strerror}.",
            hint="Give --report the name of a file that ends in .html or .md.",
        ) from error
    return path


def html_report(runs: Sequence[Run], summaries: Mapping[str, Summary]) -> str:
    first = runs[0]
    title = f"{first.dataset.name}: {first.name}"
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="about">{escape(_about(first))}</p>',
        "<h2>Figures</h2>",
        html_table(_columns(runs), _rows(runs, summaries)),
        '<h2>Plots</h2><div class="plots">',
        *_plots(first, summaries[first.name]),
        "</div>",
        *_worst_html(first),
    ]
    return page(title, "\n".join(part for part in body if part))


def markdown_report(runs: Sequence[Run], summaries: Mapping[str, Summary]) -> str:
    first = runs[0]
    lines = [f"# {first.dataset.name}: {first.name}", "", _about(first), ""]
    lines += markdown_table(_columns(runs), _rows(runs, summaries))
    stages = summaries[first.name].stages
    if stages:
        rows = [(name, f"{low:g}", f"{high:g}") for name, (low, high) in stages.items()]
        lines += ["", *markdown_table(["stage", "median ms", "p95 ms"], rows)]
    lines += ["", "## Worst questions", ""]
    for question, outcome, value in worst(first):
        lines.append(f"- **{value:.3f}** {question.text}")
        lines += [f"  - `{target}`: {way_in_words(way)}" for target, way in outcome.ways.items()]
        if outcome.answer is not None:
            wanted = ", ".join(question.answers) or "–"
            lines.append(f"  - answer: {' '.join(outcome.answer.split())} (wanted: {wanted})")
    return "\n".join(lines) + "\n"


def _about(run: Run) -> str:
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    documents = f"{len(run.dataset.passages)} documents" if run.dataset.passages else (
        "the collection's own documents")  # fmt: skip
    return f"{len(run.outcomes)} questions, {documents} · Ragstone {__version__} · {when}"


def _columns(runs: Sequence[Run]) -> list[str]:
    return ["measure", runs[0].name, "95 %", "questions", *(run.name for run in runs[1:])]


def _rows(runs: Sequence[Run], summaries: Mapping[str, Summary]) -> list[list[str]]:
    rows = []
    for one in summaries[runs[0].name].figures:
        others = [summaries[run.name].figure(one.name) for run in runs[1:]]
        low, high = one.interval
        rows.append([
            one.name, shown(one.name, one.mean),
            f"{shown(one.name, low)} to {shown(one.name, high)}" if one.has_interval else "–",
            str(one.count), *(shown(one.name, other.mean) if other else "–" for other in others),
        ])  # fmt: skip
    return rows


def html_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(
        f"<th{' class=n' if at else ''}>{escape(name)}</th>" for at, name in enumerate(columns)
    )
    body = "".join(
        "<tr>" + "".join(f"<td{' class=n' if at else ''}>{escape(str(cell))}</td>"
                         for at, cell in enumerate(row)) + "</tr>"
        for row in rows
    )  # fmt: skip
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    return [
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(map(str, row))} |" for row in rows),
    ]


def _plots(run: Run, summary: Summary) -> list[str]:
    return [
        _scores_plot(run),
        _threshold_plot(run),
        plot(
            "Risk and coverage",
            [Series("wrong among those answered", summary.risk_coverage, colour=2)],
            Axis("share of questions answered", 0, 1), Axis("share wrong", 0, None),
        ),
        plot(
            "Reliability of the confidence",
            [
                Series("as it should be", [(0, 0), (1, 1)], colour=3, dashed=True),
                Series("measured", [(sure, right) for sure, right, _ in summary.reliability]),
                Series("", [(s, r) for s, r, _ in summary.reliability], kind="dots"),
            ],
            Axis("confidence", 0, 1), Axis("share right", 0, 1),
        ) if summary.reliability else "",
        horizontal_bars(
            "Time of each stage", [(name, low, high) for name, (low, high) in
                                   summary.stages.items()], "median / p95, ms",
        ),
        _latency_plot(run),
    ]  # fmt: skip


def _scores_plot(run: Run) -> str:
    targets = {one.id: {target.label for target in one.targets} for one in run.dataset.questions}
    found: dict[bool, list[float]] = {True: [], False: []}
    for outcome in run.outcomes:
        for label, _, similar in outcome.hits:
            if similar is not None and targets[outcome.id]:
                found[label in targets[outcome.id]].append(similar)
    if not found[True]:
        return ""
    return plot(
        "Similarity of hits",
        [
            Series("not relevant", histogram(found[False], low=0, high=1, bins=40), "bars", 2),
            Series("relevant", histogram(found[True], low=0, high=1, bins=40), "bars", 1),
        ],
        Axis("similarity to the question", 0, 1), Axis("share of the hits", 0, None),
    )  # fmt: skip


def _threshold_plot(run: Run) -> str:
    in_use = run.settings.refine.min_similarity
    # What the threshold in use dropped is not among the hits: below it nothing can be said.
    curve = [one for one in threshold_curve(run) if one.threshold >= in_use]
    if not curve:
        return ""
    return plot(
        "What a similarity threshold keeps",
        [
            Series("relevant hits", [(one.threshold, one.relevant_kept) for one in curve]),
            Series("other hits", [(one.threshold, one.others_kept) for one in curve], colour=2),
        ],
        Axis("RAG_MIN_SIMILARITY", 0, None), Axis("share kept of those found", 0, 1),
        mark=in_use, mark_label="in use",
    )  # fmt: skip


def _latency_plot(run: Run) -> str:
    times = sorted(one.latency_ms for one in run.outcomes if not one.error and one.latency_ms)
    points = [(value, (at + 1) / len(times)) for at, value in enumerate(times)]
    return plot(
        "Latency of a question", [Series("share answered within", points, colour=4)],
        Axis("milliseconds", 0, None), Axis("share of questions", 0, 1),
    )  # fmt: skip


def worst(run: Run) -> list[tuple[Question, Outcome, float]]:
    """The questions that went worst by any of the measures that count, failures first."""
    found = measures(run)
    values: dict[str, list[float]] = {}
    for name in _counting(found):
        for key, value in found[name].items():
            values.setdefault(key, []).append(value)
    outcomes = run.by_id
    asked = [one for one in run.dataset.questions if one.id in values or outcomes[one.id].error]
    low = {one.id: min(values.get(one.id, [0.0])) for one in asked}
    # Where all have the same worst value, as with answers of whole sentences, the others decide.
    asked.sort(key=lambda one: (not outcomes[one.id].error, low[one.id],
                                sum(values.get(one.id, [])), one.id))  # fmt: skip
    return [(one, outcomes[one.id], low[one.id]) for one in asked if low[one.id] < 1.0][:_WORST]


def _counting(found: ByQuestion) -> list[str]:
    names = [name for name in _WENT_BADLY if name in found] or [main_measure(found)]
    return [name for name in names if name]


def _worst_html(run: Run) -> list[str]:
    found = worst(run)
    if not found:
        return ["<h2>Worst questions</h2><p>None: every question has the best value.</p>"]
    rows = "".join(
        f'<tr><td><a href="#trace-{number}">{escape(question.text)}</a></td>'
        f"<td class=n>{value:.3f}</td></tr>"
        for number, (question, _, value) in enumerate(found, start=1)
    )
    measured = ", ".join(_counting(measures(run)))
    parts = [
        f"<h2>Worst questions</h2><p>By the lowest of {escape(measured)}.</p>",
        '<div class="wide"><table><tr><th>question</th><th class=n>lowest</th></tr>'
        f"{rows}</table></div><h2>Their traces</h2>",
    ]
    parts += [_trace_html(number, *entry) for number, entry in enumerate(found, start=1)]
    return parts


def _trace_html(number: int, question: Question, outcome: Outcome, value: float) -> str:
    said = [f"<p>{escape(outcome.error)}</p>"] if outcome.error else []
    if outcome.answer is not None:
        wanted = ", ".join(question.answers) or "not known"
        if question.answerable is False:
            wanted = "none: the documents do not say"
        said.append(
            f"<p>Answer ({escape(outcome.status)}, confidence {outcome.confidence:.2f}): "
            f"{escape(outcome.answer)}</p><p>Wanted: {escape(wanted)}</p>"
        )
    for target, way in outcome.ways.items():
        rows = [
            [str(step["stage"]), str(step["outcome"]), str(step["rank"] or "–"),
             "–" if step["score"] is None else f"{step['score']:.4f}", str(step["reason"])]
            for step in way
        ]  # fmt: skip
        said.append(f"<p>The way of <b>{escape(target)}</b>:</p>")
        said.append(
            html_table(["stage", "outcome", "rank", "score", "why"], rows)
            if rows
            else "<p>No stage saw it.</p>"
        )
    first = [[label, f"{score:.4f}", "–" if similar is None else f"{similar:.4f}"]
             for label, score, similar in outcome.hits[:5]]  # fmt: skip
    said.append("<p>First hits:</p>" + html_table(["document", "score", "similarity"], first))
    times = ", ".join(f"{name} {ms:.1f} ms" for name, ms in outcome.stages.items())
    notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in outcome.notes)
    return (
        f'<details id="trace-{number}"{" open" if number == 1 else ""}>'
        f"<summary>{value:.3f} · {escape(question.text)}</summary>{''.join(said)}{notes}"
        f"<p><small>{escape(times)} · question {escape(question.id)}</small></p></details>"
    )


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
        html_table(_COLUMNS, _tune_report_rows(tuned)),
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
        _tune_report_threshold_plot(tuned),
        "</div><ol>",
        *(f"<li>{escape(step)}</li>" for step in _WORKFLOW),
        "</ol>",
    ]
    return page(title, "\n".join(body))


def markdown_page(tuned: Tuned, toml: str) -> str:
    lines = [
        f"# Tuning on {tuned.dataset.name}", "", tuned.sentence, "",
        "```toml", toml.rstrip(), "```", "",
        *markdown_table(_COLUMNS, _tune_report_rows(tuned)), "", _threshold_sentence(tuned), "",
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


def _tune_report_rows(tuned: Tuned) -> list[list[str]]:
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


def _tune_report_threshold_plot(tuned: Tuned) -> str:
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
