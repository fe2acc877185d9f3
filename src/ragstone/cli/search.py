"""`ragstone search`: the evidence alone, and why a chunk is or is not among it."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ragstone.cli import options
from ragstone.cli.options import out, print_json, print_table
from ragstone.types import DEFAULT_COLLECTION, Hit

if TYPE_CHECKING:
    from ragstone.query.explain import Explanation
    from ragstone.trace import QueryRun


def search(
    question: Annotated[str, typer.Argument(help="What to look for, in quotation marks.")],
    collection: options.Collection = DEFAULT_COLLECTION,
    method: Annotated[
        str | None, typer.Option(help="semantic, keyword or hybrid (default).")
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="How many hits to show.")] = None,
    filter: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            "-f",
            metavar="CONDITION",
            help="FIELD=VALUE, FIELD!=VALUE, FIELD>=VALUE; may be repeated, all must hold.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what each stage said of every hit.")
    ] = False,
    why_not: Annotated[
        str | None,
        typer.Option("--why-not", metavar="CHUNK", help="The way of one chunk, found or not."),
    ] = None,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Find the passages that answer a question, without writing an answer.

    Examples:

      ragstone search "notice period" --filter tags=contract --filter 'year>=2020'

      ragstone search "Who signed the lease?" --explain

      ragstone search "Who signed the lease?" --why-not 3f2a…:4
    """
    from ragstone.filters import all_of, parse_condition

    flags = {"retrieve.method": method, "refine.top_k": top_k}
    engine = options.open_engine(options.load(data, config, preset, set, **flags))
    limits = all_of(*(parse_condition(written) for written in filter or ()))
    try:
        options.require_collection(engine, collection)
        hits, run = asyncio.run(
            engine.search_traced(question, collection=collection, filters=limits)
        )
        if why_not is not None:
            found = asyncio.run(
                engine.explain(question, why_not, collection=collection, filters=limits)
            )
            print_explanation(found, as_json=json)
            return
    finally:
        engine.close()
    if json:
        print_json([_as_dict(hit) for hit in hits])
    elif explain:
        print_table(_COLUMNS, [_row(rank, hit) for rank, hit in enumerate(hits, start=1)])
        _print_stages(run)
    else:
        for rank, hit in enumerate(hits, start=1):
            _print_hit(rank, hit)


_COLUMNS = ["#", "score", "semantic", "keyword", "fused", "filter", "rerank", "combined",
            "MMR", "chunk", "document"]  # fmt: skip


def _row(rank: int, hit: Hit) -> list[str]:
    scores = hit.scores
    return [
        str(rank),
        f"{hit.score:.3f}",
        _placed(scores.dense_rank, scores.similarity),
        _placed(scores.keyword_rank, scores.keyword_score),
        _number(scores.fused),
        scores.filter or "–",
        _number(scores.rerank),
        _number(scores.combined),
        str(scores.mmr_rank or "–"),
        hit.chunk.id,
        _where(hit),
    ]


def _placed(rank: int | None, score: float | None) -> str:
    """A rank and its score: `3 (0.71)`; `– (0.31)` for a score without a place in the list."""
    return f"{rank or '–'} ({_number(score)})"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _where(hit: Hit) -> str:
    page = f", page {hit.chunk.page}" if hit.chunk.page else ""
    return f"{hit.chunk.document_name}{page}"


def _print_hit(rank: int, hit: Hit) -> None:
    console = out()
    console.print(
        f"[bold]{rank}[/] [cyan]{hit.score:.3f}[/] [bold]{escape(_where(hit))}[/] "
        f"[dim]{escape(hit.chunk.id)}[/]"
    )
    text = " ".join(hit.chunk.text.split())
    console.print(f"    {escape(text[:240] + ('…' if len(text) > 240 else ''))}", style="dim")


def _print_stages(run: QueryRun) -> None:
    rows = [
        (
            span.stage,
            f"{span.duration_ms:.1f} ms",
            ", ".join(f"{name} {value}" for name, value in span.counts.items()
                      if not isinstance(value, list)),
            "; ".join(span.notes),
        )
        for span in run.trace.spans
    ]  # fmt: skip
    out().print()
    print_table(["stage", "time", "figures", "notes"], rows)


def print_explanation(found: Explanation, *, as_json: bool) -> None:
    chunk = found.chunk
    if as_json:
        steps = [dataclasses.asdict(step) for step in found.steps]
        print_json({"chunk_id": chunk.id, "verdict": found.verdict, "steps": steps})
        return
    out().print(f"[bold]{escape(chunk.id)}[/] of {escape(chunk.document_name)}")
    rows = [
        (
            step.stage,
            step.outcome,
            step.rank or "–",
            _number(step.score),
            step.reason or ", ".join(f"{name} {value}" for name, value in step.said.items()),
        )
        for step in found.steps
    ]
    print_table(["stage", "outcome", "rank", "score", "what it said"], rows)
    out().print(f"[bold]{escape(found.verdict)}[/]")


def _as_dict(hit: Hit) -> dict[str, Any]:
    chunk = hit.chunk
    return {
        "chunk_id": chunk.id,
        "document_id": chunk.document_id,
        "document_name": chunk.document_name,
        "page": chunk.page,
        "start": chunk.start,
        "end": chunk.end,
        "text": chunk.text,
        "score": hit.score,
        "method": hit.method,
        "scores": dataclasses.asdict(hit.scores),
    }
