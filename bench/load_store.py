"""Build the store of the load benchmark: 50,000 chunks of real documents, embedded once.

    python bench/load_store.py STORE

Splits `docs-k8s.tar.gz` and embeds the chunks (20 CPU minutes on one core; kept in bench/cache),
then fills a data directory. Questions are sentences of chunks that are not in it.
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
CACHE = HERE / "cache"
CHUNKS, SPARE, PER_DOCUMENT = 50_000, 2_000, 20


def load_texts(data: Path) -> list[str]:
    path = CACHE / "load-chunks.jsonl.gz"
    if not path.exists():
        from corpus import split_archive

        CACHE.mkdir(exist_ok=True)
        wanted = itertools.islice(split_archive(data / "docs-k8s.tar.gz"), CHUNKS + SPARE)
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(text, ensure_ascii=False) + "\n" for text in wanted)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def load_vectors(given: list[str]) -> np.ndarray:
    path = CACHE / "load-vectors.npy"
    if not path.exists():
        from ragstone.models.embedder import OnnxEmbedder

        embedder = OnnxEmbedder()
        parts = [
            embedder.embed(given[begin : begin + 500]).astype(np.float16)
            for begin in range(0, CHUNKS, 500)
        ]
        np.save(path, np.concatenate(parts))
    return np.load(path)


def load_questions(given: list[str]) -> list[str]:
    """Return sentences of the whole collection, in a fixed order, each once."""
    from ragstone.text import find_sentence_spans

    found: list[str] = []
    for text in random.Random(1).sample(given, len(given)):
        body = text.split("\n", 1)[-1]
        spans = [(a, b) for a, b in find_sentence_spans(body) if 40 < b - a < 160]
        if spans:
            start, end = spans[len(spans) // 2]
            found.append(f"Is it true that {body[start:end].strip()}?")
        if len(found) == 20_000:
            break
    return list(dict.fromkeys(found))


def fill_store(store: Path, data: Path) -> None:
    from ragstone.engine import Engine
    from ragstone.protocols import NewDocument
    from ragstone.settings import load_settings
    from ragstone.types import Chunk, Document

    given = load_texts(data)
    embedded = load_vectors(given)
    loaded = load_settings(flags={"data.directory": store}, environ={})
    engine = Engine(loaded.settings)
    for begin in range(0, CHUNKS, 250 * PER_DOCUMENT):
        batch = []
        for first in range(begin, begin + 250 * PER_DOCUMENT, PER_DOCUMENT):
            name, whole, chunks = f"d{first:08}", "", []
            for index, text in enumerate(given[first : first + PER_DOCUMENT]):
                chunks.append(
                    Chunk(name, index, text, len(whole), len(whole) + len(text), f"{name}.md")
                )
                whole += text + "\n"
            document = Document(
                id=name,
                collection="default",
                source=name,
                name=f"{name}.md",
                media_type="text/markdown",
                sha256=name,
                text=whole,
                created_at=float(first),
            )
            rows = embedded[first : first + PER_DOCUMENT].astype(np.float32)
            batch.append(NewDocument(document, tuple(chunks), rows))
        engine.catalog.add(batch, embedder=engine.embedder.name)
    engine.index.refresh("default")
    engine.close()
    (store / "questions.json").write_text(
        json.dumps(load_questions(given), ensure_ascii=False), "utf-8"
    )


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    fill_store(Path(sys.argv[1]), HERE.parent.parent / "shared" / "data")
