"""Measure the classifier: small talk, kinds of questions and instructions to a model.

    python bench/classifier.py [--show]

Small talk and questions are the report half of smalltalk-vs-question, which the fit leaves out.
The instructions of `bench/packs/injections.jsonl` were written apart from the rows of the fit, in
another style. False alarms are counted on the three quarters of the Kubernetes documentation that
the fit leaves out, in all its languages, on passages of clapnq, and on the packs' documents.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

from ragstone.query.understand.small_talk import classify_small_talk, match_small_talk
from ragstone.reading.classifier import classify_route
from ragstone.reading.injection import _find_instructions
from ragstone.settings import load_settings
from sets import DEFAULT_DATA

PACKS = Path(__file__).parent / "packs"


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def print_small_talk(data: Path) -> None:
    threshold = load_settings(environ={}).settings.understand.intent_confidence
    counts: dict[str, list[int]] = {}
    begun, asked = time.process_time(), 0
    for row in read_lines(data / "smalltalk-vs-question/train.jsonl"):
        if hashlib.sha256(row["text"].encode()).digest()[0] % 2 == 0:
            continue
        talk = match_small_talk(row["text"]) or classify_small_talk(row["text"])
        taken = talk is not None and talk.probability >= threshold
        counts.setdefault(row["label"], []).append(taken)
        asked += 1
    spent = 1000 * (time.process_time() - begun) / asked
    for label, taken in counts.items():
        print(f"{label}: {sum(taken)} of {len(taken)} taken for small talk")
    print(f"CPU ms per message: {spent:.2f}")


def print_routes(data: Path) -> None:
    """Print how many questions of clapnq are taken for a request about documents."""
    asked = [row["input"] for row in read_lines(data / "clapnq/qa.jsonl")]
    taken = [text for text in asked if classify_route(text)[0] not in ("ask", "compare")]
    print(f"clapnq: {len(taken)} of {len(asked)} questions not taken for one {taken[:10]}")


def read_texts(data: Path) -> Iterator[tuple[str, str]]:
    number = 0
    with tarfile.open(data / "docs-k8s.tar.gz") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.name.endswith(".md") else None
            if stream is not None:
                number += 1
                if (number - 1) % 4:
                    yield "k8s", stream.read().decode("utf-8", "replace")
    for row in read_lines(data / "clapnq/qa.jsonl"):
        for passage in row["passages"]:
            yield "clapnq", passage["text"]
    for path in sorted(PACKS.rglob("*")):
        if path.suffix in (".md", ".txt", ".html") and path.name != "README.md":
            yield "packs", path.read_text("utf-8", "replace")


def print_instructions(data: Path, *, show: bool) -> None:
    rows = read_lines(PACKS / "injections.jsonl")
    found = {row["id"]: bool(_find_instructions(row["text"])) for row in rows}
    hits = sum(found[row["id"]] for row in rows if row["label"] == "instruction")
    alarms = sum(found[row["id"]] for row in rows if row["label"] == "text")
    total = sum(row["label"] == "instruction" for row in rows)
    print(f"instructions: {hits} of {total} found; {alarms} false alarms in {len(rows) - total} "
          f"sentences that are near to one: precision {hits / max(1, hits + alarms):.3f}, "
          f"recall {hits / total:.3f}")  # fmt: skip
    for row in rows if show else ():
        if found[row["id"]] != (row["label"] == "instruction"):
            print(f"    {row['label']}: {row['text']}")
    counts: dict[str, tuple[int, int, int]] = {}
    begun, chars = time.process_time(), 0
    for name, text in read_texts(data):
        spans = _find_instructions(text)
        texts, alarms, parts = counts.get(name, (0, 0, 0))
        sentences = sum(1 for part in text.replace(". ", "\n").split("\n") if part.strip())
        counts[name] = texts + 1, alarms + len(spans), parts + sentences
        chars += len(text)
        for start, end in spans if show else ():
            print(f"    {name}: {text[start:end][:200]!r}")
    spent = time.process_time() - begun
    for name, (texts, alarms, parts) in counts.items():
        print(f"{name}: {alarms} alarms in {parts} sentences of {texts} texts "
              f"({alarms / parts:.3%})")  # fmt: skip
    print(f"CPU ms per 5,000 characters: {5_000_000 * spent / chars:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    print_small_talk(options.data)
    print_routes(options.data)
    print_instructions(options.data, show=options.show)


if __name__ == "__main__":
    main()
