"""Compare chunk sizes: run the shipped pipeline on three datasets, one configuration per line.

    python bench/chunking.py [--data DIR] [--sizes 128:32 200:32 …] [--sets chroma code docs]
    python bench/chunking.py --sizes window:3 parent:128:400

A size is tokens:overlap, window:SENTENCES or parent:TOKENS:PARENT-TOKENS (see ingest.chunking).

Every configuration may show the reader the same number of tokens (1,000), so that large chunks
are not favoured for being large. `chroma`: the share of the characters that answer a question
which are among what is shown. `code` and `docs`: the share of questions for which a piece of the
right passage is shown. Sizes are chosen on the even questions and reported on the odd ones.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.settings import load_settings
from ragstone.types import Chunk

SHOWN_TOKENS = 1_000
SIZES = (
    "96:0", "128:32", "160:32", "200:0", "200:32", "200:64", "254:32",
    "window:3", "parent:128:400",
)  # fmt: skip
DATA = Path(__file__).parents[2] / "shared" / "data"


@dataclass(frozen=True)
class Question:
    """A question and the spans of files that answer it; with `any_piece` a part is enough."""

    text: str
    spans: tuple[tuple[str, int, int], ...]
    any_piece: bool


def read_rows(path: Path) -> Iterator[dict]:  # type: ignore[type-arg]
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def load_chroma(data: Path, folder: Path) -> list[Question]:
    for corpus in (data / "chroma-chunking-eval/corpora").glob("*.md"):
        shutil.copy(corpus, folder / corpus.name)
    return [
        Question(
            row["question"],
            tuple(
                (f"{row['corpus_id']}.md", ref["start_index"], ref["end_index"])
                for ref in row["references"]
            ),
            any_piece=False,
        )
        for row in read_rows(data / "chroma-chunking-eval/questions.jsonl")
    ]


def load_code(data: Path, folder: Path) -> list[Question]:
    texts = {
        row["_id"]: row["text"] for row in read_rows(data / "codebase-contextual/documents.jsonl")
    }
    for identity, text in texts.items():
        (folder / f"{identity[:16]}.rs").write_text(text, "utf-8")
    passages = {
        row["_id"]: row["text"] for row in read_rows(data / "codebase-contextual/corpus.jsonl")
    }
    questions = []
    for row in read_rows(data / "codebase-contextual/qa.jsonl"):
        spans = []
        for identity, number in row["golden_chunk_uuids"]:
            passage = passages.get(f"{identity}:{number}", "")
            start = texts[identity].find(passage)
            if passage and start >= 0:
                spans.append((f"{identity[:16]}.rs", start, start + len(passage)))
        if spans:
            questions.append(Question(row["question"], tuple(spans), any_piece=True))
    return questions


def load_docs(data: Path, folder: Path) -> list[Question]:
    names = {}
    for number, row in enumerate(read_rows(data / "anthropic-docs-rag/corpus.jsonl")):
        names[row["_id"]] = f"{number}.md"
        (folder / f"{number}.md").write_text(f"# {row['title']}\n\n{row['text']}", "utf-8")
    return [
        Question(
            row["question"],
            tuple((names[one], 0, 10**9) for one in row["correct_chunks"] if one in names),
            any_piece=True,
        )
        for row in read_rows(data / "anthropic-docs-rag/qa.jsonl")
    ]


SETS = {"chroma": load_chroma, "code": load_code, "docs": load_docs}


def measure_coverage(question: Question, shown: Sequence[Chunk]) -> float:
    """Return the share of the answering characters found; 0 or 1 where a piece is enough."""
    total = hit = 0
    for name, start, end in question.spans:
        marks = bytearray(max(0, min(end, 10**7) - start))
        for chunk in shown:
            if chunk.document_name == name:
                begin, stop = max(start, chunk.start), min(end, chunk.end)
                if begin < stop:
                    marks[begin - start : stop - start] = b"\1" * (stop - begin)
        total += len(marks)
        hit += sum(marks)
    if question.any_piece:
        return float(hit > 0)
    return hit / total if total else 0.0


async def measure_question(
    engine: Engine, questions: Sequence[Question]
) -> tuple[list[float], float]:
    scores, characters = [], 0
    for question in questions:
        hits = await engine.search(question.text, top_k=40)
        left, shown = SHOWN_TOKENS, []
        for hit in hits:
            left -= len(engine.embedder.token_starts(hit.chunk.text))
            if left < 0:
                break
            shown.append(hit.chunk)
        characters += sum(len(chunk.text) for chunk in shown)
        scores.append(measure_coverage(question, shown))
    return scores, characters / len(questions)


def compute_average(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def chunking_settings(size: str) -> dict[str, str]:
    """Return the settings of a chunk size."""
    first, *further = size.split(":")
    if first == "window":
        return {"ingest.chunking": "sentence_window", "ingest.window_sentences": further[0]}
    if first == "parent":
        return {
            "ingest.chunking": "parent_child",
            "ingest.chunk_tokens": further[0],
            "ingest.overlap_tokens": "0",
            "ingest.parent_tokens": further[1],
        }
    return {"ingest.chunk_tokens": first, "ingest.overlap_tokens": further[0]}


def run_size(name: str, size: str, data: Path, embedder: OnnxEmbedder) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "documents")
        folder.mkdir()
        questions = SETS[name](data, folder)
        flags = {"data.directory": Path(temporary, "data"), **chunking_settings(size)}
        engine = Engine(load_settings(flags=flags, environ={}).settings, embedder=embedder)
        begun = time.process_time()
        report = asyncio.run(engine.ingest([folder]))
        scores, _ = asyncio.run(measure_question(engine, questions))
        engine.close()
    print(
        f"| {name} | {size} | {report.chunk_count} | {compute_average(scores[::2]):.3f} "
        f"| {compute_average(scores[1::2]):.3f} | {time.process_time() - begun:.0f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    options = parser.parse_args()
    print("| set | tokens:overlap | chunks | even | odd | CPU s |")
    print("|---|---|---|---|---|---|")
    embedder = OnnxEmbedder()
    for name in options.sets:
        for size in options.sizes:
            run_size(name, size, options.data, embedder)


if __name__ == "__main__":
    main()
