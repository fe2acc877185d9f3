"""Two systems on the same questions: equal ones do not differ, broken ones are stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from ragstone.errors import SettingsError
from ragstone.evaluate.compare import Comparison, compared, read_side, way_in_words
from ragstone.evaluate.datasets import Dataset, load_dataset
from ragstone.evaluate.gate import check_comparison, check_conditions, parse_condition
from ragstone.evaluate.junit import junit_xml
from ragstone.evaluate.run import Options, Run, run_questions
from ragstone.evaluate.summary import summarised
from ragstone.evaluate.workbench import Workbench, changed
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
    other = changed(bench.settings, BROKEN)
    return good, asyncio.run(run_questions(bench, other, Options(), name="broken"))


@pytest.fixture
def found(runs: tuple[Run, Run]) -> Comparison:
    return compared(*runs)


def test_equal_sides_show_no_difference(runs: tuple[Run, Run]) -> None:
    same = compared(runs[0], runs[0])
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


def test_changed_questions_show_the_way_of_their_targets(found: Comparison) -> None:
    first = found.changed[0]
    assert first.after < first.before
    (way,) = first.ways
    assert way[1].startswith("semantic ")
    assert way[1] != way[2]
    assert way_in_words([]) == "never seen"


def test_junit_counts_the_failures(found: Comparison) -> None:
    conditions = ["ndcg@10 worse", "ndcg@10 worse by 0.99"]
    failed = check_comparison([parse_condition(one) for one in conditions], found)
    suite = ET.fromstring(junit_xml(found, conditions, failed))
    assert suite.get("failures") == "1"
    assert suite.get("tests") == str(len(suite.findall("testcase")))
    (broken,) = [case for case in suite if case.find("failure") is not None]
    assert broken.get("name") == "ndcg@10 worse"


def test_conditions_on_one_run(runs: tuple[Run, Run]) -> None:
    summary = summarised(runs[0])
    assert not check_conditions([parse_condition("ndcg@10 < 0.5")], summary)
    assert check_conditions([parse_condition("ndcg@10 > 0.5")], summary)
    with pytest.raises(SettingsError, match="compares two systems"):
        check_conditions([parse_condition("ndcg@10 worse")], summary)


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
