"""Run every benchmark at a size that fits two cores and twenty minutes, and write
docs/reference/benchmarks.md with the date, the machine and the versions.

    make bench                                    # in .venv-bench, where the peers are
    python bench/all.py --only reference intent   # some of them, printed and not written
    python bench/all.py --list

A benchmark is a line of STEPS: a script that prints Markdown tables or plain lines on standard
output, and its arguments. One whose script or data are not there is left out, and the page says so.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
DATA = ROOT.parent / "shared" / "data"
WORK = HERE / "cache" / "evaluate"
PAGE = ROOT / "docs" / "reference" / "benchmarks.md"
LIMIT_S = 420
PACKAGES = (
    "ragstone", "numpy", "onnxruntime", "faiss-cpu", "tantivy", "ir-measures", "bm25s", "txtai",
    "haystack-ai", "llama-index-core", "langchain-core", "lancedb", "chromadb",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One benchmark: `command` is a script of this folder, or `ragstone`, and its arguments."""

    name: str
    title: str
    command: tuple[str, ...]
    about: str = ""
    needs: tuple[str, ...] = ()
    """Folders or files of the data that it cannot do without."""


SETS = ("cranfield", "squad2-dev-half", "anthropic-docs-rag", "xquad/de")
STEPS = (
    Step("reference", "Our BM25 and dense search against other code",
         ("reference.py", "--sets", "cranfield"),
         "The same measures over the same documents: ours must not differ.", ("cranfield",)),
    Step("quality", "Retrieval quality against the peers",
         ("quality.py", "--peers", "--queries", "80", "--sets", *SETS),
         "Half of the questions, which nothing was tuned on.", SETS),
    Step("compare", "What the default preset gains",
         ("ragstone", "compare", "minimal", "balanced", "{data}/cranfield", "--changed", "0",
          "--work", "{work}"), "", ("cranfield",)),
    Step("tune", "Tuning on a set of its own",
         ("ragstone", "tune", "{data}/squad2-dev-half", "--questions", "200", "--check", "300",
          "--work", "{work}", "--out", "{out}/tuned"),
         "Searched on one half of the questions, checked on the other.", ("squad2-dev-half",)),
    Step("answers", "Answers, citations and abstention",
         ("ragstone", "eval", "{data}/squad2-dev-half", "--limit", "150", "--no-baselines",
          "--work", "{work}"),
         "The extractive answerer, without a language model.", ("squad2-dev-half",)),
    Step("questions", "Real questions on real documents", ("answers.py",),
         "The half that nothing was fitted on.", ("docs-k8s.tar.gz",)),
    Step("grounding", "Citations of badly citing models", ("grounding.py",)),
    Step("intent", "Small talk or question", ("intent.py",), "", ("smalltalk-vs-question",)),
    Step("search", "The search core against the peers",
         ("search.py", "--sizes", "5000", "--peers", "{python}"),
         "CPU time per query in a process with one thread.", ("docs-k8s.tar.gz",)),
    Step("latency", "What a search costs, by preset",
         ("latency.py", "--size", "5000", "--questions", "300"), "", ("docs-k8s.tar.gz",)),
    Step("ingest", "Reading a folder",
         ("ingest.py", "--folder", "{folder}", "--files", "60"), "", ("docs-k8s.tar.gz",)),
    Step("load", "Many at once",
         ("load.py", "{cache}/store-50k", "--seconds", "8", "--connections", "1", "200"),
         "Where `python bench/load_store.py bench/cache/store-50k` has been run (20 CPU minutes)."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a benchmark."""

    step: Step
    shown: str
    """The command as a reader may type it."""
    output: str
    seconds: float
    trouble: str = ""


def run_step(step: Step) -> Result:
    slots = {
        "data": DATA,
        "work": WORK,
        "out": HERE / "out",
        "python": sys.executable,
        "cache": HERE / "cache",
        "folder": HERE / "cache" / "k8s",
    }
    script, *arguments = [part.format(**slots) for part in step.command]
    shown = "ragstone" if script == "ragstone" else f"python bench/{script}"
    shown = shorten_paths(" ".join([shown, *arguments]))
    missing = [name for name in step.needs if not (DATA / name).exists()]
    made = [Path(part) for part in arguments if part.startswith(str(HERE / "cache" / "store"))]
    missing += [f"bench/cache/{path.name}" for path in made if not path.exists()]
    if script != "ragstone" and not (HERE / script).is_file():
        return Result(step, shown, "", 0.0, "not run: the script is not there")
    if missing:
        return Result(step, shown, "", 0.0, f"not run: {', '.join(missing)} is not there")
    if "{folder}" in step.command:
        unpack_archive(slots["folder"])
    begin = (
        [sys.executable, "-m", "ragstone"]
        if script == "ragstone"
        else ([sys.executable, str(HERE / script)])
    )
    begun = time.monotonic()
    trouble, output = "", ""
    try:
        done = subprocess.run(
            [*begin, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
            env={**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"},
            check=False,
        )
        output = done.stdout
        trouble = f"ended with exit code {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode() if isinstance(error.stdout, bytes) else ""
        trouble = f"stopped after {LIMIT_S} s"
    return Result(step, shown, shorten_paths(output), time.monotonic() - begun, trouble)


def unpack_archive(folder: Path) -> None:
    """Unpack the English pages of the Kubernetes documentation into a folder."""
    if folder.is_dir():
        return
    fresh = folder.with_name("k8s-unpacking")
    shutil.rmtree(fresh, ignore_errors=True)
    with tarfile.open(DATA / "docs-k8s.tar.gz") as tar:
        wanted = [one for one in tar if "/en/" in f"/{one.name}" and one.name.endswith(".md")]
        tar.extractall(fresh, members=wanted, filter="data")
    fresh.rename(folder)


def shorten_paths(text: str) -> str:
    """Remove the paths of this machine from a text."""
    for path, name in ((DATA, "../shared/data"), (sys.executable, "python"), (ROOT, ".")):
        text = text.replace(str(path), name)
    return text.replace(str(Path.home()), "~")


def render_markdown(output: str) -> list[str]:
    """Keep Markdown tables; turn all other output into blocks of text."""
    lines: list[str] = []
    plain: list[str] = []

    def close() -> None:
        if any(plain):
            lines.extend(["```text", *(line.replace("\t", "  ") for line in plain), "```", ""])
        plain.clear()

    before = ""
    for line in output.strip().splitlines():
        if line.startswith("|"):
            close()
            if not before.startswith("|") and lines and lines[-1]:
                lines.append("")
            lines.append(line)
        else:
            if before.startswith("|"):
                lines.append("")
            if line.strip() or plain:
                plain.append(line.rstrip())
        before = line
    while plain and not plain[-1]:
        plain.pop()
    close()
    return lines


def render_page(results: list[Result], seconds: float) -> str:
    when = datetime.now(UTC)
    lines = [
        "# Benchmarks",
        "",
        "<!-- Written by `make bench`; edit bench/all.py, not this page. -->",
        "",
        f"`make bench` on {when.day} {when:%B %Y}, {describe_machine()}, in {seconds / 60:.0f} "
        "minutes. The "
        "sizes are small, so that everything fits; each script runs larger ones. Times on a shared "
        "machine are to be compared within a table. Versions: " + ", ".join(list_versions()) + ".",
        "",
    ]
    for one in results:
        lines += [f"## {one.step.title}", ""]
        if one.step.about:
            lines += [one.step.about, ""]
        lines += [f"`{one.shown}` ({one.seconds:.0f} s)", ""]
        if one.trouble:
            lines += [f"**{one.trouble[0].upper()}{one.trouble[1:]}.**", ""]
        lines += [*render_markdown(one.output), ""]
    left = [step.name for step in STEPS if step not in [one.step for one in results]]
    if left:
        lines += [f"Not run this time: {', '.join(left)}.", ""]
    text = "\n".join(lines)
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.rstrip() + "\n"


def describe_machine() -> str:
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            line.partition(":")[2].strip()
            for line in info.read_text().splitlines()
            if line.startswith("model name")
        ]
        model = names[0] if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores of {model}, Python {platform.python_version()}"


def list_versions() -> list[str]:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--only", nargs="+", choices=[step.name for step in STEPS])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write", action="store_true", help="write the page even with --only")
    options = parser.parse_args()
    steps = [step for step in STEPS if not options.only or step.name in options.only]
    if options.list:
        for step in steps:
            print(f"{step.name}\t{' '.join(step.command)}")
        return 0
    begun = time.monotonic()
    results = []
    for step in steps:
        print(f"{step.name} ...", file=sys.stderr, flush=True)
        results.append(run_step(step))
        print(f"{step.name}: {results[-1].seconds:.0f} s {results[-1].trouble}", file=sys.stderr)
    text = render_page(results, time.monotonic() - begun)
    if options.only and not options.write:
        print(text)
    else:
        PAGE.write_text(text, "utf-8")
        print(f"wrote {PAGE.relative_to(ROOT)}", file=sys.stderr)
    return 1 if any(one.trouble.startswith(("ended", "stopped")) for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
