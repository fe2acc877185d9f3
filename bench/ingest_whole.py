"""Run one `ragstone ingest` of a whole archive or folder and measure it from outside.

    python bench/ingest_whole.py PATH --data DIRECTORY [-- further options of ragstone ingest]

Prints documents/s and chunks/s, the CPU seconds and the peak memory of the command and its parser
processes together, and what the machine did besides: on shared cores, CPU time says more than the
clock. Run it again over a directory that holds a part, and it measures the rest alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path


def list_processes(root: int) -> list[int]:
    """List a process and all its descendants."""
    found, at = [root], 0
    while at < len(found):
        for children in Path(f"/proc/{found[at]}/task").glob("*/children"):
            try:
                found += [int(pid) for pid in children.read_text().split()]
            except OSError:
                continue
        at += 1
    return found


def read_resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def read_idle_seconds() -> float:
    """Return the idle seconds of all cores since the machine started."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("further", nargs="*", help="further options of ragstone ingest")
    options = parser.parse_args()
    command = [sys.executable, "-m", "ragstone", "ingest", str(options.path), "--json"]
    command += ["--data", str(options.data)]
    begun, idle, peak = time.monotonic(), read_idle_seconds(), 0
    reply = options.data.with_suffix(".report.json")
    with reply.open("wb") as output:
        process = subprocess.Popen([*command, *options.further], stdout=output)
        while process.poll() is None:
            peak = max(peak, sum(map(read_resident, list_processes(process.pid))))
            time.sleep(0.5)
    wall, idle = time.monotonic() - begun, read_idle_seconds() - idle
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    stored = [one for one in json.loads(reply.read_text("utf-8")) if one["outcome"] == "added"]
    chunks = sum(one["chunk_count"] for one in stored)
    print(
        f"{options.path.name}: {len(stored)} documents, {chunks} chunks in {wall:.0f} s · "
        f"{len(stored) / wall:.2f} documents/s · {chunks / wall:.1f} chunks/s · {cpu:.0f} CPU s, "
        f"{cpu / max(1, chunks) * 1000:.1f} ms per chunk · peak {peak / 1e6:.0f} MB · "
        f"{cpu / wall / (os.cpu_count() or 1):.0%} of {os.cpu_count()} cores used, "
        f"{idle / wall / (os.cpu_count() or 1):.0%} idle"
    )
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
