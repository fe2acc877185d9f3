"""Collect the text that the student learns from, and pack it with the weights for a trip.

The data folder → packages of text and weights, each small enough for one call of the training
machine. No label is used and no question of a report half is read.

    python -m training.embedder.data --out DIR                  # the text
    python -m training.embedder.data --out DIR --models MODELS  # the teachers
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import hashlib
import json
import re
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from . import weights as w

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
SETS = (
    "scifact", "cranfield", "cisi", "cacm", "squad2-dev-half", "codebase-contextual",
    "anthropic-docs-rag", "xquad/en", "xquad/de", "xquad/es", "xquad/ru",
)  # fmt: skip
LANGUAGES = {
    "en": 9_000_000, "de": 1_500_000, "es": 1_500_000, "ru": 1_500_000, "fr": 700_000,
    "pt-br": 500_000, "it": 300_000, "pl": 300_000, "zh-cn": 300_000, "ja": 300_000,
    "ko": 200_000, "uk": 200_000, "vi": 200_000, "id": 200_000, "hi": 200_000,
}  # fmt: skip
CODE = 2_500_000
PART = 12_000_000  # characters of one package of text
MOST = 3_500_000  # characters of one training set
FIELDS = ("context", "text", "evidence", "question", "query", "claim")
Record = dict[str, Any]


def stable_number(text: str) -> int:
    """Hash an id as the halves of the questions are made (ragstone.evaluate.datasets)."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def read_lines(path: Path) -> Iterator[Record]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        for line in file:
            yield json.loads(line)


def collect_training(folder: Path) -> Iterator[str]:
    """Yield the questions, claims and passages of one folder, each once, parts left out."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        seen: set[str] = set()
        size = 0
        rows = list(read_lines(path))
        rows.sort(key=lambda row: str(row.get("group", "")))
        for row in rows:
            whole = row.get("context") or ""
            for field in FIELDS:
                text = " ".join(str(row.get(field) or "").split())
                if len(text) < 12 or text in seen or (field == "text" and text in whole):
                    continue
                seen.add(text)
                size += len(text)
                yield text
            if size > MOST:
                break


def collect_documents(data: Path, name: str) -> Iterator[str]:
    for row in read_lines(data / name / "corpus.jsonl"):
        title, text = str(row.get("title") or ""), str(row["text"])
        yield f"{title}\n{text}" if title else text


def collect_manuals(data: Path) -> Iterator[str]:
    """Yield sections of the Kubernetes documentation under their page's title."""
    left = dict(LANGUAGES)
    with tarfile.open(data / "docs-k8s.tar.gz") as archive:  # in its order: seeking is slow
        for member in archive:
            language = member.name.removeprefix("./").split("/")[0]
            if not member.name.endswith(".md") or left.get(language, 0) <= 0:
                continue
            if language == "en" and stable_number(member.name) % 2:
                continue
            file = archive.extractfile(member)
            if file is None:
                continue
            for section in split_markdown(file.read().decode("utf-8", "replace")):
                left[language] -= len(section)
                yield section


def split_markdown(text: str) -> Iterator[str]:
    title = ""
    front = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    if front:
        found = re.search(r"^title: *(.+)$", front[1], re.MULTILINE)
        title = found[1].strip("\"' ") if found else ""
        text = text[front.end() :]
    text = re.sub(r"<!--.*?-->|\{\{[<%].*?[%>]\}\}", " ", text, flags=re.DOTALL)
    for section in map(str.strip, re.split(r"\n(?=#{1,4} )", text)):
        if len(section) > 80:
            yield f"{title}\n{section[:6000]}"


def collect_code(most: int) -> Iterator[str]:
    """Yield pieces of the Python standard library, cut at definitions."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    paths = [path for path in folder.rglob("*.py") if "site-packages" not in path.parts]
    paths.sort(key=lambda path: stable_number(path.name))
    for path in paths:
        source = path.read_text("utf-8", "replace")
        for piece in re.split(r"\n(?=(?:class|def|async def) )", source):
            if len(piece) > 60:
                most -= min(len(piece), 3000)
                yield piece[:3000]
        if most < 0:
            return


def collect_tuning(data: Path) -> Iterator[Record]:
    """Yield the documents of every tuning set with the questions of its tune half."""
    for name in SETS:
        folder = data / name
        grades: dict[str, list[str]] = {}
        for line in (folder / "qrels.tsv").read_text().splitlines():
            parts = line.split("\t")
            if len(parts) >= 3 and parts[-1].strip().lstrip("-").isdigit() and int(parts[-1]) > 0:
                grades.setdefault(parts[0], []).append(parts[-2])
        documents = list(read_lines(folder / "corpus.jsonl"))
        questions = {
            str(row["_id"]): row["text"]
            for row in read_lines(folder / "queries.jsonl")
            if stable_number(str(row["_id"])) % 2 == 0 and str(row["_id"]) in grades
        }
        first = sorted(questions, key=stable_number)[:300]
        yield {
            "name": name,
            "documents": [str(row["_id"]) for row in documents],
            "texts": list(collect_documents(data, name)),
            "questions": [questions[one] for one in first],
            "relevant": [grades[one] for one in first],
        }


def collect_all(data: Path) -> list[str]:
    folders = [data / "train" / name for name in ("t1", "t2", "t3")]
    sources: list[Iterable[str]] = [collect_training(folder) for folder in folders]
    sources += [collect_manuals(data), collect_code(CODE)]
    kept: dict[str, None] = {}
    for source in sources:
        before = len(kept)
        for text in source:
            kept.setdefault(text)
        print(len(kept) - before, "texts", flush=True)
    return list(kept)


def pack_text(value: Any) -> bytes:
    """Compress with bzip2: on text as small as LZMA, several times faster."""
    return bz2.compress(json.dumps(value, ensure_ascii=False).encode(), 9)


def split_texts(texts: list[str]) -> Iterator[list[str]]:
    """Split into parts of about PART characters, which travel in any order."""
    part: list[str] = []
    size = 0
    for text in texts:
        part.append(text)
        size += len(text)
        if size > PART:
            yield part
            part, size = [], 0
    yield part


def pack_teachers(models: Path) -> Iterator[tuple[str, bytes]]:
    """Pack gte-small, and bge-small as its difference to gte: they share an ancestor."""
    gte = w.read_onnx(models / "gte-small.onnx")
    bge = w.read_onnx(models / "bge-small.onnx")
    coarse = w.unpack(w.pack(gte, 6, 6))
    difference = {name: bge[name] - coarse[name] for name in bge}
    for name, whole, bits in (("gte", gte, 6), ("bge-less-gte", difference, 3)):
        tables = {key: value for key, value in whole.items() if key in w.TABLES}
        rest = {key: value for key, value in whole.items() if key not in w.TABLES}
        yield f"{name}-tables.z", w.pack(tables, bits)
        yield f"{name}-layers.z", w.pack(rest, bits)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--models", type=Path, help="folder with gte-small.onnx and bge-small.onnx")
    parser.add_argument("--out", type=Path, default=ROOT / "training/data/embed")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    def write(name: str, data: bytes) -> None:
        (options.out / name).write_bytes(data)
        print(f"{name}: {len(data) / 2**20:.2f} MiB", flush=True)

    if options.models:
        for name, data in pack_teachers(options.models):
            write(name, data)
        return
    write("tuning.bz2", pack_text(list(collect_tuning(options.data))))
    for number, texts in enumerate(split_texts(collect_all(options.data))):
        write(f"texts-{number:02}.bz2", pack_text(texts))


if __name__ == "__main__":
    main()
