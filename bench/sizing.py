"""Estimate what a cluster needs for 1M, 10M and 100M chunks, from what one chunk takes.

    python bench/sizing.py --overhead-ms 3.6

Reads the sample documents into a temporary folder and measures their chunks: bytes in the catalog,
different terms, CPU time of the embedder. The rest is arithmetic, printed with the table.
`--overhead-ms` is what workers take for a chunk beside that (`python -m tests.cluster.bulk`).
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ragstone.engine import Engine
from ragstone.index.analyze import extract_terms
from ragstone.models.embedder import OnnxEmbedder
from ragstone.settings import load_settings

SAMPLES = Path(__file__).parents[1] / "src" / "ragstone" / "samples" / "documents"
SIZES = (1_000_000, 10_000_000, 100_000_000)
# Of Qdrant's graph: 16 links of a point in the upper layers, 32 in the lowest, 4 bytes each.
LINK_BYTES = 4 * 32 * 1.1
# A posting: the number of the point and a weight.
POSTING_BYTES = 8
PAYLOAD_BYTES = 300
REPLICAS = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """Hold the number of chunks and the means of one."""

    count: int
    catalog: float
    """Bytes in the catalog."""
    terms: float
    """Different terms."""
    embedding_ms: float


def measure_chunks(folder: Path) -> Measured:
    engine = Engine(load_settings(flags={"data.directory": folder}, environ={}).settings)
    engine.catalog.collections()
    empty = measure_file(folder)
    asyncio.run(engine.ingest([SAMPLES]))
    engine.close()
    with closing(sqlite3.connect(folder / "catalog.db")) as connection:
        texts = [row[0] for row in connection.execute("SELECT text FROM chunks")]
    terms = sum(len(set(extract_terms(text, "english"))) for text in texts) / len(texts)
    embedder = OnnxEmbedder()
    embedder.embed(texts[:1])
    begun = time.process_time()
    embedder.embed(texts)
    embedding_ms = 1000 * (time.process_time() - begun) / len(texts)
    return Measured(len(texts), (measure_file(folder) - empty) / len(texts), terms, embedding_ms)


def measure_file(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "catalog.db")) as connection:
        names = ("page_count", "page_size")
        pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    return int(pages * size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--overhead-ms", type=float, required=True, help="CPU ms of a worker per chunk"
    )
    parser.add_argument("--dimension", type=int, default=384)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        one = measure_chunks(Path(folder))
    sparse = POSTING_BYTES * one.terms
    vector, code = 2 * given.dimension, given.dimension
    in_memory, quantised = vector + LINK_BYTES + sparse, code + LINK_BYTES + sparse
    on_disk = vector + code + LINK_BYTES + sparse + PAYLOAD_BYTES
    print(
        f"{one.count} chunks: {one.catalog:.0f} bytes in the catalog, {one.terms:.0f} different "
        f"terms, {one.embedding_ms:.1f} CPU ms of the embedder each.\n"
        f"Qdrant, bytes of a copy of one chunk: {vector} for the vector (float16), "
        f"{LINK_BYTES:.0f} for links, {sparse:.0f} for terms, {PAYLOAD_BYTES} for fields; "
        f"{code} for its code (int8).\n"
    )
    print("| chunks | PostgreSQL | Qdrant memory, all nodes | with `qdrant_on_disk` "
          "| Qdrant disk, all nodes | one worker's core |")  # fmt: skip
    print("|---|---|---|---|---|---|")
    for size in SIZES:
        cells = [
            size * one.catalog,
            *(size * REPLICAS * each for each in (in_memory, quantised, on_disk)),
        ]
        days = size * (one.embedding_ms + given.overhead_ms) / 1000 / 86_400
        shown = " | ".join(f"{cell / 1e9:,.0f} GB" for cell in cells)
        print(f"| {size:,} | {shown} | {days:.1f} days |")


if __name__ == "__main__":
    main()
