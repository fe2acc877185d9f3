"""Measure the CPU time of one search for every preset over a large collection: embedding of the
question, retrieval and refinement, through the engine as an endpoint calls it.

    python bench/latency.py --size 200000
    python bench/latency.py --size 200000 --careful MODELS    # with the cross-encoder

The collection is that of bench/search.py; it is stored once, in bench/cache. Every preset runs in
a process of its own, after some questions that are not counted. CPU time counts all threads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from corpus import CACHE, DEFAULT_DATA, write_corpus
from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.settings import load_settings

PRESETS = ("minimal", "classic", "balanced")
# Questions that are not counted; the cross-encoder takes a second for each.
WARM = {"minimal": 100, "classic": 100, "balanced": 100, "careful": 5}
REPORT = Path(__file__).parent / "out" / "latency.json"


def prepare_store(size: int, data: Path) -> Path:
    """Fill a data directory with the collection, once."""
    from search_systems import build_ragstone

    folder = write_corpus(size, data)
    home = CACHE / f"search-{size}" / "home"
    if not (home / "built.json").is_file():
        home.mkdir(exist_ok=True)
        builder = multiprocessing.get_context("spawn").Process(
            target=build_ragstone, args=(folder, home)
        )
        builder.start()
        builder.join()
    return home


class BenchEmbedder(OnnxEmbedder):
    """The shipped embedder under the name that the collection was filled with."""

    name = "bench"


async def measure_preset(
    home: Path, preset: str, questions: list[str], models: Path | None
) -> None:
    flags: dict[str, Any] = {"data.directory": home, "preset": preset}
    if models is not None:
        flags["data.models"] = models
    engine = Engine(load_settings(flags=flags, environ={}).settings, embedder=BenchEmbedder())
    spent: list[float] = []
    stages: dict[str, list[float]] = defaultdict(list)
    for at, question in enumerate(questions):
        begun = time.process_time()
        _, trace = await engine.search_traced(question, collection="bench")
        took = (time.process_time() - begun) * 1000
        if at >= WARM[preset]:
            spent.append(took)
            for span in trace.spans:
                stages[span.stage].append(span.cpu_ms)
    engine.close()
    figures = json.loads(REPORT.read_text()) if REPORT.is_file() else {}
    p50, p95, p99 = np.percentile(spent, [50, 95, 99])
    figures[preset] = {"p50": p50, "p95": p95, "p99": p99}
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(figures, indent=2))
    by_stage = ", ".join(f"{stage} {np.median(ms):.2f}" for stage, ms in stages.items())
    print(
        f"| {preset} | {p50:.1f} | {p95:.1f} | {p99:.1f} | {np.mean(spent):.1f} | {by_stage} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--size", type=int, default=200_000)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--careful", type=Path, metavar="MODELS")
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    home = prepare_store(options.size, options.data)
    if options.only:
        file = CACHE / f"search-{options.size}" / "questions.json"
        questions = json.loads(file.read_text("utf-8"))[: options.questions]
        asyncio.run(measure_preset(home, options.only, questions, options.careful))
        return
    print(f"{options.size:,} chunks, {os.cpu_count()} cores, CPU ms of one search", flush=True)
    print("| preset | p50 | p95 | p99 | mean | median of each stage |\n|---|---|---|---|---|---|")
    for preset in (*PRESETS, *(["careful"] if options.careful else [])):
        count = min(options.questions, 45) if preset == "careful" else options.questions
        further = ["--careful", str(options.careful)] if options.careful else []
        subprocess.run(
            [
                sys.executable,
                __file__,
                "--only",
                preset,
                "--size",
                str(options.size),
                "--questions",
                str(count),
                *further,
            ],
            check=True,
        )


if __name__ == "__main__":
    main()
