"""Ask questions in several languages, as they are and with every passage that answers them hidden.

    python bench/hidden.py [--only de vi] [--queries 60] [--bars]

Sets: the languages of xquad under `../shared/data`, and `packs/hidden.jsonl` (Arabic, Chinese,
Hindi, Vietnamese). The whole query pipeline answers, without a model, as it is installed. Of xquad
only questions are asked that fitted no weight (bench/fit_answers.py). `--bars` prints what other
bars would give.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "packs"))

from fit_answers import Asked, load_squad, read_lines  # noqa: E402

from answers import find_probability  # noqa: E402
from ragstone import Engine  # noqa: E402
from ragstone.settings import load_settings  # noqa: E402
from sets import DEFAULT_DATA  # noqa: E402

_BARS = (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)


@dataclass(frozen=True, slots=True)
class Pair:
    """Hold what was answered to one question: as it is, and with its answer hidden."""

    asked: Asked
    answered: bool
    right: bool
    probability: float
    answered_hidden: bool
    probability_hidden: float


def load_pack(language: str) -> tuple[dict[str, str], list[Asked]]:
    rows = [row for row in read_lines(HERE / "packs/hidden.jsonl") if row["language"] == language]
    texts = {row["id"]: f"# {row['title']}\n\n{row['text']}\n" for row in rows}
    asked = [Asked(language, q, (a,), row["id"]) for row in rows for q, a in row["questions"]]
    return texts, asked


def load_sets(data: Path, queries: int) -> dict[str, tuple[dict[str, str], list[Asked]]]:
    folders = [folder for folder in sorted((data / "xquad").glob("*")) if folder.is_dir()]
    sets = {}
    for one in folders:
        texts, asked = load_squad(data, f"xquad/{one.name}", 4 * queries)
        sets[one.name] = texts, [question for question in asked if not question.fits][:queries]
    languages = {row["language"] for row in read_lines(HERE / "packs/hidden.jsonl")}
    return sets | {one: load_pack(one) for one in sorted(languages)}


async def ask_set(texts: dict[str, str], asked: Sequence[Asked], preset: str) -> list[Pair]:
    """Ask each question twice; the second time the documents that hold the answer are excluded."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / "documents"
        folder.mkdir()
        names = {f"{number}.md": text for number, text in enumerate(texts.values())}
        for name, text in names.items():
            (folder / name).write_text(text, "utf-8")
        flags = {"data.directory": Path(directory) / "data", "preset": preset}
        found = []
        async with Engine(load_settings(flags=flags, environ={}).settings) as engine:
            report = await engine.ingest([folder])
            assert not report.of("failed"), report.of("failed")[0]
            for one in asked:
                hidden = [name for name, text in names.items() if one.holds_answer(text)]
                plain = await engine.ask(one.question)
                without = await engine.ask(
                    one.question, filters={"not": {"document_name": {"in": hidden}}}
                )
                assert not any(one.holds_answer(source.text) for source in without.sources)
                found.append(
                    Pair(
                        one,
                        plain.status == "answered",
                        plain.status == "answered" and one.holds_answer(plain.text),
                        find_probability(plain),
                        without.status == "answered",
                        find_probability(without),
                    )
                )
    return found


def format_row(name: str, pairs: Sequence[Pair]) -> str:
    count = len(pairs)
    shares = (
        sum(one.answered for one in pairs) / count,
        sum(one.right for one in pairs) / count,
        sum(one.answered_hidden for one in pairs) / count,
    )
    return f"| {name} | {count} | " + " | ".join(f"{100 * one:.0f} %" for one in shares) + " |"


def print_bars(pairs: Sequence[Pair]) -> None:
    """Print the shares answered at other bars."""
    for bar in _BARS:
        plain = sum(one.probability >= bar for one in pairs) / len(pairs)
        right = sum(one.right and one.probability >= bar for one in pairs) / len(pairs)
        hidden = sum(one.probability_hidden >= bar for one in pairs) / len(pairs)
        print(f"    bar {bar:.2f}: answered {plain:.2f}, right {right:.2f}, hidden {hidden:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--queries", type=int, default=60, help="questions of a language")
    parser.add_argument("--preset", default="balanced")
    parser.add_argument("--only", nargs="*", default=[], help="only these languages")
    parser.add_argument("--bars", action="store_true", help="print what other bars would give")
    options = parser.parse_args()
    print("| | questions | answered | right | answered all the same |\n|---|---|---|---|---|")
    for name, (texts, asked) in load_sets(options.data, options.queries).items():
        if not options.only or name in options.only:
            pairs = asyncio.run(ask_set(texts, asked, options.preset))
            print(format_row(name, pairs))
            if options.bars:
                print_bars(pairs)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
