"""Measure what Ray itself costs on one machine: memory, CPU of a task, CPU at rest.

    pip install ray && python bench/ray_cost.py

Ragstone does not use Ray. This is the measurement behind the decision in
docs/reference/dependencies.md: a task does nothing but take the text of a chunk.
"""

from __future__ import annotations

import importlib
import time

import psutil

TASKS = 1000
REST_S = 20


def list_processes() -> dict[int, tuple[float, float]]:
    """Return resident bytes and CPU seconds of Ray's processes, this one left out."""
    found = {}
    for one in psutil.Process().children(recursive=True):
        try:
            found[one.pid] = one.memory_info().rss, sum(one.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return found


def measure_cpu_s(begun: dict[int, tuple[float, float]]) -> float:
    return sum(cpu - begun.get(pid, (0, 0))[1] for pid, (_, cpu) in list_processes().items())


def count_bytes(text: bytes) -> int:
    return len(text)


def main() -> None:
    ray = importlib.import_module("ray")
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
    measure_length = ray.remote(count_bytes)
    text = b"x" * 2000
    ray.get([measure_length.remote(text) for _ in range(50)])
    begun, own = list_processes(), time.process_time()
    ray.get([measure_length.remote(text) for _ in range(TASKS)])
    cpu_s = measure_cpu_s(begun) + time.process_time() - own
    begun = list_processes()
    time.sleep(REST_S)
    memory = sum(rss for rss, _ in begun.values())
    print(
        f"{len(begun)} processes, {memory / 1e6:.0f} MB; {1000 * cpu_s / TASKS:.2f} CPU ms a task;"
    )
    print(f"at rest {1000 * measure_cpu_s(begun) / REST_S:.0f} CPU ms a second")


if __name__ == "__main__":
    main()
