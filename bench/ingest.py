"""Measure the speed of ingesting a folder, against the embedder alone and against peers.

    python bench/ingest.py --folder FOLDER [--files 300] [--peers PYTHON] [--no-model]

Prints, one line each: the ingest (documents/s, chunks/s, CPU, peak memory), the embedder's own
ceiling on the same texts with as many threads, a second run over the unchanged folder, a run after
ten files changed, and the time of questions while an ingest runs. `--peers` is a Python that has
txtai, haystack-ai, llama-index-core, transformers and torch (see peers-requirements.txt); each
reads, splits, embeds and indexes the same folder with the same weights. `--no-model` replaces the
embedder by random vectors, to see everything else at full size.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np

from ragstone.engine import Engine
from ragstone.ingest.parser import pool
from ragstone.models.embedder import OnnxEmbedder
from ragstone.reports import IngestReport
from ragstone.settings import load_settings

_RATES = re.compile(r"([\d.]+) kB/s.* ([\d.]+) kB per CPU s")
QUESTIONS = (
    "How does the scheduler choose a node for a pod?",
    "What is a headless service?",
    "How can a secret be mounted as a file?",
    "When is a pod evicted from a node?",
    "How do I roll back a deployment?",
)


class RandomEmbedder:
    """An embedder without cost: vectors from the hash of a text."""

    name = "random"
    dimension = 384
    max_tokens = 256

    def __init__(self) -> None:
        self._real = OnnxEmbedder()
        self.tokenizer_file = self._real.tokenizer_file

    def token_starts(self, text: str) -> Sequence[int]:
        return self._real.token_starts(text)

    def embed(self, texts: Sequence[str]) -> np.ndarray:  # type: ignore[type-arg]
        rows = [
            np.random.default_rng(
                int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
            ).standard_normal(self.dimension, dtype=np.float32)
            for text in texts
        ]
        vectors = np.stack(rows) if rows else np.empty((0, self.dimension), dtype=np.float32)
        norms: np.ndarray = np.linalg.norm(vectors, axis=1, keepdims=True)  # type: ignore[type-arg]
        return vectors / norms


class Meter:
    """Measures wall time, CPU time and peak memory of this process and its children."""

    def __enter__(self) -> Meter:
        self._stop = threading.Event()
        self.peak = 0
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()
        self._wall, self._cpu = time.perf_counter(), _read_cpu_seconds()
        return self

    def _look(self) -> None:
        while not self._stop.wait(0.2):
            self.peak = max(self.peak, sum(_read_resident(pid) for pid in _list_family()))

    def __exit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self._wall
        self.cpu = _read_cpu_seconds() - self._cpu
        self._stop.set()
        self._watch.join()


def _list_family() -> list[int]:
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [os.getpid(), *(int(pid) for file in children for pid in file.read_text().split())]


def _read_resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def _read_cpu_seconds() -> float:
    total = 0.0
    for pid in _list_family():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def copy_sample(folder: Path, count: int, target: Path) -> list[Path]:
    """Copy every n-th file of a folder; the same files every time."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    chosen = files if count <= 0 else files[:: max(1, len(files) // count)][:count]
    copies = []
    for path in chosen:
        copy = target / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
        copies.append(copy)
    return copies


def print_line(what: str, meter: Meter, chunks: int, documents: int) -> None:
    print(
        f"{what}: {documents} documents, {chunks} chunks in {meter.wall:.1f} s · "
        f"{documents / meter.wall:.1f} documents/s · {chunks / meter.wall:.1f} chunks/s · "
        f"{meter.cpu / max(1, chunks) * 1000:.1f} CPU ms/chunk · peak {meter.peak / 1e6:.0f} MB",
        flush=True,
    )


def measure_ceiling(embedder: OnnxEmbedder, engine: Engine, part: int) -> Meter:
    """Measure the embedder alone on every `part`-th document, one thread per core."""
    groups = [
        list(engine.records.vectors_by_text(document.id)) for document in engine.documents()[::part]
    ]
    with Meter() as meter, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        list(threads.map(embedder.embed, groups))
    chunks = sum(map(len, groups))
    print_line(f"embedder alone (every {part}. document)", meter, chunks, len(groups))
    meter.chunks = chunks  # type: ignore[attr-defined]
    return meter


async def summarise_latencies(engine: Engine, seconds: float) -> list[float]:
    took, end, at = [], time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        begun = time.perf_counter()
        await engine.search(QUESTIONS[at % len(QUESTIONS)])
        took.append((time.perf_counter() - begun) * 1000)
        at += 1
        await asyncio.sleep(0.1)
    return took


async def ask_meanwhile(engine: Engine, folder: Path) -> None:
    await summarise_latencies(engine, 1)
    idle = await summarise_latencies(engine, 10)
    task = asyncio.create_task(engine.ingest([folder], collection="second"))
    await asyncio.sleep(3)
    busy = await summarise_latencies(engine, 20)
    task.cancel()
    with_ingest = np.percentile(busy, [50, 95])
    alone = np.percentile(idle, [50, 95])
    print(
        f"questions alone: p50 {alone[0]:.1f} ms, p95 {alone[1]:.1f} ms · while an ingest runs: "
        f"p50 {with_ingest[0]:.1f} ms, p95 {with_ingest[1]:.1f} ms "
        f"({with_ingest[1] / alone[1]:.1f} times)",
        flush=True,
    )
    with suppress(asyncio.CancelledError):
        await task


def run_ingest(engine: Engine, folder: Path) -> IngestReport:
    return asyncio.run(engine.ingest([folder]))


def measure_ragstone(folder: Path, files: list[Path], *, model: bool) -> tuple[float, float]:
    """Measure Ragstone; return its kilobytes per second and per CPU second."""
    embedder = OnnxEmbedder() if model else RandomEmbedder()
    embedder.embed(["warm"])
    with tempfile.TemporaryDirectory() as data:
        # The same priority for both, or other work would slow down the one and not the other.
        flags = {"data.directory": Path(data), "ingest.niceness": 0}
        engine = Engine(load_settings(flags=flags, environ={}).settings, embedder=embedder)
        # Like the peers: what happens once, starting the parser process, is not counted.
        (Path(data) / "warm.md").write_text("Nothing is counted that only happens once.\n" * 30)
        asyncio.run(engine.ingest([Path(data) / "warm.md"], collection="warm"))
        with Meter() as first:
            report = run_ingest(engine, folder)
        stored = len(report.of("added"))
        print_line("ragstone", first, report.chunk_count, stored)
        size = sum(path.stat().st_size for path in files)
        print(
            f"  {size / first.wall / 1000:.1f} kB/s · {first.cpu:.1f} CPU s · "
            f"{size / first.cpu / 1000:.1f} kB per CPU s"
        )
        for failed in report.of("failed")[:3]:
            print(f"  failed, e.g. {failed.name}: {failed.error}")
        print(f"  {len(report.of('failed'))} failed, {report.embedded_chunks} chunks embedded")
        with Meter() as second:
            run_ingest(engine, folder)
        print(f"unchanged: {second.wall:.2f} s, {second.wall / first.wall:.2%} of the first run")
        for path in files[:10]:
            path.write_text(path.read_text("utf-8") + "\n\nOne more line at its end.\n", "utf-8")
        report = run_ingest(engine, folder)
        print(
            f"10 files changed: {len(report.of('updated'))} updated with "
            f"{sum(file.chunk_count for file in report.of('updated'))} chunks, "
            f"{report.embedded_chunks} embedded, {report.seconds:.2f} s"
        )
        if isinstance(embedder, OnnxEmbedder):
            alone = measure_ceiling(embedder, engine, 3)
            rate = alone.chunks / alone.wall  # type: ignore[attr-defined]
            cpu = alone.cpu / alone.chunks  # type: ignore[attr-defined]
            print(
                f"ragstone reaches {stored and parse_rate(first, engine) / rate:.0%} of the "
                f"embedder's ceiling in wall time; the embedder takes {cpu * 1000:.1f} of the "
                f"{first.cpu / count_chunks(engine) * 1000:.1f} CPU ms per chunk"
            )
            engine.close()
            # As it is shipped: embedding steps back for questions.
            engine = Engine(
                load_settings(flags={"data.directory": Path(data)}, environ={}).settings,
                embedder=embedder,
            )
            asyncio.run(ask_meanwhile(engine, folder))
        engine.close()
    return size / first.wall / 1000, size / first.cpu / 1000


def count_chunks(engine: Engine) -> int:
    return sum(document.chunk_count for document in engine.documents())


def parse_rate(meter: Meter, engine: Engine) -> float:
    return count_chunks(engine) / meter.wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--files", type=int, default=300, help="0 is all")
    parser.add_argument("--peers", type=Path, help="a Python with the peers")
    parser.add_argument("--weights", type=Path, help="all-MiniLM-L6-v2 as transformers reads it")
    parser.add_argument("--no-model", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "documents")
        files = copy_sample(options.folder, options.files, folder)
        size = sum(path.stat().st_size for path in files)
        print(
            f"{len(files)} files, {size / 1e6:.1f} MB, {len(os.sched_getaffinity(0))} cores",
            flush=True,
        )
        peers: dict[str, re.Match[str]] = {}
        if options.peers:
            for peer in ("txtai", "haystack", "llamaindex"):
                script = Path(__file__).with_name("ingest_peers.py")
                command = [options.peers, script, peer, folder, options.weights]
                done = subprocess.run(
                    [str(part) for part in command], check=False, stdout=subprocess.PIPE, text=True
                )
                print(done.stdout.strip() or f"{peer}: failed", flush=True)
                peers |= {peer: rates} if (rates := _RATES.search(done.stdout)) else {}
        ours = measure_ragstone(folder, files, model=not options.no_model)
        for peer, rates in peers.items():
            clock, cpu = (float(rate) for rate in rates.groups())
            print(
                f"ragstone against {peer}: {ours[0] / clock:.2f} times as many bytes per second, "
                f"{ours[1] / cpu:.2f} times per CPU second"
            )
    pool._idle.stop()  # noqa: SLF001  so that their memory is not counted in what follows


if __name__ == "__main__":
    sys.exit(main())
