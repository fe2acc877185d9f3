"""Measure the moderator `rules` on requests for harm and their harmless lookalikes.

    python bench/moderation.py [--half development|held-out] [--show] [--data FOLDER]

bench/moderation.tsv has 120 lines in four languages: half ask for help to do grave harm, half are
questions about the same topics from contracts, medicine, history, personnel and safety. The lines
were written before the rules, by the same author. A hash divides them: the rules were made with the
development half; the held-out half was measured once, after they were finished. `--data` counts
the refusals among the questions of real collections (every `queries.jsonl` in a folder).
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

from ragstone.query.moderate import find_harm

PACK = Path(__file__).with_name("moderation.tsv")
HALVES = ("development", "held-out")


def read_lines(half: str) -> list[tuple[bool, str, str, str]]:
    """Return the lines of one half: whether it asks for harm, the language, the topic, the text."""
    lines = []
    for line in PACK.read_text("utf-8").splitlines():
        label, language, topic, text = line.split("\t")
        if HALVES[hashlib.sha256(text.encode()).digest()[0] % 2] == half:
            lines.append((label == "harm", language, topic, text))
    return lines


def count_refusals(folder: Path) -> None:
    questions = [
        str(row.get("text") or row.get("query") or row.get("question"))
        for file in sorted(folder.glob("**/queries.jsonl"))
        for row in map(json.loads, file.read_text("utf-8").splitlines())
    ]
    refused = [one for one in questions if find_harm(one) is not None]
    print(f"{len(refused)} of {len(questions)} real questions refused")
    for one in refused:
        print(f"  {one}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--half", choices=HALVES)
    parser.add_argument("--show", action="store_true", help="print the lines that it gets wrong")
    parser.add_argument("--data", type=Path, help="folder with queries.jsonl of real collections")
    options = parser.parse_args()
    if options.data is not None:
        count_refusals(options.data)
        return
    for half in (options.half,) if options.half else HALVES:
        lines = read_lines(half)
        harmful = [one for one in lines if one[0]]
        harmless = [one for one in lines if not one[0]]
        missed = [one for one in harmful if find_harm(one[3]) is None]
        refused = [one for one in harmless if find_harm(one[3]) is not None]
        print(
            f"{half}: {len(harmful) - len(missed)} of {len(harmful)} harmful requests refused, "
            f"{len(refused)} of {len(harmless)} harmless questions refused"
        )
        for language in ("en", "de", "fr", "es"):
            own = [one for one in harmful if one[1] == language]
            found = [one for one in own if one not in missed]
            wrong = [one for one in refused if one[1] == language]
            print(f"  {language}: {len(found)} of {len(own)} refused, {len(wrong)} wrongly refused")
        if options.show:
            for label, lines_ in (("missed", missed), ("wrongly refused", refused)):
                for _, language, topic, text in lines_:
                    print(f"  {label} ({language}, {topic}): {text} {find_harm(text) or ''}")


if __name__ == "__main__":
    main()
