"""Estimate what a cluster needs for 1M, 10M and 100M chunks, from what one chunk takes.

    python bench/sizing.py --cpu-ms 30

Reads the sample documents into a temporary folder and measures their chunks: bytes in the catalog,
length, different terms. The rest is arithmetic, printed with the table. `--cpu-ms` is what the
workers take for a chunk (`python -m tests.cluster.bulk`).
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from ragstone.engine import Engine
from ragstone.index.analyze import extract_terms
from ragstone.settings import load_settings

SAMPLES = Path(__file__).parents[1] / "src" / "ragstone" / "samples" / "documents"
SIZES = (1_000_000, 10_000_000, 100_000_000)
# Of Qdrant's graph: 16 links of a point in the upper layers, 32 in the lowest, 4 bytes each.
LINK_BYTES = 4 * 32 * 1.1
# A posting: the number of the point and a weight.
POSTING_BYTES = 8
PAYLOAD_BYTES = 300
REPLICAS = 3


def measure_chunks(folder: Path) -> tuple[int, float, float]:
    """Return the number of chunks, the bytes of one in the catalog, and its different terms."""
    engine = Engine(load_settings(flags={"data.directory": folder}, environ={}).settings)
    engine.catalog.collections()
    empty = measure_file(folder)
    asyncio.run(engine.ingest([SAMPLES]))
    engine.close()
    with closing(sqlite3.connect(folder / "catalog.db")) as connection:
        texts = [row[0] for row in connection.execute("SELECT text FROM chunks")]
    terms = sum(len(set(extract_terms(text, "english"))) for text in texts) / len(texts)
    return len(texts), (measure_file(folder) - empty) / len(texts), terms


def measure_file(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "catalog.db")) as connection:
        names = ("page_count", "page_size")
        pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    return int(pages * size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cpu-ms", type=float, required=True, help="CPU ms of a worker per chunk")
    parser.add_argument("--dimension", type=int, default=384)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        count, catalog, terms = measure_chunks(Path(folder))
    sparse = POSTING_BYTES * terms
    vector, code = 2 * given.dimension, given.dimension
    in_memory, quantised = vector + LINK_BYTES + sparse, code + LINK_BYTES + sparse
    on_disk = vector + code + LINK_BYTES + sparse + PAYLOAD_BYTES
    print(
        f"{count} chunks: {catalog:.0f} bytes in the catalog, {terms:.0f} different terms each.\n"
        f"Qdrant, bytes of a copy of one chunk: {vector} for the vector (float16), "
        f"{LINK_BYTES:.0f} for links, {sparse:.0f} for terms, {PAYLOAD_BYTES} for fields; "
        f"{code} for its code (int8).\n"
    )
    print("| chunks | PostgreSQL | Qdrant memory, all nodes | with `qdrant_on_disk` "
          "| Qdrant disk, all nodes | one worker's core |")  # fmt: skip
    print("|---|---|---|---|---|---|")
    for size in SIZES:
        cells = [
            size * catalog,
            *(size * REPLICAS * one for one in (in_memory, quantised, on_disk)),
        ]
        days = size * given.cpu_ms / 1000 / 86_400
        shown = " | ".join(f"{one / 1e9:,.0f} GB" for one in cells)
        print(f"| {size:,} | {shown} | {days:.1f} days |")


if __name__ == "__main__":
    main()
