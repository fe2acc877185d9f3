"""Load many documents with one, two and three workers: what a chunk and a worker cost.

    python -m tests.cluster.bulk 1 2 3

One server accepts the uploads, the workers read them into PostgreSQL, three Qdrant nodes and an
object store, all on this machine. CPU time is that of the workers with their parser processes; the
last line has the part of it that the embedder takes alone, the rest is overhead.
"""

from __future__ import annotations

import sys
import time

import httpx
import psutil

from ragstone.models.embedder import OnnxEmbedder

from ..patience import LONG_S
from .machines import Cluster, Program, run_cluster
from .rounds import wait_for

UPLOADS, FILES, SECTIONS = 12, 5, 20


def make_text(number: int) -> str:
    return "\n\n".join(make_sections(number))


def make_sections(number: int) -> list[str]:
    """Write sections that become one chunk each."""
    return [
        f"## Shelf {number}-{part}\n\nShelf {number}-{part} stands in hall {part}. It holds "
        f"{number + part} boxes of bolts, which were counted in the year {1990 + part}, and nobody "
        f"may take one of them without the signature of the keeper of hall {part}. "
        f"The keeper is told by letter when fewer than {part + 3} boxes are left."
        for part in range(SECTIONS)
    ]


def list_processes(cluster: Cluster) -> list[list[psutil.Process]]:
    """List the processes of each worker, its parsers included."""
    found = []
    for one in cluster.parts["a worker"]:
        assert isinstance(one, Program)
        assert one.process is not None
        main = psutil.Process(one.process.pid)
        found.append([main, *main.children(recursive=True)])
    return found


def sum_cpu_s(cluster: Cluster) -> float:
    return sum(sum(process.cpu_times()[:4]) for one in list_processes(cluster) for process in one)


def measure(workers: int) -> str:
    with run_cluster(workers=workers) as cluster:
        url = cluster.servers[0]
        send(url, "warm", range(workers))  # every worker loads its model first
        before, begun = sum_cpu_s(cluster), time.monotonic()
        send(url, "bulk", range(100, 100 + UPLOADS))
        seconds, cpu_s = time.monotonic() - begun, sum_cpu_s(cluster) - before
        memory = [sum(p.memory_info().rss for p in one) for one in list_processes(cluster)]
        (chunks,) = [
            one["chunks"]
            for one in httpx.get(f"{url}/v1/collections", timeout=LONG_S).json()
            if one["name"] == "bulk"
        ]
    return (
        f"| {workers} | {chunks:,} | {seconds:.1f} | {chunks / seconds:.1f} | "
        f"{1000 * cpu_s / chunks:.1f} | {max(memory) / 1e6:.0f} |"
    )


def send(url: str, collection: str, numbers: range) -> None:
    accepted = {}
    for number in numbers:
        files = [
            ("files", (f"{number}-{at}.md", make_text(number * FILES + at).encode()))
            for at in range(FILES)
        ]
        reply = httpx.post(
            f"{url}/v1/documents?wait=false", files=files, timeout=LONG_S,
            data={"collection": collection},
        )  # fmt: skip
        accepted[str(number)] = reply.raise_for_status().json()["upload_id"]
    assert wait_for(url, accepted) == 0


def measure_embedding_ms() -> float:
    """Return the CPU time of a chunk in the embedder, in batches of a document."""
    embedder = OnnxEmbedder()
    embedder.embed(make_sections(0))
    begun = time.process_time()
    for number in range(1, 21):
        embedder.embed(make_sections(number))
    return 1000 * (time.process_time() - begun) / (20 * SECTIONS)


def main() -> None:
    print("| workers | chunks | s | chunks/s | CPU ms per chunk | MB of a worker |")
    print("|---|---|---|---|---|---|")
    for workers in sys.argv[1:] or ("1", "2", "3"):
        print(measure(int(workers)), flush=True)
    print(f"The embedder alone: {measure_embedding_ms():.1f} CPU ms per chunk.")


if __name__ == "__main__":
    main()
