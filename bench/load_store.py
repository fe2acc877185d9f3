"""Build the store of the load and cost benchmarks: 50,000 chunks, 4,000 of them real and embedded.

    python bench/load_store.py STORE

Loads and splits the English pages of `docs-k8s.tar.gz` as `ragstone ingest` does, and embeds them
(2 CPU minutes on one core; kept in bench/cache). The store grows to 50,000 chunks with changed
copies of these pages: every sixth word is written with other letters, so that every offset stays,
and the vectors get the noise of `corpus.py`. Two sets of questions are written beside it:
`questions.json`, thousands of sentences of the pages as yes-no questions, and `asked.json`, the
questions about Kubernetes of `bench/packs/answers.jsonl`, which people wrote.
"""

from __future__ import annotations

import codecs
import json
import pickle
import random
import re
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
CACHE = HERE / "cache"
CHUNKS, REAL = 50_000, 4_000
PER_COMMIT = 100
_WORD = re.compile(r"[A-Za-z]{3,}")


def load_pages(data: Path) -> list[tuple[str, str, list[Any]]]:
    """Return name, text and chunks of English pages, in a fixed order, until there are enough."""
    path = CACHE / "load-pages.pickle"
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        path.write_bytes(pickle.dumps(list(split_pages(data / "docs-k8s.tar.gz"))))
    pages: list[tuple[str, str, list[Any]]] = pickle.loads(path.read_bytes())  # our own file
    return pages


def split_pages(archive: Path) -> Iterator[tuple[str, str, list[Any]]]:
    from ragstone.blocks import LoadOptions
    from ragstone.errors import IngestError
    from ragstone.ingest.formats.text import MarkdownLoader
    from ragstone.ingest.split import ChunkingOptions, SentenceSplitter
    from ragstone.models.embedder import OnnxEmbedder

    splitter = SentenceSplitter(OnnxEmbedder(), ChunkingOptions(200, 32))
    with tarfile.open(archive) as tar:
        found = {
            name: file.read()
            for member in tar
            if (name := member.name.partition("en/docs/")[2]).endswith(".md")
            and (file := tar.extractfile(member))
        }
    # The folders that the questions were written for come first.
    first = ("concepts/", "tasks/")
    names = sorted(found, key=lambda name: (not name.startswith(first), name))
    count = 0
    for name in names:
        try:
            loaded = MarkdownLoader().load(found[name], LoadOptions())
            chunks = splitter.split(loaded, document_id="", document_name=name)
        except IngestError:
            continue
        if chunks:
            yield name, loaded.text, chunks
        count += len(chunks)
        if count >= REAL:
            return


def load_vectors(texts: list[str]) -> np.ndarray:
    path = CACHE / "load-vectors.npy"
    if not path.exists():
        from ragstone.models.embedder import OnnxEmbedder

        embedder, parts = OnnxEmbedder(), []
        for begin in range(0, len(texts), 500):
            parts.append(embedder.embed(texts[begin : begin + 500]).astype(np.float16))
            print(f"\rembedded {begin:,} of {len(texts):,}", end="", file=sys.stderr)
        np.save(path, np.concatenate(parts))
    return np.load(path)


def change_words(text: str, copy: int) -> str:
    """Write every sixth word in other letters: the text is as long as before."""
    count = 0

    def change(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return match[0] if (count + copy) % 6 else codecs.encode(match[0], "rot13")

    return _WORD.sub(change, text) if copy else text


def write_questions(pages: list[tuple[str, str, list[Any]]]) -> list[str]:
    """Return sentences of the pages as questions, in a fixed order, each once."""
    from ragstone.text import find_sentence_spans

    found: list[str] = []
    for _, _, chunks in random.Random(1).sample(pages, len(pages)):
        for chunk in chunks:
            for start, end in find_sentence_spans(chunk.text):
                sentence = " ".join(chunk.text[start:end].split()).rstrip(".!?:")
                if 40 < len(sentence) < 160 and not re.search(r"[<>{}|`#]", sentence):
                    found.append(f"Is it true that {sentence[0].lower()}{sentence[1:]}?")
    return list(dict.fromkeys(random.Random(2).sample(found, len(found))))


def fill_store(store: Path, data: Path) -> None:
    from ragstone.engine import Engine
    from ragstone.protocols import NewDocument
    from ragstone.settings import load_settings
    from ragstone.types import Document

    pages = load_pages(data)
    real = load_vectors([chunk.contextual_text for *_, chunks in pages for chunk in chunks])
    noise = np.random.default_rng(0)
    engine = Engine(load_settings(flags={"data.directory": store}, environ={}).settings)
    count, copy, batch = 0, 0, []
    while count < CHUNKS:
        row = 0
        for at, (name, text, chunks) in enumerate(pages):
            key, whole = f"d{copy:02}{at:06}", change_words(text, copy)
            called = name if not copy else f"{name.removesuffix('.md')}-{copy}.md"
            vectors = real[row : row + len(chunks)].astype(np.float32)
            row += len(chunks)
            if copy:
                vectors += noise.normal(0, 0.02, vectors.shape).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            own = tuple(
                replace(one, document_id=key, document_name=called, text=whole[one.start : one.end])
                for one in chunks
            )
            document = Document(
                id=key,
                collection="default",
                source=called,
                name=called,
                media_type="text/markdown",
                sha256=key,
                text=whole,
                created_at=float(count),
            )
            batch.append(NewDocument(document, own, vectors))
            count += len(chunks)
            if len(batch) >= PER_COMMIT or count >= CHUNKS:
                engine.catalog.add(batch, embedder=engine.embedder.name)
                batch = []
            if count >= CHUNKS:
                break
        copy += 1
    engine.index.refresh("default")
    engine.close()
    dump(store / "questions.json", write_questions(pages))
    rows = map(json.loads, (HERE / "packs/answers.jsonl").read_text("utf-8").splitlines())
    dump(store / "asked.json", [row["question"] for row in rows if row["collection"] == "k8s"])


def dump(path: Path, questions: list[str]) -> None:
    path.write_text(json.dumps(questions, ensure_ascii=False), "utf-8")


if __name__ == "__main__":
    fill_store(Path(sys.argv[1]), HERE.parent.parent / "shared" / "data")
