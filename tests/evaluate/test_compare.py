"""Two systems on the same questions: equal ones do not differ, broken ones are stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from ragstone.errors import SettingsError
from ragstone.evaluate.compare import (
    Comparison,
    Difference,
    check_comparison,
    check_conditions,
    compare_runs,
    describe_steps,
    parse_condition,
    read_side,
    render_junit,
)
from ragstone.evaluate.datasets import Dataset, Question, load_dataset
from ragstone.evaluate.run import Options, Outcome, Run, run_questions
from ragstone.evaluate.summary import summarise_run
from ragstone.evaluate.workbench import Workbench
from ragstone.settings.change import change_settings
from ragstone.testing import HashEmbedder

from .build import inside, painted_things

# Only vectors are asked, and those of the hash embedder say little in eight dimensions.
BROKEN: dict[str, Any] = {"retrieve.method": "semantic"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    folder = tmp_path_factory.mktemp("compare")
    dataset: Dataset = load_dataset(painted_things(folder / "things"))
    bench = Workbench(dataset, inside(folder), embedder=HashEmbedder(dimension=8))
    bench.prepare()
    good = asyncio.run(run_questions(bench, bench.settings, Options(), name="good"))
    other = change_settings(bench.settings, BROKEN)
    return good, asyncio.run(run_questions(bench, other, Options(), name="broken"))


@pytest.fixture
def found(runs: tuple[Run, Run]) -> Comparison:
    return compare_runs(*runs)


def test_equal_sides_show_no_difference(runs: tuple[Run, Run]) -> None:
    same = compare_runs(runs[0], runs[0])
    assert same.sentence == "No difference: ndcg@10 is equal on all 80 questions."
    assert all(one.verdict == "no difference" for one in same.differences)
    assert not same.changed
    assert not check_comparison([parse_condition("ndcg@10 worse")], same)


def test_a_broken_system_is_worse_and_the_gate_says_so(found: Comparison) -> None:
    main = found.difference("ndcg@10")
    assert main is not None
    assert main.verdict == "worse"
    assert main.interval[1] < 0
    assert "broken is worse than good" in found.sentence
    for written in ("ndcg@10 worse", "ndcg@10 worse by 0.01", "ndcg@10 < 0.99"):
        (sentence,) = check_comparison([parse_condition(written)], found)
        assert sentence.startswith(f"{written}: ndcg@10")
    assert not check_comparison([parse_condition("ndcg@10 worse by 0.99")], found)


def test_what_was_not_measured_fails_the_gate(found: Comparison) -> None:
    (sentence,) = check_comparison([parse_condition("f1 worse")], found)
    assert sentence == "f1 worse: f1 was not measured."


def test_changed_questions_show_the_steps_of_their_targets(found: Comparison) -> None:
    first = found.changed[0]
    assert first.after < first.before
    ((_, before, after),) = first.steps
    assert before.startswith("semantic ")
    assert before != after
    assert describe_steps([]) == "not found by any stage"


def test_junit_counts_the_failures(found: Comparison) -> None:
    conditions = ["ndcg@10 worse", "ndcg@10 worse by 0.99"]
    failed = check_comparison([parse_condition(one) for one in conditions], found)
    suite = ET.fromstring(render_junit(found, conditions, failed))
    assert suite.get("failures") == "1"
    assert suite.get("tests") == str(len(suite.findall("testcase")))
    (broken,) = [case for case in suite if case.find("failure") is not None]
    assert broken.get("name") == "ndcg@10 worse"


def test_conditions_on_one_run(runs: tuple[Run, Run]) -> None:
    summary = summarise_run(runs[0])
    assert not check_conditions([parse_condition("ndcg@10 < 0.5")], summary)
    assert check_conditions([parse_condition("ndcg@10 > 0.5")], summary)
    with pytest.raises(SettingsError, match="compares two systems"):
        parse_condition("ndcg@10 worse", systems=1)
    with pytest.raises(SettingsError, match="figure of a whole run"):
        parse_condition("ece > 0.1")
    assert parse_condition("ece > 0.1", systems=1).number == 0.1


@pytest.mark.parametrize("written", ["", "ndcg@10", "ndcg < 1", "ndcg@10 < x", "ndcg@10 < 1.2.3"])
def test_a_condition_that_makes_no_sense_is_refused(written: str) -> None:
    with pytest.raises(SettingsError):
        parse_condition(written)


def test_a_side_is_a_preset_a_file_or_a_directory(tmp_path: Path) -> None:
    assert read_side("minimal", flags={}).settings.preset == "minimal"
    side = read_side("classic,RAG_TOP_K=3", flags={})
    assert (side.settings.refine.top_k, side.settings.preset) == (3, "classic")
    file = tmp_path / "mine.toml"
    file.write_text("[retrieve]\ncandidates = 7\n")
    assert read_side(str(file), flags={}).settings.retrieve.candidates == 7
    assert read_side(str(tmp_path), flags={}).settings.data.directory == tmp_path
    for wrong in ("nothing", "balanced,oops", str(tmp_path / "no.toml")):
        with pytest.raises(SettingsError):
            read_side(wrong, flags={})


def test_a_preset_is_that_preset_whatever_file_lies_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ragstone.toml").write_text(
        f"[retrieve]\ncandidates = 7\n[data]\ndirectory = '{tmp_path / 'here'}'\n"
    )
    preset, file = (read_side(one, flags={}).settings for one in ("balanced", "ragstone.toml"))
    assert (preset.retrieve.candidates, file.retrieve.candidates) == (100, 7)
    assert preset.data.directory == file.data.directory == tmp_path / "here"


@pytest.mark.parametrize(
    ("losses", "verdict"), [(1, "no difference"), (5, "no difference"), (6, "worse")]
)
def test_a_handful_of_questions_is_no_verdict(losses: int, verdict: str) -> None:
    found = Difference("ndcg@10", 1.0, 0.5, -0.5, (-0.5, -0.5), 0, losses, 0)
    assert found.verdict == verdict


def test_a_question_that_fails_counts_as_answered_wrongly(tmp_path: Path) -> None:
    question = Question("q", "Who built it?", answers=("Mason",), answerable=True)
    told = Outcome("q", answer="Mason", status="answered")
    sides = [
        Run(
            name,
            Dataset("set", (question,)),
            inside(tmp_path),
            (one,),
            tmp_path,
            Options(answers=True),
        )
        for name, one in (("good", told), ("broken", Outcome("q", error="The model is gone.")))
    ]
    found = compare_runs(*sides)
    for measure in ("containment", "f1", "exact_match", "decided_right"):
        main = found.difference(measure)
        assert main is not None, measure
        assert (main.before, main.after) == (1.0, 0.0)
    assert check_comparison([parse_condition("containment worse by 0.02")], found)
