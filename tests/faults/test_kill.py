"""Eight times kill -9 at a random moment: nothing acknowledged is lost, nothing is half there."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragstone.catalog.documents import SqlCatalog
from ragstone.index.local import EmbeddedIndex
from ragstone.testing.conformance import DIMENSION

from ..cli.run import environment

pytestmark = pytest.mark.slow

KILLS = 8
WRITER = Path(__file__).with_name("writer.py")


def killed_writer(directory: Path, seed: int) -> list[str]:
    """The promises of a writer that is killed a moment after it has made a few of them."""
    writer = subprocess.Popen(
        [sys.executable, str(WRITER), str(directory), str(seed)], stdout=subprocess.PIPE, text=True,
        env=environment(),
    )  # fmt: skip
    assert writer.stdout is not None
    assert writer.stdout.readline() == "started\n"
    chance = random.Random(seed)
    said = [writer.stdout.readline().rstrip() for _ in range(chance.randint(0, 6))]
    time.sleep(chance.uniform(0.0, 0.1))
    writer.kill()
    said += writer.stdout.read().splitlines()
    writer.wait()
    writer.stdout.close()
    return said


@pytest.mark.timeout(1800)
def test_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    promised: dict[str, int] = {}
    deleted: set[str] = set()
    for seed in range(KILLS):
        for line in killed_writer(tmp_path, seed):
            verb, name, *count = line.split()
            if verb == "added":
                promised[name] = int(count[0])
            elif verb == "deleting":
                promised.pop(name)  # it may be there or not until it says that it is done
            else:
                deleted.add(name)
        if seed % 4 == 3:
            check(tmp_path, promised, deleted)
    assert promised, "the writers were killed before they did anything"


def check(directory: Path, promised: dict[str, int], deleted: set[str]) -> None:
    catalog = SqlCatalog.in_directory(directory)
    index = EmbeddedIndex(catalog, directory / "index", dimension=DIMENSION, lock_timeout_s=10)
    stored = {document.name: document.chunk_count for document in catalog.documents("c")}
    assert {name: stored.get(name) for name in promised} == promised
    assert not deleted & set(stored)
    # What was stored but not yet acknowledged may be there, but whole and searchable.
    for name, count in stored.items():
        found = index.search_keyword("c", name, limit=100, k1=1.2, b=0.75)
        texts = [chunk.text for chunk in catalog.chunks(hit.key for hit in found).values()]
        assert sum(text.startswith(f"{name} part") for text in texts) == count
    total = sum(stored.values())
    counts = index.counts("c")
    assert (counts.dense, counts.keyword) == (total, total)
    index.close()
    catalog.close()
