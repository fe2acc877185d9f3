"""Many questions in one request, and the finished context of one, over real HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from ragstone.engine import Engine
from ragstone.errors import InputError
from ragstone.testing import HashEmbedder

from ..cli.run import call
from ..conftest import settings_in
from .test_query import problem


def test_a_batch_is_answered_in_order_and_one_bad_question_costs_only_itself(
    client: httpx.Client,
) -> None:
    queries = ["Is the gate green?", "?", "When does the dome open?"]
    reply = client.post("/v1/query/batch", json={"queries": queries})
    assert reply.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in reply.text.splitlines()]
    assert [(line["index"], line["query"]) for line in lines] == list(enumerate(queries))
    assert "green" in lines[0]["reply"]["answer"]
    assert lines[1]["error"]["status"] == 422
    assert "reply" not in lines[1]
    alone = client.post("/v1/query", json={"query": queries[2]}).json()
    assert lines[2]["reply"]["answer"] == alone["answer"]
    problem(client.post("/v1/query/batch", json={"queries": []}), 422)
    problem(client.post("/v1/query/batch", json={"queries": ["Is it?"] * 101}), 422)


def test_the_context_is_numbered_and_keeps_to_its_budget(client: httpx.Client) -> None:
    reply = client.post("/v1/context", json={"query": "Is the gate green?"}).json()
    assert reply["context"].startswith("[Source 1]\nDocument: ")
    assert "The gate is green." in reply["context"]
    assert [source["number"] for source in reply["sources"]] == [1, 2]
    assert reply["tokens"] == len(HashEmbedder().token_starts(reply["context"]))
    small = client.post("/v1/context", json={"query": "Is the gate green?", "max_tokens": 24})
    assert small.json()["tokens"] <= 24
    assert len(small.json()["sources"]) == 1
    problem(client.post("/v1/context", json={"query": "Is the gate green?", "max_tokens": 1}), 422)


async def test_the_library_and_the_command_line_do_the_same(tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green.")
    async with Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder()) as engine:
        await engine.ingest([tmp_path / "gate.txt"])
        found = [item async for item in engine.ask_many(["What colour is the gate?"] * 5)]
        assert [item.index for item in found] == list(range(5))
        assert all(item.answer and "green" in item.answer.text for item in found)
        context = await engine.context("Is the gate green?", max_tokens=100)
        assert (len(context.sources), context.degraded) == (1, ())
        with pytest.raises(InputError, match="max_tokens"):
            await engine.context("Is the gate green?", max_tokens=3)
        with pytest.raises(InputError, match="concurrency"):
            await anext(engine.ask_many(["Is it?"], concurrency=0))


def test_the_command_line_answers_a_file(tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("hello\n\nthanks\n")
    call("ingest", tmp_path / "q.txt", "--data", tmp_path / "data", cwd=tmp_path)
    done = call("ask", "--file", "q.txt", "--data", tmp_path / "data", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["query"] for line in lines] == ["hello", "thanks"]
    assert {line["reply"]["status"] for line in lines} == {"conversational"}
    assert call("ask", "--data", tmp_path / "data", cwd=tmp_path).returncode == 2
