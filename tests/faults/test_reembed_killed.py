"""Kill -9 in the middle of `reembed`: a whole generation is searched, and the next run goes on."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.testing import HashEmbedder

from ..catalog.test_reembed import check_vectors
from ..cli.run import environment
from ..conftest import settings_in

pytestmark = pytest.mark.slow

KILLS = 6
WRITER = Path(__file__).with_name("reembed_writer.py")


def run_and_kill(directory: Path, seed: int) -> list[str]:
    """Return the promises of a run that is killed at a random moment after its start."""
    writer = subprocess.Popen(
        [sys.executable, str(WRITER), str(directory), str(seed)], stdout=subprocess.PIPE, text=True,
        env=environment(),
    )  # fmt: skip
    assert writer.stdout is not None
    said = []
    while (line := writer.stdout.readline().rstrip()) != "started":
        assert line, "the run ended before it had started"
        said.append(line)
    chance = random.Random(seed)
    said += [writer.stdout.readline().rstrip() for _ in range(chance.randint(0, 5))]
    time.sleep(chance.uniform(0.0, 0.3))
    writer.kill()
    said += writer.stdout.read().splitlines()
    writer.wait()
    writer.stdout.close()
    return [line for line in said if line]


@pytest.mark.timeout(1800)
async def test_a_killed_run_leaves_a_whole_generation(tmp_path: Path) -> None:
    promised: set[str] = set()
    steps: Counter[str] = Counter()
    for seed in range(KILLS):
        for line in run_and_kill(tmp_path / "data", seed):
            verb, _, name = line.partition(" ")
            steps[verb] += 1
            if verb == "added":
                promised.add(name)
        engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
        assert promised <= {one.name for one in engine.documents()}
        check_vectors(engine)
        wanted = sorted(promised)[seed % len(promised)]
        hits = await engine.search(f"{wanted} part 2: the code of the gate", top_k=5)
        assert wanted in {hit.chunk.document_name for hit in hits}
        engine.close()
    assert steps["switched"], f"no run came as far as the switch: {steps}"
