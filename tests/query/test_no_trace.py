"""The trace is only written: without one every answer stays the same."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ragstone.engine import Engine
from ragstone.trace import NoTrace, QueryRun
from ragstone.types import Answer

QUESTIONS = [
    "What interest is charged on rent that arrives late?",
    "How long do the batteries keep the telescope running in a power cut?",
    "What does a glass of wine cost in the café?",
    "Summarize the catering agreement.",
    "Hello!",
]
# Ids, times and the record itself differ from run to run.
RUN_FIELDS = {"query_id", "trace", *QueryRun("").measure()}


def fields_of(answer: Answer) -> dict[str, Any]:
    names = {one.name for one in dataclasses.fields(Answer)} - RUN_FIELDS
    return {name: getattr(answer, name) for name in names}


async def test_every_answer_is_the_same_without_a_trace(
    sample_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_trace = [fields_of(await sample_engine.ask(question)) for question in QUESTIONS]
    monkeypatch.setattr(QueryRun, "new_trace", NoTrace)
    without = [await sample_engine.ask(question) for question in QUESTIONS]
    for answer, before in zip(without, with_trace, strict=True):
        after = fields_of(answer)
        changed = {
            name: (before[name], after[name]) for name in after if after[name] != before[name]
        }
        assert not changed, f"A step reads the trace, or a field is new each time: {changed}"
    assert all(answer.trace["spans"] == [] for answer in without)
    assert all(answer.timings for answer in without)
