"""`ragstone reembed` from filling to dropping, with a real service of embeddings on loopback."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ..providers.stand_in import served
from .run import call

pytestmark = pytest.mark.slow


@pytest.fixture
def own(filled: Path, tmp_path: Path) -> Path:
    """A copy of the folder, to write to."""
    shutil.copytree(filled, tmp_path / "own")
    (tmp_path / "own" / "q.jsonl").write_text('{"question": "What colour is the gate?"}\n')
    return tmp_path / "own"


async def test_every_step_from_filling_to_dropping(own: Path) -> None:
    async def reembed(*words: str) -> subprocess.CompletedProcess[str]:
        # The service answers in this thread.
        return await asyncio.to_thread(call, "reembed", *words, "-d", "data", cwd=own)

    async with served() as service:
        done = await reembed("--provider", "ollama", "--model", "m", "--url", service.url)
        assert done.returncode == 0, done.stderr
        assert "questions still use ragstone-embed-l6-v1" in done.stdout
        states = json.loads((await reembed("--status", "--json")).stdout)
        assert [one["state"] for one in states] == ["searched", "in step"]
        compared = await reembed("--compare", "--questions", "q.jsonl")
        assert "1 questions, ragstone-embed-l6-v1 (searched) against" in compared.stdout
        for step, told in (("--switch", "--back"), ("--back", "--switch")):
            done = await reembed(step)
            assert done.returncode == 0, done.stderr
            assert f"Take it back with {told}" in done.stdout
            again = await reembed(step)
            assert again.returncode != 0
            assert "already" in again.stderr
        assert "deleted the vectors" in (await reembed("--drop")).stdout
        left = json.loads((await reembed("--status", "--json")).stdout)
        assert [one["embedder"] for one in left] == ["ragstone-embed-l6-v1"]


def test_what_cannot_be_done_is_said(filled: Path) -> None:
    done = call("reembed", "--switch", "--drop", "-d", "data", cwd=filled)
    assert "cannot be combined" in done.stderr
    done = call("reembed", "--compare", "-d", "data", cwd=filled)
    assert "has one generation of vectors only" in done.stderr
    done = call("reembed", "-d", "data", cwd=filled)
    assert "is searched with 'ragstone-embed-l6-v1' already" in done.stderr
