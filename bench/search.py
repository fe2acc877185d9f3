"""Compare the search core with its peers: CPU time per query, recall, build, memory, disk, opening.

    python bench/search.py --sizes 10000 200000 --peers .venv-bench/bin/python

Every system runs in a process of its own with one thread, so that CPU time is comparable on a
noisy machine. Prints a table, writes bench/out/search.json and search.png.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OUT = HERE / "out"
OURS = ("ragstone", "numpy exact", "IVF-SQ8", "tantivy alone")
PEERS = ("bm25s", "lancedb", "chroma", "txtai")
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "LANCE_CPU_THREADS",
    "TOKIO_WORKER_THREADS",
    "NUMBA_NUM_THREADS",
)
COLUMNS = {
    "dense_ms": "dense ms", "recall": "recall@10", "keyword_ms": "keyword ms",
    "hybrid_ms": "hybrid ms", "hybrid_p95_ms": "p95", "filter_1_ms": "1 % ms",
    "filter_1_recall": "recall", "filter_01_ms": "0.1 % ms", "filter_01_recall": "recall",
    "build_s": "build CPU s", "open_s": "open s", "rss_mb": "RSS MB", "disk_mb": "disk MB",
}  # fmt: skip


def main() -> None:
    arguments = _parse_arguments()
    sys.path.insert(0, str(HERE))
    from corpus import write_corpus

    results: dict[str, dict[str, Any]] = {}
    OUT.mkdir(exist_ok=True)
    for size in arguments.sizes:
        folder = write_corpus(size, arguments.data)
        for system in arguments.systems:
            if system in PEERS and (size > arguments.peers_up_to or arguments.peers is None):
                continue
            python = arguments.peers if system in PEERS else Path(sys.executable)
            result = _run_system(python, system, folder)
            results.setdefault(str(size), {})[system] = result
            tuned = {k.removeprefix("tuned_"): v for k, v in result.items() if k[:6] == "tuned_"}
            if tuned:
                results[str(size)][f"{system}, tuned"] = tuned
            print(f"{size:>9,}  {system:<14} {_shorten(result)}", flush=True)
    report = {"machine": _describe_machine(), "results": results}
    (OUT / "search.json").write_text(json.dumps(report, indent=2))
    print("\n" + render_table(results))
    _draw_plot(results)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 200_000])
    parser.add_argument("--systems", nargs="+", default=[*OURS, *PEERS], choices=[*OURS, *PEERS])
    parser.add_argument("--peers", type=Path, help="Python of an environment with the peers")
    parser.add_argument("--peers-up-to", type=int, default=200_000)
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data")
    return parser.parse_args()


def _run_system(python: Path, system: str, folder: Path) -> dict[str, Any]:
    command = [str(python), str(HERE / "search_systems.py"), system, str(folder)]
    done = subprocess.run(
        command,
        env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:200] if done.stderr else "failed"}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _shorten(result: dict[str, Any]) -> str:
    if "error" in result:
        return str(result["error"])
    return "  ".join(f"{COLUMNS[key]} {result[key]}" for key in COLUMNS if key in result)


def render_table(results: dict[str, dict[str, Any]]) -> str:
    lines = []
    for size, systems in results.items():
        lines += [f"**{int(size):,} chunks**", "", "| | " + " | ".join(COLUMNS.values()) + " |"]
        lines.append("|---" * (len(COLUMNS) + 1) + "|")
        for system, result in systems.items():
            cells = [str(result.get(key, "–")) for key in COLUMNS]
            lines.append(f"| {system} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def _describe_machine() -> dict[str, Any]:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {"cpu": model, "cores": os.cpu_count(), "python": platform.python_version()}


def _draw_plot(results: dict[str, dict[str, Any]]) -> None:
    try:
        import matplotlib as mpl
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for axis, key, title in zip(axes, ("dense_ms", "hybrid_ms"), ("dense", "hybrid"), strict=True):
        for system in sorted({name for systems in results.values() for name in systems}):
            points = [
                (int(size), systems[system][key])
                for size, systems in results.items()
                if key in systems.get(system, {})
            ]
            if points:
                axis.plot(*zip(*points, strict=True), marker="o", label=system)
        axis.set(xscale="log", yscale="log", xlabel="chunks", ylabel="CPU ms per query (median)")
        axis.set_title(title)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.savefig(OUT / "search.png", dpi=120)


if __name__ == "__main__":
    main()
