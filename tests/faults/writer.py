"""A writer that is killed: stores, deletes and rebuilds, and says what it has acknowledged.

Run as `python writer.py DIRECTORY SEED`; every line on standard output is a promise.
"""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path

from ragstone.catalog.documents import SqlCatalog
from ragstone.index.local import EmbeddedIndex
from ragstone.testing.conformance import DIMENSION, EMBEDDER, make_document


def main(directory: Path, seed: str) -> None:
    catalog = SqlCatalog.in_directory(directory)
    index = EmbeddedIndex(catalog, directory / "index", dimension=DIMENSION, lock_timeout_s=10)
    choice = random.Random(seed)
    living: list[str] = []
    print("started", flush=True)
    for number in itertools.count():
        step = choice.random()
        if step < 0.15 and living:
            name = living.pop(choice.randrange(len(living)))
            print(f"deleting {name}", flush=True)
            catalog.delete(f"c-{name}-1")
            index.refresh("c")
            print(f"deleted {name}", flush=True)
        elif step < 0.25:
            index.rebuild("c")
        else:
            name = f"s{seed}n{number}"
            texts = [f"{name} part {at} of the ridge" for at in range(choice.randint(1, 30))]
            catalog.add([make_document(name, texts, seed=number)], embedder=EMBEDDER)
            index.refresh("c")
            living.append(name)
            print(f"added {name} {len(texts)}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
