"""Ask real questions of real documents, and count the answers that a person would accept.

    python bench/answers.py [--pack answers|office|everyday|fresh|records] [--half dev|report]
    python bench/answers.py --ids office-001,k8s-009 --show

The questions and the rules are in `bench/packs/*.jsonl` and the README there: a right answer holds
one string of every `must` group and none of `must_not`. A question that the documents do not answer
is right when the reply abstains or marks its passage as
not an answer. The collections are ingested once into bench/cache/answers. Answers are written to
bench/cache/answers/HALF.jsonl (of another pack to PACK-HALF.jsonl), to be read by eye.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import sys
import tarfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "packs"))

from matching import find_forbidden, find_missing  # noqa: E402

from ragstone import Engine  # noqa: E402
from ragstone.settings import load_settings  # noqa: E402
from ragstone.types import Answer  # noqa: E402

DATA = HERE.parent.parent / "shared" / "data"
CACHE = HERE / "cache" / "answers"
COLLECTIONS = (
    "k8s", "anthropic", "samples", "odd", "office", "everyday-dev", "everyday-report", "fresh",
    "records",
)  # fmt: skip
PACKS = ("answers", "office", "everyday", "fresh", "records")
# The folders of the Kubernetes documentation that the questions were written for.
K8S_FOLDERS = (
    "concepts", "tasks/access-application-cluster", "tasks/configmap-secret",
    "tasks/configure-pod-container", "tasks/debug", "tasks/inject-data-application", "tasks/job",
    "tasks/manage-daemon", "tasks/run-application",
)  # fmt: skip
_LEAD_IN = re.compile(r"(?::|as follows|(?:steps|commands?|example) below)\W*$", re.IGNORECASE)
_MARKER = re.compile(r"\s*\[Source \d+\]")


@dataclass(frozen=True)
class Graded:
    """One question, its answer and what the rules say of it."""

    id: str
    kind: str
    collection: str
    question: str
    answerable: bool
    near_topic: bool
    grade: str
    """right, partly, wrong, abstained, near (shown as not an answer), answered (should not be)."""
    lead_in_only: bool
    short_answer: str
    short_is_right: bool | None
    confidence: float
    probability: float
    """The probability of the evidence, before it is calibrated."""
    status: str
    text: str
    documents: tuple[str, ...]
    cpu_ms: float


def write_collections(data: Path, folder: Path) -> dict[str, Path]:
    """Write the documents of every collection below `folder`; return where each lies."""
    places = {name: folder / name for name in COLLECTIONS}
    if not places["k8s"].exists():
        with tarfile.open(data / "docs-k8s.tar.gz") as archive:
            for member in archive.getmembers():
                inside = member.name.partition("en/docs/")[2]
                if inside.endswith(".md") and inside.startswith(
                    tuple(f"{f}/" for f in K8S_FOLDERS)
                ):
                    place = places["k8s"] / inside
                    place.parent.mkdir(parents=True, exist_ok=True)
                    stream = archive.extractfile(member)
                    assert stream is not None
                    place.write_bytes(stream.read())
    if not places["anthropic"].exists():
        for line in (data / "anthropic-docs-rag/corpus.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            name = row["_id"].removeprefix("https://docs.claude.com/en/").replace("/", "__")
            place = places["anthropic"] / (re.sub(r"[^\w.#-]", "_", name) + ".md")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"# {row['title']}\n\n{row['text']}\n", "utf-8")
    if not places["odd"].exists():
        shutil.copytree(data / "odd-files", places["odd"])
    places |= {name: HERE / "packs" / name for name in ("office", "fresh", "records")}
    for half in ("dev", "report"):
        places[f"everyday-{half}"] = HERE / "packs/everyday" / half
    places["samples"] = HERE.parent / "src/ragstone/samples/documents"
    return places


def grade_answer(row: dict[str, Any], answer: Answer) -> str:
    """Apply the rules of the pack to one answer."""
    gives = answer.status == "answered"
    if not row["answerable"]:
        return {"abstained": "abstained", "near": "near"}.get(answer.status, "answered")
    if not gives:
        return "abstained" if answer.status == "abstained" else "near"
    text = " ".join((getattr(answer, "short_answer", "") or "", _MARKER.sub("", answer.text)))
    missing = find_missing(text, row["must"])
    forbidden = find_forbidden(text, row["must_not"])
    verdict = row.get("verdict")
    said = re.match(r"(yes|no)\b", text.strip(), re.IGNORECASE)
    if forbidden or (verdict and said and said[1].casefold() != verdict.casefold()):
        return "wrong"
    if not missing:
        return "right"
    return "partly" if len(missing) < len(row["must"]) else "wrong"


def judge_short(row: dict[str, Any], short: str) -> bool | None:
    """Tell whether a short answer is right; None where there is none to judge."""
    if not short or not row["answerable"]:
        return None if not short else False
    if find_forbidden(short, row["must_not"]):
        return False
    return len(find_missing(short, row["must"])) < len(row["must"])


async def ask_all(rows: Sequence[dict[str, Any]], data: Path, cache: Path) -> list[Graded]:
    places = write_collections(data, cache / "documents")
    loaded = load_settings(flags={"data.directory": cache / "data"}, environ={})
    found: list[Graded] = []
    async with Engine(loaded.settings) as engine:
        for name in COLLECTIONS:
            mine = [row for row in rows if row["collection"] == name]
            if not mine:
                continue
            report = await engine.ingest([places[name]], collection=name)
            print(
                f"{name}: {len(report.files)} files, {len(report.of('failed'))} failed", flush=True
            )
            for row in mine:
                before = time.process_time()
                answer = await engine.ask(row["question"], collection=name)
                cpu_ms = 1000 * (time.process_time() - before)
                found.append(_grade(row, answer, cpu_ms))
    return found


def _grade(row: dict[str, Any], answer: Answer, cpu_ms: float) -> Graded:
    short = getattr(answer, "short_answer", "") or ""
    # What stands in a listing is no lead-in to it.
    plain = _MARKER.sub("", answer.text.rpartition("```")[2] or "code.").strip()
    return Graded(
        row["id"], row["kind"], row["collection"], row["question"], row["answerable"],
        row["near_topic"], grade_answer(row, answer),
        answer.status == "answered" and bool(_LEAD_IN.search(plain)),
        short, judge_short(row, short), answer.confidence, find_probability(answer),
        answer.status, answer.text,
        tuple(dict.fromkeys(source.hit.chunk.document_name for source in answer.sources[:5])),
        round(cpu_ms, 1),
    )  # fmt: skip


def find_probability(answer: Answer) -> float:
    graded = [span["counts"] for span in answer.trace["spans"] if span["stage"] == "check.evidence"]
    return float(graded[-1].get("probability", 0.0)) if graded else 0.0


def measure_calibration(pairs: Sequence[tuple[float, bool]]) -> tuple[float, float]:
    """Return the expected calibration error (ten bins) and the AUROC of right against wrong."""
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for confidence, right in pairs:
        bins[min(int(confidence * 10), 9)].append((confidence, right))
    error = sum(
        abs(sum(c for c, _ in some) - sum(r for _, r in some)) for some in bins.values()
    ) / max(len(pairs), 1)
    good = [c for c, right in pairs if right]
    bad = [c for c, right in pairs if not right]
    wins = sum((g > b) + 0.5 * (g == b) for g in good for b in bad)
    return error, wins / max(len(good) * len(bad), 1)


def print_report(found: Sequence[Graded]) -> None:
    can = [one for one in found if one.answerable]
    cannot = [one for one in found if not one.answerable]
    print(f"\n{'':14}{'asked':>6}{'right':>7}{'partly':>7}{'wrong':>7}{'abst.':>7}{'near':>6}")
    groups = [("answerable", can)]
    asked = [name for name in COLLECTIONS if any(one.collection == name for one in can)]
    groups += [(name, [o for o in can if o.collection == name]) for name in asked]
    groups += [(kind, [o for o in can if o.kind == kind]) for kind in sorted({o.kind for o in can})]
    for name, some in groups:
        counts = Counter(one.grade for one in some)
        cells = [counts[g] for g in ("right", "partly", "wrong", "abstained", "near")]
        print(
            f"{name:14}{len(some):6}" + "".join(f"{cell:7}" for cell in cells[:4]) + f"{cells[4]:6}"
        )
    share = Counter(one.grade for one in can)
    total = max(len(can), 1)
    print(f"\nright {share['right'] / total:.1%}, wrong {share['wrong'] / total:.1%}, "
          f"lead-in only {sum(one.lead_in_only for one in can)}")  # fmt: skip
    for name, some in (
        ("not answerable", cannot),
        ("  near topic", [o for o in cannot if o.near_topic]),
    ):
        held = sum(one.grade in ("abstained", "near") for one in some)
        print(f"{name}: {held} of {len(some)} abstained or marked as not an answer"
              f" ({held / max(len(some), 1):.1%})")  # fmt: skip
    short = [one.short_is_right for one in found if one.short_is_right is not None]
    shown = max(len(short), 1)
    print(f"short answers shown: {len(short)}, right {sum(short)} ({sum(short) / shown:.1%})")
    given = [(one.confidence, one.grade == "right") for one in found if one.status == "answered"]
    error, area = measure_calibration(given)
    print(f"confidence of {len(given)} answers: ECE {error:.3f}, AUROC right/wrong {area:.3f}")
    times = sorted(one.cpu_ms for one in found)
    print(f"CPU ms a question: p50 {times[len(times) // 2]}, p95 {times[int(len(times) * 0.95)]}")


def select_rows(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the questions that the options name."""
    packs = PACKS if options.ids else (options.pack,)
    lines = [
        line
        for pack in packs
        for line in (HERE / f"packs/{pack}.jsonl").read_text("utf-8").splitlines()
    ]
    rows = [json.loads(line) for line in lines]
    if options.ids:
        wanted = options.ids.split(",")
        return [row for row in rows if row["id"] in wanted]
    return [
        row
        for row in rows
        if row["half"] == options.half
        and options.collection in (None, row["collection"])
        and options.kind in (None, row["kind"])
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--pack", choices=PACKS, default="answers")
    parser.add_argument("--half", choices=("dev", "report"), default="report")
    parser.add_argument("--collection", choices=COLLECTIONS)
    parser.add_argument("--kind")
    parser.add_argument("--ids", help="ask only these, of any pack and half")
    parser.add_argument("--show", action="store_true", help="print every answer")
    options = parser.parse_args()
    rows = select_rows(options)
    found = asyncio.run(ask_all(rows, options.data, options.cache))
    prefix = "" if options.pack == "answers" else f"{options.pack}-"
    out = options.cache / ("ids.jsonl" if options.ids else f"{prefix}{options.half}.jsonl")
    out.write_text("".join(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in found))
    if options.show:
        for one in found:
            print(f"\n--- {one.id} {one.kind} {one.grade.upper()} {one.confidence:.2f}"
                  f" {one.question}\n{one.short_answer or '-'}\n{one.text[:900]}")  # fmt: skip
    print_report(found)


if __name__ == "__main__":
    main()
