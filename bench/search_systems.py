"""Build, open and query one system on one corpus; print one line of JSON.

Run by bench/search.py in a process of its own, with Ragstone's Python or the peers'.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

CHUNKS_PER_DOCUMENT = 20


class Corpus:
    """The corpus that bench/corpus.py wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        self.questions: list[str] = json.loads((folder / "questions.json").read_text("utf-8"))
        self.asked = np.load(folder / "question-vectors.npy")
        self.truth = np.load(folder / "truth.npz")

    def texts(self) -> Iterator[str]:
        with (self.folder / "texts.jsonl").open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)

    def recall(self, name: str, found: list[list[int]]) -> float:
        """Return the share of ten results that are as similar as the exact tenth."""
        shares = []
        for rows, vector, tenth in zip(found, self.asked, self.truth[name], strict=False):
            scores = self.vectors[sorted(rows[:10])].astype(np.float32) @ vector
            shares.append(float((scores >= tenth - 5e-4).sum()) / 10)
        return round(float(np.mean(shares)), 4)


def measure_cpu_ms(run: Callable[[int], Any], count: int) -> tuple[list[Any], float, float]:
    """Return results, and median and p95 of CPU milliseconds over `count` questions."""
    for at in range(count):  # once before, so that files are mapped and caches warm
        run(at)
    results, times = [], []
    for at in range(count):
        begun = time.process_time()
        results.append(run(at))
        times.append((time.process_time() - begun) * 1000)
    median, high = np.percentile(times, [50, 95])
    return results, round(float(median), 3), round(float(high), 3)


def read_rss_mb() -> int:
    with Path("/proc/self/status").open() as file:
        line = next(line for line in file if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024


def measure_disk_mb(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) // 1_000_000


def _ragstone_parts(home: Path) -> tuple[Any, Any]:
    from ragstone.catalog.documents import SqlCatalog
    from ragstone.index.local import EmbeddedIndex

    catalog = SqlCatalog.in_directory(home)
    return catalog, EmbeddedIndex(catalog, home / "index", dimension=384, lock_timeout_s=10)


def build_ragstone(folder: Path, home: Path) -> None:
    """Fill a catalog and its index, in a separate process that frees its memory."""
    from corpus import compute_bucket
    from ragstone.protocols import NewDocument
    from ragstone.types import Chunk, Document

    corpus = Corpus(folder)
    catalog, index = _ragstone_parts(home)

    def document(first: int, texts: list[str]) -> NewDocument:
        name = f"d{first:08}"
        chunks = tuple(Chunk(name, i, text, 0, len(text), name) for i, text in enumerate(texts))
        noun = Document(
            id=name,
            collection="bench",
            source=name,
            name=name,
            media_type="text/plain",
            sha256=name,
            metadata={"bucket": compute_bucket(first)},
            created_at=float(first),
        )
        return NewDocument(noun, chunks, corpus.vectors[first : first + len(texts)])

    begun = time.process_time()
    for first, texts in group_texts(corpus.texts(), 250 * CHUNKS_PER_DOCUMENT):
        catalog.add(
            [document(first + at, part) for at, part in group_texts(texts, CHUNKS_PER_DOCUMENT)],
            embedder="bench",
        )
    stored = time.process_time() - begun
    begun = time.process_time()
    index.refresh("bench")
    built = time.process_time() - begun
    index.close()
    catalog.close()
    figures = {"stored_s": round(stored, 1), "build_s": round(built, 1)}
    (home / "built.json").write_text(json.dumps(figures))


def group_texts(texts: Iterable[str], size: int) -> Iterator[tuple[int, list[str]]]:
    """Yield groups of texts with the number of their first."""
    group: list[str] = []
    for row, text in enumerate(texts):
        group.append(text)
        if len(group) == size:
            yield row + 1 - size, group
            group = []
    if group:
        yield row + 1 - len(group), group


def ragstone(corpus: Corpus, home: Path) -> dict[str, Any]:
    import multiprocessing

    from ragstone.filters import Condition
    from ragstone.models.embedder import OnnxEmbedder
    from ragstone.query.retrieve.fuse import convex_fusion, normalise_scores
    from ragstone.types import Query

    builder = multiprocessing.get_context("spawn").Process(
        target=build_ragstone, args=(corpus.folder, home)
    )
    builder.start()
    builder.join()
    figures = json.loads((home / "built.json").read_text())

    embedder = OnnxEmbedder()
    embedder.embed(["loaded, so that its memory counts"])
    begun = time.perf_counter()
    catalog, index = _ragstone_parts(home)
    index.search_dense("bench", corpus.asked[0], limit=10)
    index.search_keyword("bench", "kubernetes", limit=10, k1=1.2, b=0.75)
    open_s = time.perf_counter() - begun

    def dense(at: int, within: Any = None) -> list[int]:
        return [
            f.key - 1 for f in index.search_dense("bench", corpus.asked[at], limit=50, scope=within)
        ]

    def keyword(at: int) -> list[int]:
        found = index.search_keyword("bench", corpus.questions[at], limit=50, k1=1.2, b=0.75)
        return [f.key - 1 for f in found]

    def hybrid(at: int) -> list[int]:
        near = index.search_dense("bench", corpus.asked[at], limit=50)
        match = index.search_keyword("bench", corpus.questions[at], limit=50, k1=1.2, b=0.75)
        cosine = {f.key: f.score for f in near}
        keys = [f.key for f in match if f.key not in cosine]
        missing = index.vectors("bench", keys) @ corpus.asked[at]
        cosine.update(zip(keys, missing.tolist(), strict=True))
        fused = convex_fusion(
            [
                normalise_scores(cosine, "theoretical", bounded=True),
                normalise_scores({f.key: f.score for f in match}, "theoretical"),
            ],
            weights=[0.5, 0.5],
        )
        return sorted(fused, key=lambda key: (-fused[key], key))[:50]

    count = len(corpus.questions)
    found, dense_ms, _ = measure_cpu_ms(dense, count)
    _, keyword_ms, _ = measure_cpu_ms(keyword, count)
    _, hybrid_ms, hybrid_p95 = measure_cpu_ms(hybrid, count)
    result = {
        "dense_ms": dense_ms,
        "recall": corpus.recall("all", found),
        "keyword_ms": keyword_ms,
        "hybrid_ms": hybrid_ms,
        "hybrid_p95_ms": hybrid_p95,
        "open_s": round(open_s, 3),
        **figures,
    }
    for name, truth, limit in (("filter_1", "one", 10), ("filter_01", "tenth", 1)):
        query = Query("q", "q", "bench", filter=Condition("bucket", "lt", limit))
        begun = time.process_time()
        within = catalog.resolve_scope(query)
        result[f"{name}_resolve_ms"] = round((time.process_time() - begun) * 1000, 1)
        found, median, _ = measure_cpu_ms(lambda at, within=within: dense(at, within), 100)
        result[f"{name}_ms"] = median
        result[f"{name}_recall"] = corpus.recall(truth, found)
        _, median, _ = measure_cpu_ms(
            lambda at, within=within: index.search_keyword(
                "bench", corpus.questions[at], limit=50, k1=1.2, b=0.75, scope=within
            ),
            100,
        )
        result[f"{name}_keyword_ms"] = median
    result |= {"rss_mb": read_rss_mb(), "disk_mb": measure_disk_mb(home / "index")}
    return result


def numpy_exact(corpus: Corpus, home: Path) -> dict[str, Any]:
    matrix = np.asarray(corpus.vectors, dtype=np.float32)

    def dense(at: int) -> list[int]:
        scores = matrix @ corpus.asked[at]
        best = np.argpartition(scores, -50)[-50:]
        return best[np.argsort(-scores[best])].tolist()

    found, median, _ = measure_cpu_ms(dense, 50)
    return {"dense_ms": median, "recall": corpus.recall("all", found), "rss_mb": read_rss_mb()}


def ivf_sq8(corpus: Corpus, home: Path) -> dict[str, Any]:
    import faiss

    size = len(corpus.vectors)
    lists = int(2 * np.sqrt(size))
    index = faiss.index_factory(384, f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.max_points_per_centroid = 5, 40
    matrix = np.asarray(corpus.vectors, dtype=np.float32)
    begun = time.process_time()
    index.train(matrix[np.random.default_rng(0).permutation(size)[: lists * 40]])
    index.add(matrix)
    built = time.process_time() - begun
    index.nprobe = 96
    stored = corpus.vectors

    def dense(at: int) -> list[int]:
        rows = np.sort(index.search(corpus.asked[at : at + 1], 100)[1][0])
        scores = stored[rows].astype(np.float32) @ corpus.asked[at]
        return rows[np.argsort(-scores)].tolist()

    found, median, _ = measure_cpu_ms(dense, len(corpus.questions))
    return {"dense_ms": median, "recall": corpus.recall("all", found), "build_s": round(built, 1)}


def tantivy_alone(corpus: Corpus, home: Path) -> dict[str, Any]:
    import tantivy

    from ragstone.index.analyze import extract_query_terms, extract_terms

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("terms", tokenizer_name="whitespace", index_option="freq")
    builder.add_unsigned_field("key", fast=True)
    schema = builder.build()
    index = tantivy.Index(schema, path=str(home))
    writer = index.writer(heap_size=64_000_000, num_threads=1)
    begun = time.process_time()
    for row, text in enumerate(corpus.texts()):
        document = tantivy.Document()
        document.add_text("terms", " ".join(extract_terms(text)))
        document.add_unsigned("key", row)
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()
    built = time.process_time() - begun
    index.reload()
    searcher = index.searcher()
    asked = [extract_query_terms(question) for question in corpus.questions]

    def keyword(at: int) -> list[Any]:
        query = tantivy.Query.boolean_query(
            [
                (tantivy.Occur.Should, tantivy.Query.term_query(schema, "terms", term))
                for term in asked[at]
            ]
        )
        hits = searcher.search(query, limit=50, count=False).hits
        return searcher.fast_field_values("key", [address for _, address in hits])

    _, median, _ = measure_cpu_ms(keyword, len(asked))
    return {"keyword_ms": median, "build_s": round(built, 1), "disk_mb": measure_disk_mb(home)}


def bm25s_(corpus: Corpus, home: Path) -> dict[str, Any]:
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    begun = time.process_time()
    tokens = bm25s.tokenize(list(corpus.texts()), stemmer=stemmer, show_progress=False)
    retriever = bm25s.BM25(k1=1.2, b=0.75, backend="numba")
    retriever.index(tokens, show_progress=False)
    built = time.process_time() - begun

    def keyword(at: int) -> Any:
        asked = bm25s.tokenize([corpus.questions[at]], stemmer=stemmer, show_progress=False)
        return retriever.retrieve(asked, k=50, show_progress=False, n_threads=1)

    _, median, _ = measure_cpu_ms(keyword, len(corpus.questions))
    return {"keyword_ms": median, "build_s": round(built, 1), "rss_mb": read_rss_mb()}


def lancedb_(corpus: Corpus, home: Path) -> dict[str, Any]:
    import lancedb
    import pyarrow as pa
    from lancedb.rerankers import RRFReranker

    database = lancedb.connect(str(home))
    vectors = np.asarray(corpus.vectors, dtype=np.float32)
    columns = pa.table(
        {
            "row": pa.array(range(len(vectors))),
            "text": pa.array(corpus.texts()),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 384),
        }
    )
    begun = time.process_time()
    table = database.create_table("t", columns)
    if len(vectors) > 20_000:
        table.create_index(metric="cosine", vector_column_name="vector")
    table.create_fts_index("text", replace=True)
    built = time.process_time() - begun

    def keyword(at: int) -> Any:
        return table.search(corpus.questions[at], query_type="fts").limit(50).to_list()

    _, keyword_ms, _ = measure_cpu_ms(keyword, 100)
    figures = {
        "keyword_ms": keyword_ms,
        "build_s": round(built, 1),
        "rss_mb": read_rss_mb(),
        "disk_mb": measure_disk_mb(home),
    }
    # As it comes, and set so that it finds what is there.
    for prefix, options in (("", {}), ("tuned_", {"nprobes": 64, "refine_factor": 10})):

        def with_options(query: Any, options: dict[str, int] = options) -> Any:
            for name, value in options.items():
                query = getattr(query, name)(value)
            return query

        def dense(at: int) -> list[int]:
            query = with_options(table.search(corpus.asked[at]).metric("cosine"))
            return [row["row"] for row in query.limit(50).select(["row"]).to_list()]

        def hybrid(at: int) -> Any:
            query = table.search(query_type="hybrid").vector(corpus.asked[at])
            query = with_options(query.text(corpus.questions[at]))
            return query.limit(50).rerank(RRFReranker()).to_list()

        found, dense_ms, _ = measure_cpu_ms(dense, 100)
        _, hybrid_ms, high = measure_cpu_ms(hybrid, 100)
        figures |= {
            f"{prefix}dense_ms": dense_ms,
            f"{prefix}recall": corpus.recall("all", found),
            f"{prefix}hybrid_ms": hybrid_ms,
            f"{prefix}hybrid_p95_ms": high,
        }
    return figures


def chroma(corpus: Corpus, home: Path) -> dict[str, Any]:
    import chromadb

    client = chromadb.PersistentClient(str(home))
    collection = client.create_collection("bench", configuration={"hnsw": {"space": "cosine"}})
    texts = list(corpus.texts())
    begun = time.process_time()
    for first in range(0, len(texts), 5000):
        part = slice(first, first + 5000)
        collection.add(
            ids=[str(row) for row in range(first, first + len(texts[part]))],
            embeddings=np.asarray(corpus.vectors[part], dtype=np.float32),
            documents=texts[part],
        )
    built = time.process_time() - begun

    def dense(at: int) -> list[int]:
        reply = collection.query(query_embeddings=[corpus.asked[at]], n_results=50, include=[])
        return [int(row) for row in reply["ids"][0]]

    found, median, _ = measure_cpu_ms(dense, 100)
    # It has no keyword search of its own, and so nothing to compare a hybrid search with.
    return {
        "dense_ms": median,
        "recall": corpus.recall("all", found),
        "build_s": round(built, 1),
        "rss_mb": read_rss_mb(),
        "disk_mb": measure_disk_mb(home),
    }


def txtai_(corpus: Corpus, home: Path) -> dict[str, Any]:
    from txtai import Embeddings

    known = dict(zip(corpus.questions, corpus.asked, strict=True))
    at_row = iter(range(len(corpus.vectors)))

    def transform(texts: list[str]) -> Any:
        return np.array(
            [
                known[text]
                if text in known
                else np.asarray(corpus.vectors[next(at_row)], np.float32)
                for text in texts
            ]
        )

    def embeddings(**more: Any) -> Any:
        return Embeddings({"method": "external", "transform": transform, "content": False, **more})

    begun = time.process_time()
    both = embeddings(keyword=False, hybrid=True)
    both.index((row, text, None) for row, text in enumerate(corpus.texts()))
    built = time.process_time() - begun

    def hybrid(at: int) -> list[int]:
        return [row for row, _ in both.search(corpus.questions[at], 50)]

    def dense(at: int) -> list[int]:
        return [row for row, _ in both.search(corpus.questions[at], 50, weights=1.0)]

    found, dense_ms, _ = measure_cpu_ms(dense, 100)
    _, hybrid_ms, high = measure_cpu_ms(hybrid, 100)
    return {
        "dense_ms": dense_ms,
        "recall": corpus.recall("all", found),
        "hybrid_ms": hybrid_ms,
        "hybrid_p95_ms": high,
        "build_s": round(built, 1),
        "rss_mb": read_rss_mb(),
    }


SYSTEMS: dict[str, Callable[[Corpus, Path], dict[str, Any]]] = {
    "ragstone": ragstone,
    "numpy exact": numpy_exact,
    "IVF-SQ8": ivf_sq8,
    "tantivy alone": tantivy_alone,
    "bm25s": bm25s_,
    "lancedb": lancedb_,
    "chroma": chroma,
    "txtai": txtai_,
}


def main() -> None:
    system, folder = sys.argv[1], Path(sys.argv[2])
    home = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        result = SYSTEMS[system](Corpus(folder), home)
        result["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps(result))
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
