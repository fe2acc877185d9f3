"""A trace holds every stage in order, with time, figures, notes and failures."""

from __future__ import annotations

import json
import time

import pytest

from ragstone.trace import QueryRun


def test_spans_stand_in_the_order_in_which_they_began() -> None:
    run = QueryRun("r1")
    with run.span("outer") as outer:
        with run.span("inner"):
            time.sleep(0.002)
        outer.count(chunks=3)
    assert [span.stage for span in run.trace.spans] == ["outer", "inner"]
    assert run.trace.spans[0].duration_ms >= run.trace.spans[1].duration_ms >= 2
    assert run.trace.spans[0].counts == {"chunks": 3}


def test_a_failure_is_written_down_and_passes_on() -> None:
    run = QueryRun("r1")
    with pytest.raises(ValueError, match="no good"), run.span("stage"):
        raise ValueError("no good")
    assert run.trace.spans[0].error == "ValueError: no good"
    assert run.trace.spans[0].duration_ms > 0


def test_a_degradation_is_named_once() -> None:
    run = QueryRun("r1")
    run.degrade("no reranker")
    run.degrade("no reranker")
    assert run.as_dict()["degraded"] == ["no reranker"]


def test_time_is_summed_over_the_named_stages() -> None:
    run = QueryRun("r1")
    for stage in ("a", "b", "a"):
        with run.span(stage):
            pass
    both = run.trace.spans[0].duration_ms + run.trace.spans[2].duration_ms
    assert run.timings["a"] == pytest.approx(both)
    assert run.elapsed_ms() >= both


def test_a_trace_is_plain_json_with_its_notes() -> None:
    run = QueryRun("r1")
    with run.span("stage") as span:
        span.note("something happened")
    record = json.loads(json.dumps(run.as_dict()))
    assert record["request_id"] == "r1"
    assert record["spans"][0]["notes"] == run.notes == ["something happened"]
