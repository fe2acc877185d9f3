"""A run of `reembed` that is killed: fills a second generation, uploads meanwhile, switches, drops.

Run as `python reembed_writer.py DIRECTORY SEED`; every line on standard output is a promise.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path

from ragstone.catalog import generations
from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.protocols import NewDocument, Vectors
from ragstone.settings import load_settings
from ragstone.testing import HashEmbedder
from ragstone.types import Chunk, Document

generations._EMBED_CHUNKS = 3
generations._BATCH_CHUNKS = 3
SHIPPED = {"name": "builtin", "model": ""}


def add_document(engine: Engine, name: str) -> None:
    embedder, index = engine.find_search_parts("default")
    texts = [f"{name} part {at}: the code of the gate is {at}." for at in range(4)]
    document = Document(
        id=name, collection="default", source=name, name=name, media_type="text/plain",
        sha256=name, text=" ".join(texts), chunk_count=len(texts),
    )  # fmt: skip
    chunks = tuple(Chunk(name, at, one, 0, len(one), name) for at, one in enumerate(texts))
    vectors = embedder.embed([chunk.contextual_text for chunk in chunks])
    engine.catalog.add([NewDocument(document, chunks, vectors)], embedder=embedder.name)
    index.refresh("default")
    print(f"added {name}", flush=True)


def main(directory: Path, seed: str) -> None:
    settings = load_settings(flags={"data.directory": directory}, environ={}).settings
    engine = Engine(settings, embedder=HashEmbedder())
    chance = random.Random(seed)
    for number in range(6):
        add_document(engine, f"s{seed}n{number}")
    print("started", flush=True)
    # Whatever the run before left: its drop is finished first.
    if chance.random() < 0.5:
        generations.drop_generation(engine.catalog, "default")
    active = engine.catalog.embedder_of("default")
    target, embed_settings = (OnnxEmbedder().name, SHIPPED) if active == "hash" else ("hash", None)
    if generations.read_generations(engine.catalog, "default").active.place == "moving":
        generations.drop_generation(engine.catalog, "default")
    generation = generations.begin_generation(
        engine.catalog, "default", target, embed_settings, None
    )
    other = engine.for_generation(generation)
    uploads = iter(range(100, 200))

    def embed(texts: Sequence[str]) -> Vectors:
        if chance.random() < 0.1:
            add_document(engine, f"s{seed}n{next(uploads)}")
        return other.embedder.embed(texts)

    run = generations.Reembedder(
        engine.catalog, generation, embed, lambda: other.index.refresh("default")
    )
    run.fill()
    print("filled", flush=True)
    run.switch()
    print(f"switched {target}", flush=True)
    add_document(engine, f"s{seed}after")
    generations.drop_generation(engine.catalog, "default")
    engine.for_collection("default").index.delete_others("default")  # type: ignore[attr-defined]
    print("dropped", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
