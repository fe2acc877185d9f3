"""Build a large collection with a real distribution: chunks of real documents, their vectors, and
more of both by perturbation.

`real_chunks` splits the Markdown files of `docs-k8s.tar.gz` with Ragstone's own splitter;
`real_vectors` embeds them once (about 25 CPU ms each) and keeps the result in bench/cache.
`write_corpus` grows both to a size: beyond the real ones a vector is a real one with noise of
length 0.4, brought back to length 1, and a text a real one without every eighth word. Questions
are sentences of documents that are not in the collection.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
CACHE = HERE / "cache"
DEFAULT_DATA = HERE.parent.parent / "shared" / "data"
REAL = 74_000
QUESTIONS = 500
NOISE = 0.02  # per dimension; 0.39 in length at 384 dimensions
CHUNKS_PER_DOCUMENT = 20
BUCKETS = 1000


def load_chunks(data: Path) -> list[str]:
    """Return the texts as they are indexed, heading path first, in a fixed order."""
    path = CACHE / "k8s-chunks.jsonl.gz"
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        part = path.with_suffix(".part")
        with gzip.open(part, "wt", encoding="utf-8", compresslevel=1) as file:
            for text in split_archive(data / "docs-k8s.tar.gz"):
                file.write(json.dumps(text, ensure_ascii=False) + "\n")
        part.rename(path)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def split_archive(archive: Path) -> Iterator[str]:
    from ragstone.blocks import LoadOptions
    from ragstone.errors import IngestError
    from ragstone.ingest.formats.text import MarkdownLoader
    from ragstone.ingest.split import ChunkingOptions, SentenceSplitter
    from ragstone.models.embedder import OnnxEmbedder

    splitter = SentenceSplitter(OnnxEmbedder(), ChunkingOptions(200, 32))
    with tarfile.open(archive) as tar:  # in the archive's own order: going back unpacks it again
        pages = {
            member.name: file.read()
            for member in tar
            if member.name.endswith(".md") and (file := tar.extractfile(member))
        }
    names = sorted(pages)
    random.Random(0).shuffle(names)
    count = 0
    for name in names:
        try:
            loaded = MarkdownLoader().load(pages[name], LoadOptions())
            chunks = splitter.split(loaded, document_id="d", document_name=name)
        except IngestError:
            continue
        for chunk in chunks:
            yield chunk.contextual_text
            count += 1
        if count >= REAL + 16_000:
            return


def load_vectors(texts: list[str], count: int = REAL) -> NDArray[np.float16]:
    """Return the first `count` vectors; embed only those if not all are stored."""
    path = CACHE / "k8s-vectors.npy"
    if count < REAL and not path.exists():
        path = CACHE / f"k8s-vectors-{count}.npy"
    if not path.exists():
        from ragstone.models.embedder import OnnxEmbedder

        embedder = OnnxEmbedder()
        parts = []
        for begin in range(0, count, 512):
            part = embedder.embed(texts[begin : min(begin + 512, count)])
            parts.append(part.astype(np.float16))
            print(f"\rembedding {begin + len(part):,} of {count:,}", end="", file=sys.stderr)
        np.save(path, np.concatenate(parts))
    vectors: NDArray[np.float16] = np.load(path)
    return vectors


def write_corpus(size: int, data: Path) -> Path:
    """Write a folder with texts, vectors, questions and exact answers, once per size."""
    folder = CACHE / f"search-{size}"
    if (folder / "truth.npz").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    texts = load_chunks(data)
    vectors = _grow_vectors(load_vectors(texts, min(size, REAL)), size)
    np.save(folder / "vectors.npy", vectors)
    with (folder / "texts.jsonl").open("w", encoding="utf-8") as file:
        for text in _grow_texts(texts[:REAL], size):
            file.write(json.dumps(text, ensure_ascii=False) + "\n")
    questions, asked = _write_questions(texts[REAL:])
    (folder / "questions.json").write_text(json.dumps(questions, ensure_ascii=False), "utf-8")
    np.save(folder / "question-vectors.npy", asked)
    _write_truth(folder, vectors, asked)
    return folder


def compute_bucket(row: int) -> int:
    """Return the value to filter by; all chunks of a document share it."""
    return (row // CHUNKS_PER_DOCUMENT * 7919) % BUCKETS


def _grow_vectors(real: NDArray[np.float16], size: int) -> NDArray[np.float16]:
    random_ = np.random.default_rng(0)
    parts, count = [real[:size]], min(size, len(real))
    while count < size:
        take = random_.permutation(len(real))[: size - count]
        noisy = real[take].astype(np.float32)
        noisy += random_.normal(0, NOISE, noisy.shape).astype(np.float32)
        noisy /= np.linalg.norm(noisy, axis=1, keepdims=True)
        parts.append(noisy.astype(np.float16))
        count += len(take)
    return np.concatenate(parts)


def _grow_texts(real: list[str], size: int) -> Iterator[str]:
    for at in range(size):
        text = real[at % len(real)]
        if at < len(real):
            yield text
        else:
            words, skip = text.split(" "), at // len(real)
            yield " ".join(word for i, word in enumerate(words) if (i + skip) % 8)


def _write_questions(texts: list[str]) -> tuple[list[str], NDArray[np.float32]]:
    from ragstone.models.embedder import OnnxEmbedder
    from ragstone.text import find_sentence_spans

    random.Random(1).shuffle(texts)
    questions: list[str] = []
    for text in texts:
        body = text.split("\n", 1)[-1]
        spans = [(a, b) for a, b in find_sentence_spans(body) if 40 < b - a < 200]
        if spans:
            start, end = spans[len(spans) // 2]
            questions.append(body[start:end])
        if len(questions) == QUESTIONS:
            break
    return questions, OnnxEmbedder().embed(questions)


def _write_truth(folder: Path, vectors: NDArray[np.float16], asked: NDArray[np.float32]) -> None:
    """Write the tenth best similarity of every question: for all chunks, 1 % and 0.1 % of them.

    Recall counts results at least that similar: real collections hold copies of the same text,
    and any of them is right.
    """
    buckets = np.array([compute_bucket(row) for row in range(len(vectors))])
    tenth: dict[str, list[NDArray[np.float32]]] = {"all": [], "one": [], "tenth": []}
    masks = {"all": buckets >= 0, "one": buckets < 10, "tenth": buckets < 1}
    for begin in range(0, len(asked), 50):
        part = asked[begin : begin + 50]
        for name, mask in masks.items():
            chosen = vectors[mask].astype(np.float32)
            scores = part @ chosen.T
            tenth[name].append(np.partition(scores, -10, axis=1)[:, -10])
    np.savez(folder / "truth.npz", **{name: np.concatenate(v) for name, v in tenth.items()})
