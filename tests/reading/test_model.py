"""The shipped reading model gives its golden scores, in any batch, or says what is wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ragstone.errors import StoreError
from ragstone.reading.model import SHIPPED_MODEL, ReadingModel

DIRECTORY = ReadingModel().directory
GOLDEN = json.loads((DIRECTORY / "model.json").read_text("utf-8"))["golden"]
# Scores are rounded in the file, and another processor may round differently.
CLOSE = 0.02


@pytest.fixture(scope="module")
def model() -> ReadingModel:
    return ReadingModel()


@pytest.mark.parametrize("pair", GOLDEN, ids=lambda pair: pair["first"][:30])
def test_the_golden_scores(model: ReadingModel, pair: dict[str, object]) -> None:
    first, second = str(pair["first"]), str(pair["second"])
    [[span]] = model.read(first, [second], [[(0, len(second))]])
    assert [span.start, span.end] == pair["span"]
    assert second[span.start : span.end] == pair["text"]
    assert span.score == pytest.approx(pair["read"], abs=CLOSE)
    assert model.rank(first, [second])[0] == pytest.approx(pair["score"], abs=CLOSE)


def test_a_claim_with_its_roles_exchanged_is_contradicted(model: ReadingModel) -> None:
    evidence = "The tenant pays the landlord a deposit."
    exchanged, reworded = model.verify(
        [
            ("The landlord pays the tenant a deposit.", evidence),
            ("The landlord gets a deposit from the tenant.", evidence),
        ]
    )
    assert exchanged.contradicted > 0.9
    assert reworded.supported > 0.9


def test_a_score_does_not_depend_on_the_batch(model: ReadingModel) -> None:
    passages = [str(pair["second"]) for pair in GOLDEN]
    question = "how many people live in berlin"
    together = model.rank(question, passages)
    alone = [model.rank(question, [passage])[0] for passage in passages]
    assert together == pytest.approx(alone, abs=1e-3)


def test_the_best_passage_comes_first(model: ReadingModel) -> None:
    passages = ["New York is famous for its museums.", "Berlin has 3.5 million inhabitants."]
    units = [[(0, len(passage))] for passage in passages]
    [[other], [best]] = model.read("how many people live in berlin", passages, units)
    assert (other.passage, best.passage) == (0, 1)
    assert best.score > 0 > other.score


def test_offsets_point_into_a_passage_longer_than_the_window(model: ReadingModel) -> None:
    filler = "The dome turns with the wind and 🙂 the guide explains the stars. " * 40
    passage = filler + "The gate was painted green in 1998. " + filler
    [[span]] = model.read("When was the gate painted?", [passage], [[(0, len(passage))]])
    assert "1998" in passage[span.start : span.end]
    assert span.end - span.start < 40


def test_nothing_to_read_gives_nothing(model: ReadingModel) -> None:
    assert model.read("Who?", [], []) == []
    assert model.read("Who?", [""], [[]]) == [[]]
    [[outside]] = model.read("Who?", ["Ann."], [[(40, 50)]])
    assert outside.score == float("-inf")
    assert model.verify([]) == []
    assert model.rank("Who?", []) == []
    assert len(model.rank("a very long question " * 200, [""])) == 1


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(DIRECTORY, tmp_path / SHIPPED_MODEL)
    return tmp_path / SHIPPED_MODEL


def test_a_missing_file_is_named(copy: Path) -> None:
    (copy / "model.onnx").unlink()
    model = ReadingModel(copy)
    assert not model.is_installed
    with pytest.raises(StoreError, match="is missing from the installation"):
        model.rank("Who?", ["Nobody."])


def test_a_truncated_file_is_refused(copy: Path) -> None:
    content = (copy / "model.onnx").read_bytes()
    (copy / "model.onnx").write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreError, match="damaged"):
        ReadingModel(copy).rank("Who?", ["Nobody."])


def test_an_exchanged_file_is_refused(copy: Path) -> None:
    other = DIRECTORY.parent / "ragstone-embed-l6" / "model.onnx"
    shutil.copyfile(other, copy / "model.onnx")
    with pytest.raises(StoreError, match="damaged"):
        ReadingModel(copy).rank("Who?", ["Nobody."])


def test_a_changed_tokenizer_is_refused(copy: Path) -> None:
    text = (copy / "tokenizer.json").read_text("utf-8")
    (copy / "tokenizer.json").write_text(text.replace('"the":', '"eht":', 1), "utf-8")
    with pytest.raises(StoreError, match=r"tokenizer\.json .* is damaged"):
        ReadingModel(copy).rank("Who?", ["Nobody."])


@pytest.mark.parametrize("content", ["", '{"name": "ragstone-rea', "[]", "{}"])
def test_a_damaged_card_is_named(copy: Path, content: str) -> None:
    (copy / "model.json").write_text(content)
    with pytest.raises(StoreError, match=r"model\.json .* is damaged"):
        ReadingModel(copy).rank("Who?", ["Nobody."])


def test_the_card_for_people_names_the_version_and_the_benchmark() -> None:
    text = (DIRECTORY / "README.md").read_text("utf-8")
    assert f"| Version | {ReadingModel().check_files()} " in text
    assert "docs/reference/grounding-benchmark.md" in text
