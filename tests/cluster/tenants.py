"""Measure what many collections cost: opening, a question, an upload, memory, Qdrant collections.

    python -m tests.cluster.tenants 1 50 200

Every collection has three documents of one chunk. `first question` is the mean over all collections
of a process that has just opened the data, `question` that of a second one; `memory` is what this
process has after both. An upload is one more document into one collection. CPU times are those of
the process, without Qdrant's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import psutil

from ragstone.engine import Engine
from ragstone.settings import load_settings

from ..conformance.conftest import running_qdrant

DOCUMENTS = 3
HEADER = (
    "| index | collections | open + first question, CPU ms | first question, CPU ms | "
    "question, CPU ms (ms) | upload, CPU ms | list, CPU ms | process MB | Qdrant MB | "
    "Qdrant collections |"
)


def open_engine(folder: Path, url: str) -> Engine:
    flags: dict[str, object] = {"data.directory": folder / "data", "data.answer_cache": 0}
    if url:
        flags |= {"index.kind": "qdrant", "index.qdrant_url": url, "index.qdrant_timeout_s": 60}
    return Engine(load_settings(flags=flags, environ={"LLM_PROVIDER": "extractive"}).settings)


def name_of(number: int) -> str:
    return f"tenant-{number:03}"


async def fill(engine: Engine, folder: Path, count: int) -> None:
    for number in range(count):
        own = folder / name_of(number)
        own.mkdir()
        for at in range(DOCUMENTS):
            text = f"The locker {at} of tenant {number} has the code {number}{at}77."
            (own / f"{at}.txt").write_text(text)
        await engine.ingest([own], collection=name_of(number))


class Watch:
    """Measure CPU and wall-clock milliseconds since the last reading."""

    def __init__(self) -> None:
        self._began = self._read()

    def _read(self) -> tuple[float, float]:
        return time.process_time(), time.perf_counter()

    def lap(self) -> tuple[float, float]:
        now = self._read()
        cpu_ms, ms = (1000 * (b - a) for a, b in zip(self._began, now, strict=True))
        self._began = now
        return cpu_ms, ms


async def ask_all(engine: Engine, count: int, at: int) -> None:
    for number in range(count):
        found = await engine.ask(f"What is the code of locker {at}?", collection=name_of(number))
        assert f"{number}{at}77" in found.text, f"{name_of(number)}: {found.text}"


async def measure(folder: Path, url: str, count: int) -> dict[str, float]:
    watch = Watch()
    engine = open_engine(folder, url)
    await engine.ask("What is the code of locker 0?", collection=name_of(0))
    values = {"open": watch.lap()[0]}
    await ask_all(engine, count, 1)
    values["first"] = watch.lap()[0] / count
    await ask_all(engine, count, 2)
    cpu_ms, ms = watch.lap()
    values |= {"cpu": cpu_ms / count, "ms": ms / count}
    values["memory"] = psutil.Process().memory_info().rss / 1e6
    path = folder / "more.txt"
    path.write_text("A warm document.")
    await engine.ingest([path], collection=name_of(0))
    path.write_text("The locker 9 is new.")
    watch.lap()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    await engine.ingest([path], collection=name_of(0))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime == children.ru_utime, "a parser process ended meanwhile"
    values["upload"] = watch.lap()[0]
    assert len(engine.collections.list_all()) == count
    values["list"] = watch.lap()[0]
    engine.close()
    return values


def run(folder: Path, url: str, count: int, qdrant: psutil.Process | None) -> str:
    asyncio.run(fill_and_close(folder, url, count))
    command = [sys.executable, "-m", "tests.cluster.tenants", str(count)]
    command += ["--folder", str(folder), "--url", url]
    got = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    memory, collections = "–", "–"
    if qdrant is not None:
        memory = f"{qdrant.memory_info().rss / 1e6:.0f}"
        listed = httpx.get(f"{url}/collections", timeout=60).json()["result"]["collections"]
        collections = str(len(listed))
    return (
        f"| {'Qdrant' if url else 'embedded'} | {count} | {got['open']:.0f} | "
        f"{got['first']:.1f} | {got['cpu']:.1f} ({got['ms']:.0f}) | {got['upload']:.1f} | "
        f"{got['list']:.1f} | {got['memory']:.0f} | {memory} | {collections} |"
    )


async def fill_and_close(folder: Path, url: str, count: int) -> None:
    async with open_engine(folder, url) as engine:
        await fill(engine, folder, count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("counts", type=int, nargs="+")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.folder:  # the process that is measured
        print(json.dumps(asyncio.run(measure(given.folder, given.url, given.counts[0]))))
        return
    print(f"{HEADER}\n|{'---|' * 10}")
    for count in given.counts:
        with tempfile.TemporaryDirectory() as folder:
            print(run(Path(folder), "", count, None), flush=True)
        with (
            tempfile.TemporaryDirectory() as folder,
            tempfile.TemporaryDirectory() as server,
            running_qdrant(Path(server)) as url,
        ):
            (qdrant,) = [one for one in psutil.Process().children() if "qdrant" in one.name()]
            print(run(Path(folder), url, count, qdrant), flush=True)


if __name__ == "__main__":
    main()
