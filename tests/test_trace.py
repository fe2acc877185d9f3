"""A trace holds every stage in order, with time, figures, notes and failures."""

from __future__ import annotations

import json
import time

import pytest

from ragstone.trace import Trace


def test_spans_stand_in_the_order_in_which_they_began() -> None:
    trace = Trace("r1")
    with trace.span("outer") as outer:
        with trace.span("inner"):
            time.sleep(0.002)
        outer.count(chunks=3)
    assert [span.stage for span in trace.spans] == ["outer", "inner"]
    assert trace.spans[0].duration_ms >= trace.spans[1].duration_ms >= 2
    assert trace.spans[0].counts == {"chunks": 3}


def test_a_failure_is_written_down_and_passes_on() -> None:
    trace = Trace("r1")
    with pytest.raises(ValueError, match="no good"), trace.span("stage"):
        raise ValueError("no good")
    assert trace.spans[0].error == "ValueError: no good"
    assert trace.spans[0].duration_ms > 0


def test_a_degradation_is_named_once() -> None:
    trace = Trace("r1")
    trace.degrade("no reranker")
    trace.degrade("no reranker")
    assert trace.as_dict()["degraded"] == ["no reranker"]


def test_time_is_summed_over_the_named_stages() -> None:
    trace = Trace("r1")
    for stage in ("a", "b", "a"):
        with trace.span(stage):
            pass
    both = trace.spans[0].duration_ms + trace.spans[2].duration_ms
    assert trace.duration_ms("a") == pytest.approx(both)
    assert trace.elapsed_ms() >= both


def test_a_trace_is_plain_json_with_its_notes() -> None:
    trace = Trace("r1")
    with trace.span("stage") as span:
        span.note("something happened")
    record = json.loads(json.dumps(trace.as_dict()))
    assert record["request_id"] == "r1"
    assert record["spans"][0]["notes"] == trace.notes() == ["something happened"]
