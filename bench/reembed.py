"""Measure questions per second before, while and after a collection is embedded again.

    RAGSTONE_DATA_MODELS=MODELS ragstone models pull bge-small-en-v1.5
    python bench/reembed.py --models MODELS --model bge-small-en-v1.5

Documents are paragraphs of the samples, many times over. While `ragstone reembed` runs in a process
of its own and then switches, one client asks, and every few seconds one document is uploaded and
one deleted. At the end every document must be there once, with the vectors of the new model.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import numpy as np

from ragstone.engine import Engine
from ragstone.settings import load_settings

QUESTIONS = [
    "When does the lease end?", "How long is the notice period?", "Who repairs the dome?",
    "What does the catering cost?", "How many visitors came in July?", "What is the wind limit?",
]  # fmt: skip
CHANGE_S = 3.0


def write_documents(folder: Path, count: int) -> None:
    samples = Path(str(resources.files("ragstone.samples") / "documents"))
    texts = [path.read_text("utf-8") for path in sorted(samples.rglob("*.md"))]
    parts = [part for text in texts for part in text.split("\n\n") if len(part) > 200]
    for number in range(count):
        part = parts[number % len(parts)]
        (folder / f"{number:05}.txt").write_text(f"Record {number}.\n\n{part}")


async def ask_until(engine: Engine, is_over: Callable[[], bool]) -> list[float]:
    """Ask one question after the other; return how long each took."""
    times: list[float] = []
    while not (times and is_over()):
        begun = time.perf_counter()
        hits = await engine.search(QUESTIONS[len(times) % len(QUESTIONS)])
        assert hits, "a question found nothing"
        times.append(time.perf_counter() - begun)
    return times


def print_row(name: str, times: list[float]) -> None:
    p95 = sorted(times)[int(0.95 * (len(times) - 1))]
    print(
        f"{name:22} {len(times):9} {len(times) / sum(times):14.1f} "
        f"{1000 * statistics.median(times):9.0f} {1000 * p95:9.0f} {1000 * max(times):9.0f}",
        flush=True,
    )


async def change_documents(
    engine: Engine, folder: Path, names: set[str], stop: asyncio.Event
) -> None:
    for number in itertools.count(100_000):
        if stop.is_set():
            return
        path = folder / f"{number}.txt"
        path.write_text(f"Record {number} came while the vectors were made.")
        await engine.ingest([path])
        names.add(path.name)
        first = engine.documents(limit=1)[0]
        await engine.delete(first.id)
        names.discard(first.name)
        await asyncio.sleep(CHANGE_S)


def start(data: Path, models: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ragstone", "reembed", "--data", str(data), *options]
    environ = os.environ | {"RAGSTONE_DATA_MODELS": str(models)}
    return subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)


def check(engine: Engine, names: set[str]) -> None:
    stored = [one.name for one in engine.documents()]
    wrong = sorted(set(stored) ^ names)
    assert len(stored) == len(names), f"documents were lost or doubled: {wrong}"
    assert not wrong, f"documents were lost or doubled: {wrong}"
    embedder, index = engine.find_search_parts("default")
    added = [one.keys for one in engine.catalog.changes("default", after=0, limit=10**9)
             if one.kind == "add"]  # fmt: skip
    chunks, vectors = engine.catalog.chunks_with_vectors(
        added, dimension=embedder.dimension, embedder=embedder.name
    )
    assert index.counts("default").dense == len(chunks) == engine.catalog.counts("default").chunks
    sample = list(range(0, len(chunks), max(1, len(chunks) // 50)))
    wanted = embedder.embed([chunks[at].contextual_text for at in sample])
    # The activations of an int8 model are scaled by batch, so the same text gets slightly other
    # vectors beside other texts; those of another model would be unrelated (about 0).
    similarity = float(np.sum(vectors[sample] * wanted, axis=1).min())
    assert similarity > 0.95, f"a vector is not of the new model: {similarity:.3f}"
    print(f"{len(stored):,} documents, {len(chunks):,} chunks: none lost, none doubled, all with "
          f"{embedder.name} (lowest cosine to its vectors {similarity:.4f})")  # fmt: skip


async def measure(arguments: argparse.Namespace, folder: Path) -> None:
    data, files = folder / "data", folder / "files"
    files.mkdir()
    write_documents(files, arguments.documents)
    flags = {
        "data.directory": data,
        "data.models": arguments.models,
        "data.answer_cache": 0,
        "journal.query_log": "off",
    }
    engine = Engine(load_settings(flags=flags, environ={}).settings)
    await engine.ingest([files])
    names = {one.name for one in engine.documents()}
    print("                       questions  questions/s  median ms    p95 ms    max ms")
    end = time.monotonic() + arguments.seconds
    print_row("before", await ask_until(engine, lambda: time.monotonic() > end))
    stop = asyncio.Event()
    changing = asyncio.ensure_future(change_documents(engine, files, names, stop))
    rate = ["--rate", str(arguments.rate)] if arguments.rate else []
    filling = start(data, arguments.models, "--model", arguments.model, *rate)
    print_row("while it is filled", await ask_until(engine, lambda: filling.poll() is not None))
    assert filling.returncode == 0
    switching = start(data, arguments.models, "--switch")
    print_row("while it is switched", await ask_until(engine, lambda: switching.poll() is not None))
    assert switching.returncode == 0
    stop.set()
    await changing
    engine.index.refresh("default")
    end = time.monotonic() + arguments.seconds
    print_row("after", await ask_until(engine, lambda: time.monotonic() > end))
    check(engine, names)
    assert start(data, arguments.models, "--drop").wait() == 0
    check(engine, names)
    engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask while a collection is embedded again.")
    parser.add_argument("--models", type=Path, required=True, help="folder of pulled models")
    parser.add_argument("--model", default="bge-small-en-v1.5")
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=0.0, help="chunks per second")
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(arguments, Path(folder)))


if __name__ == "__main__":
    main()
