"""Run a server for a long time at part of its capacity, and watch memory, files, times and errors.

    python bench/steady.py --minutes 60 --share 0.3

Questions, uploads and deletions come at random moments, so often that the server uses `--share` of
the machine's cores (measured with the first requests; `--rate` sets the requests per second
instead). One line is printed for each window of `--window` minutes, times in milliseconds.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from kills import WAIT_S, make_pdf, make_text
from ragstone.system import count_usable_cores, measure_resident_bytes

# Of ten requests seven ask, two upload and one deletes: the number of documents grows slowly.
KINDS = ("ask",) * 7 + ("upload",) * 2 + ("delete",)
COLUMNS = ("minutes", "requests", "load", "server MB", "parsers MB", "files", "documents",
           "ask p50", "p95", "upload p50", "p95", "delete p50", "p95", "errors")  # fmt: skip
WARM_UP = 20
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass
class Window:
    """Hold what was seen in a part of the time."""

    times_s: dict[str, list[float]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)

    def describe(self, kind: str) -> str:
        times = sorted(self.times_s.get(kind, []))
        if not times:
            return "– | –"
        p50, p95 = (times[int(share * (len(times) - 1))] for share in (0.5, 0.95))
        return f"{p50 * 1000:,.0f} | {p95 * 1000:,.0f}"


class Steady:
    """Hold the running server and the documents that were uploaded to it."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.chance, self.count = chance, 0
        self.documents: list[str] = []
        self.window = Window()
        self.lock = threading.Lock()
        command = [sys.executable, "-m", "ragstone", "serve", "--port", "0"]
        self.log = folder / "server.log"
        self.server = subprocess.Popen(
            [*command, "--data", str(folder / "data")], stderr=self.log.open("wb")
        )
        self.client = httpx.Client(timeout=WAIT_S)
        self.address = self._wait()

    def _wait(self) -> str:
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end and self.server.poll() is None:
            if shown := re.search(r"http://127\.0\.0\.1:\d+(?= )", self.log.read_text()):
                with suppress(httpx.TransportError):
                    if self.client.get(f"{shown[0]}/healthz").is_success:
                        return shown[0]
            time.sleep(0.1)
        raise SystemExit(f"the server does not start:\n{self.log.read_text()}")

    def request(self, kind: str) -> None:
        """Send one request and note its time, or its error."""
        begun = time.monotonic()
        try:
            reply = getattr(self, f"_{kind}")()
        except httpx.TransportError as error:
            said = type(error).__name__
        else:
            said = "" if reply.is_success else f"{kind} {reply.status_code}"
        with self.lock:
            self.window.times_s.setdefault(kind, []).append(time.monotonic() - begun)
            if said:
                self.window.errors[said] += 1

    def _ask(self) -> httpx.Response:
        question = f"How many bolts are on shelf {self.chance.randrange(30)} of {self._pick()}?"
        return self.client.post(f"{self.address}/v1/query", json={"query": question})

    def _pick(self) -> str:
        return f"{self.chance.randrange(max(1, self.count)):05}"

    def _upload(self) -> httpx.Response:
        with self.lock:
            self.count += 1
            name = f"{self.count:05}{'.pdf' if self.count % 2 else '.txt'}"
        content = make_pdf(name) if name.endswith(".pdf") else make_text(name)
        reply = self.client.post(
            f"{self.address}/v1/documents", params={"wait": True}, files={"files": (name, content)}
        )
        if reply.is_success:
            with self.lock:
                self.documents += [one["id"] for one in reply.json()["documents"] if one["id"]]
        return reply

    def _delete(self) -> httpx.Response:
        with self.lock:
            at = self.chance.randrange(len(self.documents)) if self.documents else -1
            document = self.documents.pop(at) if at >= 0 else None
        if document is None:
            return self._upload()
        return self.client.delete(f"{self.address}/v1/documents/{document}")

    def processes(self) -> list[int]:
        """Return the server and the processes that it has started."""
        children = Path(f"/proc/{self.server.pid}/task/{self.server.pid}/children")
        found = children.read_text().split() if children.exists() else []
        return [self.server.pid, *map(int, found)]

    def cpu_s(self) -> float:
        """Return the processor time of the server, and of its processes that have ended."""
        total = 0
        for pid in self.processes():
            with suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
                total += sum(map(int, fields[11:15]))
        return total / TICKS_PER_S

    def measure(self) -> tuple[int, int, int]:
        """Return the memory of the server in MB, that of its processes, and its open files."""
        server, *others = (measure_resident_bytes(pid) // 1_000_000 for pid in self.processes())
        return server, sum(others), len(list(Path(f"/proc/{self.server.pid}/fd").iterdir()))


def find_rate(steady: Steady, share: float) -> float:
    """Send requests one after the other; return how many per second make this share of load."""
    for _ in range(3):
        steady.request("upload")
    before = steady.cpu_s()
    for _ in range(WARM_UP):
        steady.request(steady.chance.choice(KINDS))
    cost_s = (steady.cpu_s() - before) / WARM_UP
    rate = share * count_usable_cores() / cost_s
    print(f"A request costs {cost_s * 1000:.0f} CPU ms: {rate:.2f} requests/s.", flush=True)
    return rate


def run_window(steady: Steady, pool: ThreadPoolExecutor, rate: float, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, steady.chance.expovariate(rate)))
        pool.submit(steady.request, steady.chance.choice(KINDS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--window", type=float, default=10, help="in minutes")
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--rate", type=float, help="requests per second")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="steady-"))
    steady = Steady(folder, random.Random(options.seed))
    errors = 0
    try:
        rate = options.rate or find_rate(steady, options.share)
        print("| " + " | ".join(COLUMNS) + " |")
        print("|---|" + "---:|" * (len(COLUMNS) - 1))
        with ThreadPoolExecutor(64) as pool:
            for number in range(max(1, round(options.minutes / options.window))):
                steady.window, before = Window(), steady.cpu_s()
                run_window(steady, pool, rate, 60 * options.window)
                load = (steady.cpu_s() - before) / (60 * options.window * count_usable_cores())
                seen = steady.window
                memory, parsers, files = steady.measure()
                cells = [f"{number * options.window:g}–{(number + 1) * options.window:g}",
                         sum(map(len, seen.times_s.values())), f"{load:.0%}", memory, parsers,
                         files, len(steady.documents), *map(seen.describe, dict.fromkeys(KINDS)),
                         seen.errors.total()]  # fmt: skip
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)
                if seen.errors:
                    print(dict(seen.errors), file=sys.stderr)
                errors += seen.errors.total()
    finally:
        steady.server.terminate()
        steady.server.wait()
    shutil.rmtree(folder)
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
