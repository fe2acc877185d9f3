"""Attack a server with requests that cost much, and measure what everybody else feels.

    python bench/load_store.py bench/cache/store-50k                     once
    python bench/attack.py bench/cache/store-50k

Starts `ragstone serve` on the store. A polite client asks every probe again and again, each over a
kept connection: first alone (idle), then during each attack, which several connections send at
once. Printed for each attack: the replies it got, the p95 of the probes as a multiple of idle, and
the processor time that the server still uses 2 s after the attack has ended. At the end the longest
attack runs once more, and the server gets SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from load import find_free_port, ragstone_command, start_server

PROBES = {
    "healthz": ("GET", "/healthz", None),
    "readyz": ("GET", "/readyz", None),
    "collections": ("GET", "/v1/collections", None),
    "documents": ("GET", "/v1/documents?limit=10", None),
    "repeated": ("POST", "/v1/query", {"query": "What is a pod?"}),
    "check": ("POST", "/v1/check-grounding", {"answer": "It is red.", "facts": ["It is red."]}),
}
WORDS = re.findall(
    r"\w+",
    """the gate of pod node volume cluster policy field value default server network name key
    running string object status label image never always green lease twelve metres Norway
    Paris Monday contract employee payment since before under between however""",
)


def write_sentences(chars: int, seed: int = 1) -> str:
    """Write sentences of random words: nothing is quoted, so everything must be read."""
    chosen, found, length = random.Random(seed), [], 0
    while length < chars:
        words = [chosen.choice(WORDS) for _ in range(chosen.randint(6, 14))]
        found.append(f"{' '.join(words).capitalize()}.")
        length += len(found[-1]) + 1
    return " ".join(found)[:chars]


def check(answer: str, *facts: str) -> tuple[str, str, Any]:
    return "POST", "/v1/check-grounding", {"answer": answer, "facts": list(facts)}


def query(text: str, **options: Any) -> tuple[str, str, Any]:
    return "POST", "/v1/query", {"query": text, **options}


def chat(*messages: tuple[str, str]) -> tuple[str, str, Any]:
    said = [{"role": role, "content": text} for role, text in messages]
    return "POST", "/api/chat", {"messages": said}


# Each makes a new request every time: a repeated one would be answered from memory.
ATTACKS: dict[str, Callable[[int], tuple[str, str, Any]]] = {
    "check 50k x 100k": lambda n: check(write_sentences(50_000, n), write_sentences(100_000, -n)),
    "check 10k x 90k": lambda n: check(write_sentences(10_000, n), write_sentences(90_000, -n)),
    "check 20k x 60 facts": lambda n: check(
        write_sentences(20_000, n), *(write_sentences(800, 60 * n + i) for i in range(60))
    ),
    "check one word of 90k": lambda n: check("a" * 90_000 + str(n), "a" * 180_000),
    "check brackets": lambda n: check(f"{n} " + "([{<" * 20_000, "((((" * 200),
    "check capitals": lambda n: check("Ab. " * 4_000 + str(n), "Ab Cd " * 800),
    "check numbers": lambda n: check(f"{n}.5 m and 3 %. " * 900, "7.25 km or 12 % " * 1_000),
    "top_k 1000": lambda n: query(write_sentences(120, n), top_k=1000, mmr_lambda=0.0),
    "1,000 characters": lambda n: query(write_sentences(990, n)),
    "chat of 32,000": lambda n: query(write_sentences(31_000, n), chat=True),
    "chat of brackets": lambda n: query(f"What is {n} " + "(" * 31_000, chat=True),
    "history of 900 kB": lambda n: chat(
        *[(("user", "assistant")[i % 2], write_sentences(5_000, n + i)) for i in range(170)],
        ("user", f"and in winter {n}?"),
    ),
    "history of 20,000": lambda n: chat(
        *[(("user", "assistant")[i % 2], "x y z?") for i in range(18_000)],
        ("user", f"and in winter {n}?"),
    ),
    "two presets": lambda n: (
        "POST",
        "/v1/compare",
        {"query": write_sentences(200, n), "presets": ["minimal", "balanced"]},
    ),
}

# It is within the limits and computes until its deadline.
LONGEST = "check 10k x 90k"


async def send(reader: Any, writer: Any, request: tuple[str, str, Any]) -> int:
    method, path, value = request
    body = b"" if value is None else json.dumps(value).encode()
    writer.write(
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    at = head.index(b"content-length:") + 15
    await reader.readexactly(int(head[at : head.index(b"\r\n", at)]))
    return int(head[9:12])


async def attack(
    port: int, make: Callable[[int], tuple[str, str, Any]], first: int, until: float, out: Counter
) -> None:
    """Send one request after the other until the time is over, and wait for the last reply."""
    number = first
    while time.time() < until:
        number += 1_000
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
            out[await send(reader, writer, make(number))] += 1
            writer.close()
        except (OSError, EOFError, ValueError):
            out["cut off"] += 1
            await asyncio.sleep(0.1)


def run_attackers(port: int, name: str, at_once: int, seconds: float, pipe: Any) -> None:
    """Run in a process of its own, so that the probes' client is not delayed."""
    os.nice(10)

    async def run() -> Counter:
        out: Counter = Counter()
        until = time.time() + seconds
        firsts = random.Random().sample(range(10**6), at_once)
        jobs = [attack(port, ATTACKS[name], first, until, out) for first in firsts]
        await asyncio.gather(*jobs)
        return out

    pipe.send(asyncio.run(run()))


async def probe(port: int, seconds: float) -> dict[str, list[float]]:
    """Ask all probes in turn; return the seconds that each took."""
    took: dict[str, list[float]] = {name: [] for name in PROBES}
    kept = {name: await asyncio.open_connection("127.0.0.1", port) for name in PROBES}
    end = time.time() + seconds
    while time.time() < end:
        for name, request in PROBES.items():
            begun = time.perf_counter()
            try:
                status = await send(*kept[name], request)
            except (OSError, EOFError, ValueError):
                status = 0
            if status in (200, 503):
                took[name].append(time.perf_counter() - begun)
            else:
                took[name].append(float("inf"))
            if status != 200:
                kept[name] = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.sleep(0.01)
    for _, writer in kept.values():
        writer.close()
    return took


def find_p95(took: list[float]) -> float:
    return sorted(took)[int(0.95 * (len(took) - 1))]


def measure_cpu_s(pid: int) -> float:
    """Return the processor time of a process and its living children."""
    total, pids = 0.0, [pid]
    while pids:
        one = pids.pop()
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            pids += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def start_attack(port: int, name: str, arguments: argparse.Namespace) -> tuple[Any, Any]:
    import multiprocessing

    ours, theirs = multiprocessing.Pipe(duplex=False)
    given = (port, name, arguments.at_once, arguments.seconds, theirs)
    process = multiprocessing.Process(target=run_attackers, args=given)
    process.start()
    return process, ours


def run_attack(port: int, pid: int, name: str, idle: dict, arguments: argparse.Namespace) -> None:
    process, pipe = start_attack(port, name, arguments)
    felt = asyncio.run(probe(port, arguments.seconds))
    statuses, begun = pipe.recv(), time.time()
    process.join()
    late = time.time() - begun
    time.sleep(2)
    before = measure_cpu_s(pid)
    time.sleep(1)
    left = measure_cpu_s(pid) - before
    cells = [f"{find_p95(felt[probe]) / find_p95(idle[probe]):.1f}" for probe in PROBES]
    shown = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items(), key=str))
    print(f"| {name} | {shown} | {' | '.join(cells)} | {late:.0f} | {left:.2f} |", flush=True)


def run_silent(port: int, idle: dict, count: int) -> None:
    """Open connections that say nothing, and probe meanwhile."""

    async def run() -> dict[str, list[float]]:
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
        felt = await probe(port, 5)
        for _, writer in opened:
            writer.close()
        return felt

    felt = asyncio.run(run())
    cells = [f"{find_p95(felt[probe]) / find_p95(idle[probe]):.1f}" for probe in PROBES]
    print(f"| {count:,} silent connections | – | {' | '.join(cells)} | – | – |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("store", type=Path)
    parser.add_argument("--attacks", nargs="+", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--silent", type=int, default=3000, help="silent connections")
    parser.add_argument("--flags", nargs="*", default=[], help="passed on to ragstone serve")
    arguments = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    port, log = find_free_port(), Path(tempfile.mkdtemp(prefix="ragstone-attack-")) / "log"
    command = ragstone_command(arguments.store, port, 1, *arguments.flags)
    # As in a shell that allows few files.
    limited = ["bash", "-c", 'ulimit -Sn 1024; ulimit -Hn 1024; exec "$@"', "-", *command]
    with start_server(limited, port, "/readyz", log) as running:
        asyncio.run(probe(port, 3))
        idle = asyncio.run(probe(port, arguments.seconds))
        shown = ", ".join(f"{name} {1000 * find_p95(took):.1f}" for name, took in idle.items())
        print(f"idle p95 in ms: {shown}\n")
        columns = [f"{name} ×" for name in PROBES]
        print(f"| attack, {arguments.at_once} at once | replies | {' | '.join(columns)}", end="")
        print(" | last reply after s | CPU s/s afterwards |")
        print("|---" * (len(PROBES) + 4) + "|", flush=True)
        for name in arguments.attacks:
            run_attack(port, running.pid, name, idle, arguments)
        if arguments.silent:
            run_silent(port, idle, arguments.silent)
        process, _ = start_attack(port, LONGEST, arguments)
        time.sleep(3)
        begun = time.time()
        running.terminate()
        code = running.wait(60)
        took = time.time() - begun
        print(f"\nSIGTERM during '{LONGEST}': ended in {took:.1f} s with code {code}")
        process.terminate()
        process.join()


if __name__ == "__main__":
    sys.exit(main())
