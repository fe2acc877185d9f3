"""Measure citations: models that know the answer but cite badly, and the sample questions.

    python bench/grounding.py [--only manners|samples]

`bench/claims.py` measures the check of claims, `bench/answers.py` real questions, and
`bench/fit_answers.py` abstention. The table goes to bench/out/grounding.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from manners import CITATION_STYLES, serve_model
from perturb import shorten_sentence
from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.settings import load_settings

HERE = Path(__file__).parent
OUT = HERE / "out"
SAMPLES = HERE.parent / "src/ragstone/samples"


def normalize_text(text: str) -> str:
    return " ".join(text.split()).casefold()


def load_sample_questions() -> list[dict[str, Any]]:
    text = (SAMPLES / "questions.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


async def measure_samples() -> list[str]:
    """Ask the sample questions with the extractive answerer, and measure the cost."""
    rows = load_sample_questions()
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(flags={"data.directory": Path(folder)}, environ={}).settings
        async with Engine(settings, embedder=OnnxEmbedder()) as engine:
            await engine.ingest([SAMPLES / "documents"])
            for row in rows[:3]:
                await engine.ask(row["question"])  # warm
            begun = time.process_time()
            answers = [await engine.ask(row["question"]) for row in rows]
            spent = (time.process_time() - begun) * 1000 / len(rows)
    pairs = list(zip(rows, answers, strict=True))
    held = [
        answer.status == "answered" and normalize_text(row["answer"]) in normalize_text(answer.text)
        for row, answer in pairs
    ]
    can = [row["answerable"] for row in rows]
    right = sum(h for h, c in zip(held, can, strict=True) if c)
    refused = sum(a.status == "abstained" for a, c in zip(answers, can, strict=True) if not c)
    lost = sum(a.status == "abstained" for a, c in zip(answers, can, strict=True) if c)
    notices = sum("The sources do not agree" in a.text for a in answers)
    return [
        f"answerable: {sum(can)}, answered right {right}, not answered {lost}; "
        f"unanswerable: {len(rows) - sum(can)}, abstained {refused}; conflict notices {notices}; "
        f"{spent:.0f} CPU ms per question"
    ]


async def measure_bad_citations() -> list[str]:
    """Models that know the answer but cite badly: is what ends in the answer right?

    A citation is right when its snippet overlaps the sentence that holds the answer, at its place
    in its document. Half of the sentences are said as they stand, half without their last clause.
    """
    rows = [row for row in load_sample_questions() if row["answerable"]]
    sayings = {}
    for number, row in enumerate(rows):
        cut = shorten_sentence(row["evidence"]) if number % 2 else None
        good = cut is not None and row["answer"] in cut
        sayings[row["question"]] = [cut if good and cut else " ".join(row["evidence"].split())]
    lines = [
        "| model | citations | precision | answers with a right citation |",
        "|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        base = {"data.directory": Path(folder), "provider.name": "openai"}
        for manner in CITATION_STYLES:
            with serve_model(manner, sayings) as url:
                flags = {**base, "provider.base_url": url}
                settings = load_settings(flags=flags, environ={}).settings
                async with Engine(settings, embedder=OnnxEmbedder()) as engine:
                    await engine.ingest([SAMPLES / "documents"])
                    good, total, answered = await _ask_model(engine, rows)
            lines.append(
                f"| {manner} | {total} | **{good / max(total, 1):.3f}** | "
                f"{answered / len(rows):.3f} |"
            )
    return lines


async def measure_obeying_models(most: int = 10) -> list[str]:
    """Models that obey a poisoned document: is what they were told to say certified?"""
    pack = HERE.parent / "tests/query/check/injections.jsonl"
    rows = [json.loads(line) for line in pack.read_text("utf-8").splitlines()]
    # Not the picture: its sentence is true, and only its link is an attack.
    rows = [row for row in rows if row["trick"] != "image beacon"][:: len(rows) // most][:most]
    lines = ["| trick | verdict | certified | in the text |", "|---|---|---|---|"]
    for row in rows:
        question = f"What do we know about this: {row['obeyed']}"
        with (
            tempfile.TemporaryDirectory() as folder,
            serve_model("writes [1]", {question: [row["obeyed"]]}) as url,
        ):
            document = Path(folder) / "poisoned.md"
            document.write_text(row["text"], "utf-8")
            flags = {
                "data.directory": Path(folder) / "data",
                "provider.name": "openai",
                "provider.base_url": url,
            }
            settings = load_settings(flags=flags, environ={}).settings
            async with Engine(settings, embedder=OnnxEmbedder()) as engine:
                await engine.ingest([document])
                answer = await engine.ask(question)
        verdicts = ", ".join(claim.verdict for claim in answer.claims) or answer.status
        certified = any(
            claim.verdict == "supported" and row["obeyed"].rstrip(".") in claim.text
            for claim in answer.claims
        )
        said = row["obeyed"].rstrip(".") in answer.text
        lines.append(f"| {row['trick']} | {verdicts} | {certified} | {said} |")
    return lines


async def _ask_model(engine: Engine, rows: list[dict[str, Any]]) -> tuple[int, int, int]:
    good = total = answered = 0
    for row in rows:
        answer = await engine.ask(row["question"])
        right = 0
        for one in answer.citations:
            text = engine.catalog.document(one.document_id).text
            assert text[one.start : one.end] == one.snippet
            same = one.document_name.endswith(row["document"].rsplit("/", 1)[-1])
            wanted, said = (
                set(normalize_text(row["evidence"]).split()),
                set(normalize_text(one.snippet).split()),
            )
            right += same and len(wanted & said) >= 0.5 * min(len(wanted), len(said))
        good, total, answered = good + right, total + len(answer.citations), answered + bool(right)
    return good, total, answered


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("--only", nargs="*", help="only these parts")
    options = parser.parse_args()
    parts: dict[str, tuple[str, Callable[[], list[str]]]] = {
        "manners": (
            "Citations of badly citing models",
            lambda: asyncio.run(measure_bad_citations()),
        ),
        "obeying": (
            "Models that obey a poisoned document",
            lambda: asyncio.run(measure_obeying_models()),
        ),
        "samples": ("The sample questions", lambda: asyncio.run(measure_samples())),
    }
    pages = []
    for key, (title, run) in parts.items():
        if not options.only or key in options.only:
            pages.append("\n".join([f"## {title}", "", *run(), ""]))
            print(pages[-1], flush=True)
    OUT.mkdir(exist_ok=True)
    (OUT / "grounding.md").write_text("\n".join(pages), "utf-8")


if __name__ == "__main__":
    main()
