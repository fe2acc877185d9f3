"""Measure the check as a user meets it: the verdict shown, per kind of change, with its cost.

    python bench/claims.py                    # the report halves
    python bench/claims.py --half dev --worst 5 --only pack
    python bench/claims.py --only cost        # 200 sentences against 20 sources

Everything goes through `review_text`, so a figure is that of the shown verdict at the shipped
threshold, which was chosen on the dev half of the pack. A text belongs to `dev` if the first hex
digit of its SHA-256 is even: the evidence in the pack, the claim in the judged sets.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragstone.query.check.review import check_against_facts, review_text
from ragstone.query.check.verifier import WorkLimit
from ragstone.query.ground.cite import Notation
from ragstone.reading.units import find_units
from ragstone.text import find_sentence_spans
from ragstone.types import Chunk, Hit, Source

HERE = Path(__file__).parent
PACK = HERE / "packs" / "claims.jsonl"
TABLES = HERE / "packs" / "tables"
SAMPLES = HERE.parent / "src/ragstone/samples/documents"
DATA = HERE.parent.parent / "shared" / "data"
MAX_PER_SET = 700


@dataclass(frozen=True, slots=True)
class Pair:
    """Hold a claim, the text it is checked against, and whether the text supports it."""

    group: str
    claim: str
    evidence: str
    supports: bool


def is_dev(text: str) -> bool:
    return int(hashlib.sha256(text.encode()).hexdigest()[0], 16) % 2 == 0


def read_records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def load_pack(*, dev: bool) -> list[Pair]:
    return [
        Pair(row["kind"], row["claim"], row["evidence"], row["label"] == "paraphrase")
        for row in read_records(PACK)
        if is_dev(row["evidence"]) == dev
    ]


def load_judged(data: Path, *, dev: bool, most: int = MAX_PER_SET) -> list[Pair]:
    """Return claims that people judged, at most `most` of a set, chosen by hash."""
    found: list[Pair] = []
    for pairs in (_load_wice(data), _load_scifact(data), _load_climate(data)):
        here = [pair for pair in pairs if pair.evidence and is_dev(pair.claim) == dev]
        here.sort(key=lambda pair: hashlib.sha256((pair.claim + pair.evidence).encode()).digest())
        found += here[:most]
    return found


def _load_wice(data: Path) -> Iterator[Pair]:
    for row in read_records(data / "wice/claim.dev.jsonl"):
        yield Pair("wice", row["claim"], "\n\n".join(row["evidence"]), row["label"] == "supported")


def _load_scifact(data: Path) -> Iterator[Pair]:
    corpus = {row["_id"]: row["text"] for row in read_records(data / "scifact/corpus.jsonl")}
    for row in read_records(data / "scifact/claims_with_evidence.jsonl"):
        labels = {found["doc_id"]: found["label"] for found in row["evidence"]}
        for document in row["cited_doc_ids"]:
            if document in corpus:
                supports = labels.get(document) == "SUPPORT"
                yield Pair("scifact", row["text"], corpus[document], supports)


def _load_climate(data: Path) -> Iterator[Pair]:
    for row in read_records(data / "climate-fever/pairs.jsonl"):
        supports = row["label"] == "SUPPORTS"
        yield Pair("climate-fever", row["claim"], row["evidence"], supports)


def load_quotations(*, dev: bool, most: int = 300) -> list[Pair]:
    """Return sentences and table rows of the samples and the table pack, against their document."""
    found: list[Pair] = []
    for path in sorted([*SAMPLES.rglob("*.md"), *SAMPLES.rglob("*.txt"), *TABLES.rglob("*.md")]):
        text = path.read_text("utf-8")
        for unit in find_units(text):
            is_row = bool(unit.header)
            said = " ".join(unit.sentence.split())
            if is_row or (len(said) > 30 and said[0].isupper() and said.endswith(".")):
                # The passage around it; a table is not cut before its header.
                begin = max(0, min(unit.start - 1500, text.rfind("\n\n", 0, unit.start)))
                near = text[begin : unit.end + 1500]
                found.append(Pair("table row" if is_row else "verbatim", said, near, True))
    found = [pair for pair in found if is_dev(pair.claim) == dev]
    random.Random(5).shuffle(found)
    kinds = ("verbatim", "table row")
    return [pair for kind in kinds for pair in [p for p in found if p.group == kind][:most]]


def load_neighbours(data: Path, *, dev: bool, most: int = 300) -> list[Pair]:
    """Return verbatim sentences of squad2 passages, against their passage."""
    rows = read_records(data / "squad2-dev-half/corpus.jsonl")
    found = [
        Pair("verbatim", row["text"][start:end], row["text"], True)
        for row in rows
        for start, end in find_sentence_spans(row["text"])
        if end - start > 30
    ]
    found = [pair for pair in found if is_dev(pair.claim) == dev]
    random.Random(5).shuffle(found)
    return found[:most]


ORDER = ("contradicted", "suspicious", "unsupported", "partial", "unchecked", "supported")


def show_verdict(pair: Pair) -> tuple[str, float, tuple[str, ...]]:
    """Return the worst verdict that a user sees for a text, its score and reasons."""
    hit = Hit(Chunk("d", 0, pair.evidence, 0, len(pair.evidence)), 1.0, "hybrid")
    notation = Notation((Source(1, hit, pair.evidence),))
    claims = review_text(pair.claim, notation).claims
    if not claims:
        return "no claim", 0.0, ()
    worst = min(claims, key=lambda one: ORDER.index(one.verdict))
    return worst.verdict, worst.score, worst.reasons


def measure(pairs: list[Pair], worst: int) -> list[str]:
    """Print one line per group: share shown as supported, the verdicts, and the worst mistakes."""
    begun = time.process_time()
    seen = [(pair, *show_verdict(pair)) for pair in pairs]
    spent = (time.process_time() - begun) * 1000 / max(len(pairs), 1)
    lines = [f"{len(pairs)} claims, {spent:.1f} CPU ms per claim", ""]
    lines += ["| kind | claims | shown as supported | verdicts |", "|---|---|---|---|"]
    mistakes: list[str] = []
    for group in dict.fromkeys(pair.group for pair in pairs):
        here = [one for one in seen if one[0].group == group]
        good = sum(verdict == "supported" for _, verdict, _, _ in here)
        count = Counter(verdict for _, verdict, _, _ in here)
        verdicts = ", ".join(f"{name} {number}" for name, number in count.most_common())
        lines.append(f"| {group} | {len(here)} | {good / len(here):.3f} | {verdicts} |")
        wrong = [one for one in here if (one[1] == "supported") != one[0].supports]
        wrong.sort(key=lambda one: one[2], reverse=not here[0][0].supports)
        for pair, verdict, score, reasons in wrong[:worst]:
            near = " ".join(pair.evidence.split())[:400]
            mistakes.append(
                f"- {group}: **{verdict}** {score:.2f} “{pair.claim}” ← “{near}” {list(reasons)}"
            )
    for title, supports in (("changed claims not supported", False), ("refused", True)):
        here = [one for one in seen if one[0].supports == supports]
        if here:
            share = sum(verdict != "supported" for _, verdict, _, _ in here) / len(here)
            lines.append(f"| **{title}** | {len(here)} | {share:.3f} | |")
    for group in dict.fromkeys(pair.group for pair in pairs):
        here = [one for one in seen if one[0].group == group]
        yes = [one[1] == "supported" for one in here if one[0].supports]
        no = [one[1] != "supported" for one in here if not one[0].supports]
        if yes and no:
            balanced = (sum(yes) / len(yes) + sum(no) / len(no)) / 2
            lines.append(
                f"| {group}: balanced accuracy | {len(here)} | {balanced:.3f} | "
                f"supported found {sum(yes) / len(yes):.3f}, others refused "
                f"{sum(no) / len(no):.3f} |"
            )
    return [*lines, "", *mistakes] if worst else lines


def measure_cost() -> list[str]:
    """Check 200 sentences against 20 sources, without the deadline of 30 s that `Engine.check` has.

    On a busy machine the deadline would measure the others: compare it with the CPU time.
    """
    rows = read_records(PACK)
    facts = list(dict.fromkeys(row["evidence"] for row in rows))[:20]
    known = [row["claim"] for row in rows if row["evidence"] in facts]
    others = [row["claim"] for row in rows if row["evidence"] not in facts]
    claims = [*known, *others][:200]
    cpu, begun = time.process_time(), time.monotonic()
    limit = WorkLimit.of_seconds(1e6)
    found = check_against_facts("\n\n".join(claims), facts, limit=limit)
    cpu, begun = time.process_time() - cpu, time.monotonic() - begun
    count = Counter(claim.verdict for claim in found.claims)
    verdicts = ", ".join(f"{name} {number}" for name, number in count.most_common())
    return [
        f"{len(found.claims)} sentences against {len(facts)} sources: {cpu:.1f} CPU s, "
        f"{begun:.1f} s, {1000 * cpu / len(found.claims):.1f} CPU ms per claim",
        f"Verdicts: {verdicts}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--half", choices=("dev", "report"), default="report")
    parser.add_argument("--only", nargs="*", choices=("pack", "quotations", "judged", "cost"))
    parser.add_argument("--worst", type=int, default=5, help="mistakes to print per kind")
    options = parser.parse_args()
    dev = options.half == "dev"
    parts = {
        "pack": ("The pack", lambda: load_pack(dev=dev)),
        "quotations": (
            "Quotations",
            lambda: load_neighbours(options.data, dev=dev) + load_quotations(dev=dev),
        ),
        "judged": ("Judged sets", lambda: load_judged(options.data, dev=dev)),
    }
    for key, (title, load) in parts.items():
        if not options.only or key in options.only:
            lines = measure(load(), options.worst)
            print("\n".join([f"## {title} ({options.half})", "", *lines, ""]), flush=True)
    if not options.only or "cost" in options.only:
        print("\n".join(["## A long answer", "", *measure_cost()]), flush=True)


if __name__ == "__main__":
    main()
