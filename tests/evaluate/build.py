"""Small datasets on the disk, and settings whose every directory is inside the test."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragstone.settings import Settings

from ..conftest import settings_in

COLOURS = ("red", "green", "blue", "white", "black", "yellow", "brown", "grey", "violet", "pink")
THINGS = ("gate", "tower", "lantern", "bridge", "chapel", "cellar", "fountain", "orchard")


def inside(folder: Path, **flags: object) -> Settings:
    return settings_in(folder / "data", **{"evaluate.directory": folder / "work", **flags})


def write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def painted_things(folder: Path, *, answers: bool = False) -> Path:
    """A BEIR folder: eighty sentences about painted things, a question for each."""
    pairs = [(colour, thing) for colour in COLOURS for thing in THINGS]
    write_lines(
        folder / "corpus.jsonl",
        [
            {
                "_id": f"{thing}-{colour}",
                "title": f"The {thing}",
                "text": f"In the {colour} village the {thing} was built by {colour.title()} Mason.",
            }
            for colour, thing in pairs
        ],
    )
    asked = [
        {"_id": f"q{at}", "text": f"Who built the {thing} of the {colour} village?"}
        for at, (colour, thing) in enumerate(pairs)
    ]
    write_lines(folder / "queries.jsonl", asked)
    lines = [f"q{at}\t{thing}-{colour}\t1" for at, (colour, thing) in enumerate(pairs)]
    (folder / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n")
    if answers:
        write_lines(
            folder / "qa.jsonl",
            [
                *(
                    {
                        "id": f"q{at}",
                        "question": asked[at]["text"],
                        "answers": [f"{colour.title()} Mason"],
                        "is_impossible": False,
                    }
                    for at, (colour, _) in enumerate(pairs)
                ),
                {
                    "id": "none",
                    "question": "Who painted the submarine of the emperor?",
                    "answers": [],
                    "is_impossible": True,
                },
            ],
        )
    return folder
