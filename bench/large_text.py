"""Measure `ragstone ingest` of one long text beside small files, or what an interrupt does to it.

python bench/large_text.py CORPUS --mb 5 [--files 10] [--interrupt 10 | --stop 300]

CORPUS is a folder of texts whose sentences are shuffled into the files. Memory is the resident
memory of the command and its parser processes, summed; CPU time is theirs, too.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

SMALL_FILES = 8
POLL_S = 0.1


def write_text(path: Path, sentences: list[str], size: int, seed: int) -> None:
    chosen, written = random.Random(seed), 0
    with path.open("w") as file:
        while written < size:
            count = chosen.randint(2, 7)
            written += file.write(" ".join(chosen.choices(sentences, k=count)) + "\n\n")


def list_processes(group: int) -> list[int]:
    """Return the processes of a session: the command and those it started."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == group and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def measure(pids: list[int], cpu: dict[int, float], peaks: dict[int, int]) -> int:
    """Return the resident memory of the processes; note the peak and the CPU seconds of each."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            cpu[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            resident = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
            peaks[pid] = max(resident, peaks.get(pid, 0))
            total += resident
    return total


def list_stored(data: Path) -> dict[str, int]:
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"file:{data}/catalog.db?mode=ro", uri=True)) as db,
    ):
        return dict(db.execute("SELECT name, chunk_count FROM documents"))
    return {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--mb", type=float, default=5)
    parser.add_argument("--files", type=int, default=1, help="large files of MB / FILES each")
    parser.add_argument("--interrupt", type=float, help="press Ctrl-C after so many seconds")
    parser.add_argument("--stop", type=float, default=3600, help="kill it after so many seconds")
    given = parser.parse_args()
    texts = " ".join(path.read_text("utf-8") for path in sorted(given.corpus.glob("*.md")))
    sentences = [s for s in re.split(r"(?<=[.!?])\s+", texts) if 20 < len(s) < 400]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        folder, data = Path(place, "docs"), Path(place, "data")
        folder.mkdir()
        for at in range(given.files):
            size = int(given.mb * 1e6 / given.files)
            write_text(folder / f"large-{at}.txt", sentences, size, at)
        for at in range(SMALL_FILES):
            write_text(folder / f"small-{at}.txt", sentences, 4_000, 100 + at)
        started = time.monotonic()
        command = [sys.executable, "-m", "ragstone", "ingest", str(folder), "--data", str(data)]
        running = subprocess.Popen(command, start_new_session=True)
        group, peak, ended = running.pid, 0, 0.0
        cpu, peaks, seen = dict[int, float](), dict[int, int](), dict[str, float]()
        while pids := list_processes(group):
            now = time.monotonic() - started
            peak = max(peak, measure(pids, cpu, peaks))
            for name in list_stored(data):
                seen.setdefault(name, now)
            if not ended and now > min(given.stop, given.interrupt or given.stop):
                ended = now
                # A terminal interrupts its whole foreground group.
                os.killpg(group, signal.SIGINT if given.interrupt else signal.SIGKILL)
            if ended and now - ended > 60:
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
            running.poll()
            time.sleep(POLL_S)
        took = time.monotonic() - started
        stored = list_stored(data)
        small = sorted(at for name, at in seen.items() if name.startswith("small"))
        chunks = sum(stored.values())
        each = ", ".join(f"{value / 1e6:.0f}" for value in peaks.values())
        print(f"took {took:.1f} s, exit code {running.wait()}")
        print(f"peak {peak / 1e6:.0f} MB in all, {each} MB in each process")
        print(f"CPU {sum(cpu.values()):.1f} s, {chunks} chunks in {len(stored)} files stored")
        print(f"small files stored after {[round(at, 1) for at in small]} s")
        if ended:
            print(f"gone {took - ended:.1f} s after the signal (at {ended:.1f} s)")
        elif chunks:
            print(f"{sum(cpu.values()) / chunks * 1000:.1f} CPU ms a chunk")


if __name__ == "__main__":
    main()
