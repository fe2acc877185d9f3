"""Ask for cells of tables in PDF, DOCX, HTML, XLSX and Markdown, and count what is found.

    python bench/tables.py [--half dev|report] [--show] [--alike 10] [--cache FOLDER]

The questions are in `bench/packs/tables.jsonl`, their rules in the README beside it. The documents
are written by `bench/packs/make_tables.py` (needs reportlab) and ingested with the default
settings. Two figures for each half and format: the right chunk is among the first five hits (the
right document, and the chunk holds the row head and the value), and the answer holds the right
cell. An answer that prints most rows of the table holds every figure in it and is counted apart.

Fifteen documents are a small collection. `--alike N` adds to each of them N documents of other
firms, with the same words and other figures, and asks only the questions that name the firm: the
right table is found only if its chunks carry what names it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "packs"))

from make_tables import SOURCES, read_source, write_documents  # noqa: E402
from matching import contains_phrase, find_forbidden, find_missing  # noqa: E402

from ragstone import Engine  # noqa: E402
from ragstone.settings import load_settings  # noqa: E402
from ragstone.types import Hits  # noqa: E402

CACHE = HERE / "cache" / "tables"
FIRST_HITS = 5
# An answer with more rows than this, and more than half of the table, prints the table.
MANY_ROWS = 3
Row = tuple[str, ...]
# The firm, place or product of each document, by the beginning of its name.
NAMES = {
    "alder": "Alder", "brightwash": "Brightwash", "corvus": "Corvus", "evening": "Linden",
    "harbour": "Port Ellery", "hx": "HX", "line-61": "Weirfield", "lumenra": "Lumenra",
    "marlow": "Marlow", "nordlab": "Nordlab", "okonor": "Okonor", "pelican": "Pelican",
    "tilia": "Tilia", "vester": "Vester",
}  # fmt: skip
OTHER_NAMES = (
    "Ashby", "Borlund", "Cendra", "Dorvik", "Elmstead", "Farrow", "Grimsvold", "Hollis", "Ivarsen",
    "Jutland", "Kestrelle", "Lorimer", "Mendip", "Norwick", "Ostrava", "Prentice", "Quillon",
)  # fmt: skip
_FIGURE = re.compile(r"(?<![\w-])\d[\d,.:]*")
_YEAR = re.compile(r"(?:19|20)\d\d")


@dataclass(frozen=True)
class Result:
    """One question, where its chunk was found, and what the answer holds."""

    id: str
    half: str
    format: str
    kind: str
    question: str
    rank: int | None
    """The place of the right chunk among all hits, from 1."""
    right_cell: bool
    whole_table: bool
    status: str
    short_answer: str
    text: str
    first_hits: tuple[str, ...]

    @property
    def is_found(self) -> bool:
        return self.rank is not None and self.rank <= FIRST_HITS


def find_table_rows(question: dict[str, Any]) -> list[list[Row]]:
    """Return, for each table of the source with the cell's row and column, its rows."""
    source = read_source(SOURCES / f"{question['document']}.md")
    row, column = question["cell"]["row"], question["cell"]["column"]
    found = []
    for block in source.blocks:
        if block.kind == "table":
            heads = [*block.rows[0], *(name for _, name in block.groups)]
            has_row = any(contains_phrase(cell, row) for r in block.rows for cell in r)
            if has_row and any(contains_phrase(f"{head} ", column) for head in heads):
                found.append(list(block.rows))
    return found


def find_values(question: dict[str, Any]) -> list[str]:
    """Return the spellings of the value that a right chunk holds beside the row head."""
    row = question["cell"]["row"]
    body = [r for table in find_table_rows(question) for r in table[1:]]
    cells = [cell for r in body if any(contains_phrase(c, row) for c in r) for cell in r]
    values = [
        one
        for group in question["must"]
        if any(contains_phrase(cell, text) for cell in cells for text in group)
        for one in group
        if not contains_phrase(row, one)
    ]
    return values or [one for group in question["must"] for one in group]


def find_rank(question: dict[str, Any], hits: Hits) -> int | None:
    values = find_values(question)
    for rank, hit in enumerate(hits, 1):
        text = hit.chunk.text
        if (
            hit.chunk.document_name == question["document"]
            and contains_phrase(text, question["cell"]["row"])
            and any(contains_phrase(text, value) for value in values)
        ):
            return rank
    return None


def is_whole_table(question: dict[str, Any], answer: str) -> bool:
    """Tell whether the answer prints most rows of the table that holds the cell."""
    for table in find_table_rows(question):
        printed = sum(
            sum(contains_phrase(answer, cell) for cell in row) * 2 > len(row) for row in table[1:]
        )
        if printed > MANY_ROWS and printed * 2 > len(table) - 1:
            return True
    return False


def write_all(folder: Path, alike: int) -> None:
    """Write the documents anew, so that no file of an earlier run stays."""
    shutil.rmtree(folder, ignore_errors=True)
    write_documents(folder)
    with tempfile.TemporaryDirectory() as place:
        for path in sorted(SOURCES.glob("*.md")):
            for name in OTHER_NAMES[:alike]:
                text = path.read_text("utf-8").replace(find_name(path.name), name)
                chance = random.Random(f"{name} {path.name}")
                lines = [change_figures(line, chance) for line in text.split("\n")]
                (Path(place) / f"{name.lower()}-{path.name}").write_text("\n".join(lines), "utf-8")
        write_documents(folder, Path(place))


def find_name(document: str) -> str:
    return next(name for start, name in NAMES.items() if document.startswith(start))


def change_figures(line: str, chance: random.Random) -> str:
    """Change every digit of the figures in a row of a table, but no year."""
    if not line.startswith("|") or line.startswith("|--"):
        return line

    def change(match: re.Match[str]) -> str:
        if _YEAR.fullmatch(match[0]):
            return match[0]
        return re.sub(r"\d", lambda _: str(chance.randint(1, 9)), match[0])

    return _FIGURE.sub(change, line)


async def ask_all(
    questions: Sequence[dict[str, Any]], cache: Path, *, alike: int = 0
) -> list[Result]:
    write_all(cache / "documents", alike)
    shutil.rmtree(cache / "data", ignore_errors=True)
    loaded = load_settings(flags={"data.directory": cache / "data"}, environ={})
    found: list[Result] = []
    async with Engine(loaded.settings) as engine:
        report = await engine.ingest([cache / "documents"])
        print(f"{len(report.files)} files, {len(report.of('failed'))} failed, "
              f"{report.chunk_count} chunks", flush=True)  # fmt: skip
        for question in questions:
            hits = await engine.search(question["question"])
            answer = await engine.ask(question["question"])
            short = getattr(answer, "short_answer", "") or ""
            text = f"{short}\n{answer.text}"
            right = not find_missing(text, question["must"])
            right = right and not find_forbidden(text, question["must_not"])
            found.append(
                Result(
                    question["id"], question["half"], Path(question["document"]).suffix[1:],
                    question["kind"], question["question"], find_rank(question, hits),
                    right and answer.status == "answered", is_whole_table(question, text),
                    answer.status, short, answer.text,
                    tuple(hit.chunk.id for hit in hits[:FIRST_HITS]),
                )
            )  # fmt: skip
    return found


def print_report(found: Sequence[Result]) -> None:
    heads = ("asked", "chunk in 5", "right cell", "whole table", "no answer")
    print(f"\n{'':16}" + "".join(f"{head:>16}" for head in heads))
    for half in ("dev", "report"):
        mine = [one for one in found if one.half == half]
        names = sorted({one.format for one in mine})
        by_format = [(f"  {name}", [o for o in mine if o.format == name]) for name in names]
        for name, some in [(half, mine), *by_format]:
            if some:
                print(f"{name:16}{len(some):16}" + "".join(_format_counts(some)))


def _format_counts(some: Sequence[Result]) -> list[str]:
    counts = (
        sum(one.is_found for one in some),
        sum(one.right_cell and not one.whole_table for one in some),
        sum(one.right_cell and one.whole_table for one in some),
        sum(one.status != "answered" for one in some),
    )
    return [f"{f'{count} ({count / len(some):.0%})':>16}" for count in counts]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--half", choices=("dev", "report"))
    parser.add_argument("--alike", type=int, default=0, help="documents of other firms for each")
    parser.add_argument("--show", action="store_true", help="print every answer")
    options = parser.parse_args()
    lines = (HERE / "packs/tables.jsonl").read_text("utf-8").splitlines()
    questions = [q for q in map(json.loads, lines) if options.half in (None, q["half"])]
    if options.alike:
        questions = [
            q for q in questions if find_name(q["document"]).casefold() in q["question"].casefold()
        ]
    found = asyncio.run(ask_all(questions, options.cache, alike=options.alike))
    out = options.cache / "results.jsonl"
    out.write_text("".join(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in found))
    if options.show:
        for one in found:
            cell = "whole table" if one.whole_table else "right" if one.right_cell else "wrong"
            print(f"\n--- {one.id} {one.format} {one.kind} rank {one.rank} cell {cell}"
                  f" {one.question}\n{one.short_answer or '-'}\n{one.text[:600]}")  # fmt: skip
    print_report(found)


if __name__ == "__main__":
    main()
