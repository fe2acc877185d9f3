"""Tokens in `/metrics`, in the history and in the replies are those that the model counted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ragstone.engine import Engine
from ragstone.filters import ANY_QUERY
from ragstone.models.embedder import OnnxEmbedder
from ragstone.observe.logs import stop_watching
from ragstone.observe.metrics import MetricsWatcher, render_metrics
from ragstone.query.ground.prompt import build_prompt, make_fence
from ragstone.trace import Trace
from ragstone.types import Chunk, Hit, Query, Source

from ..conftest import settings_in
from ..patience import LONG_S
from .stand_in import served

QUESTIONS = 10
_TOKENS = re.compile(r"^ragstone_tokens_total\{(.*)\} (.*)$", re.MULTILINE)


def read_metrics(model: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for labels, value in _TOKENS.findall(render_metrics("")[0].decode()):
        if f'model="{model}"' in labels:
            found[re.search(r'direction="(\w+)"', labels)[1]] = int(float(value))  # type: ignore[index]
    return found


def reply_to(body: dict[str, Any]) -> list[str]:
    """Words that fit each prompt: an answer, or the JSON of an inner step."""
    text = str(body["messages"][-1]["content"])
    if "response_format" not in body:
        if "ince when" in text:  # in another language than its source: the judge is asked
            return ["Das Tor (gate) des observatory ist seit 2020 grün (green), ",
                    "und zwar durchgehend ", "[Source 1]."]  # fmt: skip
        return ["The gate ", "is green ", "[Source 1]. The roof is probably blue."]
    replies = {
        '"scores"': {"scores": [{"passage": 1, "score": 9}]},
        '"verdicts"': {"verdicts": [{"claim": 1, "supported": "no"}]},
        '"passage"': {"passage": "The gate is of a colour."},
        '"intent"': {"intent": "question", "confidence": 0.9},
        '"variants"': {"rewrite": "Which colour?", "variants": ["paint"], "sub_questions": []},
        '"question"': {"question": "Since when is the gate of the observatory green?"},
    }
    return [json.dumps(next(reply for key, reply in replies.items() if key in text))]


@pytest.mark.slow
async def test_the_tokens_of_all_questions_are_counted(
    tmp_path: Path, embedder: OnnxEmbedder, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gate.txt").write_text("The gate of the observatory is green since 2020.")
    async with served() as model:
        model.is_strict = model.counts_tokens = True
        model.say = reply_to
        flags: dict[str, Any] = {
            "provider.name": "openai", "openai.base_url": f"{model.url}/v1",
            "openai.model": "gpt-4.1-counted", "provider.timeout_s": LONG_S,
            "understand.expand": "always", "understand.hyde": True, "memory.max_turns": 2,
            "refine.reranker_enabled": True, "refine.reranker": "llm", "check.self_judging": True,
        }  # fmt: skip
        engine = Engine(settings_in(tmp_path / "data", **flags), embedder=embedder)
        Trace.watchers = (MetricsWatcher(),)
        replied = [0, 0, 0]
        stages: set[str] = set()
        try:
            async with engine:
                await engine.ingest([tmp_path / "gate.txt"])
                for number in range(QUESTIONS):
                    question = f"What colour is the gate of observatory {number}?"
                    if number % 5:  # it refers to the question before
                        question = f"And since when is it that colour, in case {number}?"
                    answer = await engine.ask(question, session_id=f"s{number // 5}")
                    total = answer.total_usage
                    for at, one in enumerate((total.input_tokens, total.output_tokens,
                                              total.cached_tokens)):  # fmt: skip
                        replied[at] += one
                    stages |= {call.stage for call in answer.usage}
                stored = engine.history.analytics(ANY_QUERY)
        finally:
            stop_watching()
    counted = [sum(column) for column in zip(*model.counted, strict=True)]
    metrics = read_metrics("gpt-4.1-counted")
    with capsys.disabled():
        print(f"\n{QUESTIONS} questions, {len(model.counted)} calls of {sorted(stages)}")
        print(f"counted {counted} · /metrics {metrics} · replies {replied}")
    assert counted == replied == [metrics[one] for one in ("input", "output", "cached")]
    assert stored["tokens"] == {"input": counted[0], "output": counted[1]}
    assert stages >= {
        "understand.follow_up", "understand.expand", "refine.rerank", "ground.generate",
        "check.verify", "remember.recall",
    }  # fmt: skip
    assert model.refused == []


def sources() -> tuple[Source, ...]:
    chunks = [
        Chunk(f"d{n}", n, f"Text {n} {make_fence(7)} end.", 0, 30, f"doc{n}.txt") for n in (1, 2)
    ]
    return tuple(Source(n, Hit(c, 0.5, "hybrid"), c.text) for n, c in enumerate(chunks, start=1))


def flatten(query: Query, fence: str) -> str:
    messages = build_prompt(query, sources(), fence=fence).messages
    return "\0".join(f"{one.role}\n{one.content}" for one in messages)


@pytest.mark.parametrize("style", ["source", "chunk"])
def test_two_prompts_over_the_same_sources_share_all_bytes_up_to_the_question(style: Any) -> None:
    fence = make_fence(7)
    texts = ("What colour is it?", "Who painted it?")
    one, other = (
        flatten(Query(f"id{n}", text, citation_style=style), fence) for n, text in enumerate(texts)
    )
    shared = one[: one.index(texts[0])]
    assert other.startswith(shared)
    assert one.removeprefix(shared) == texts[0]
    assert "Text 2" in shared


def test_a_document_cannot_close_its_fence() -> None:
    fence = make_fence(7)
    prompt = flatten(Query("i", "?"), fence)
    # Twice around each source and once in the rules: none comes from the documents.
    assert prompt.count(fence) == 2 * len(sources()) + 1
