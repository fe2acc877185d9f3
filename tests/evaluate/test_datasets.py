"""Datasets of every format are read, and what is wrong with one is said with file and line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.errors import InputError
from ragstone.evaluate.datasets import Dataset, Question, load_dataset

from .build import painted_things, write_lines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return painted_things(tmp_path / "things")


def test_a_beir_folder_holds_documents_questions_and_judgements(folder: Path) -> None:
    dataset = load_dataset(folder)
    assert dataset.name == "things"
    assert len(dataset.passages) == len(dataset.questions) == 80
    assert dataset.questions[0].grades == {"gate-red": 1}
    assert dataset.passages[0].contextual_text.startswith("The gate\nIn the red village")
    assert not dataset.has_answers


def test_qa_jsonl_adds_answers_and_unanswerable_questions(tmp_path: Path) -> None:
    dataset = load_dataset(painted_things(tmp_path, answers=True))
    assert dataset.questions[0].answers == ("Red Mason",)
    assert dataset.questions[0].grades == {"gate-red": 1}
    assert dataset.questions[-1].answerable is False
    assert dataset.has_answers


def test_judgements_may_stand_in_a_folder_of_splits_and_in_trec_columns(folder: Path) -> None:
    (folder / "qrels").mkdir()
    (folder / "qrels.tsv").unlink()
    (folder / "qrels" / "test.tsv").write_text("q0 0 gate-red 2\n")
    assert load_dataset(folder).questions[0].grades == {"gate-red": 2}


def test_a_byte_order_mark_and_blank_lines_at_the_end_do_no_harm(folder: Path) -> None:
    corpus = folder / "corpus.jsonl"
    corpus.write_bytes(b"\xef\xbb\xbf" + corpus.read_bytes() + b"\r\n\n")
    assert len(load_dataset(folder).passages) == 80


def _append(name: str, text: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(text)

    return spoil


def _recode(encoding: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        line = json.dumps({"_id": "x", "text": "Café"}, ensure_ascii=False)
        (folder / "corpus.jsonl").write_bytes(f"{line}\n".encode(encoding))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda f: (f / "qrels.tsv").unlink(), "has no qrels.tsv"),
        (lambda f: (f / "corpus.jsonl").unlink(), "has no corpus.jsonl"),
        (_append("qrels.tsv", "q0\tnowhere\t1\n"), "qrels.tsv, line 82: there is no document"),
        (_append("qrels.tsv", "q999\tgate-red\t1\n"), "qrels.tsv, line 82: there is no question"),
        (_append("qrels.tsv", "q0\tgate-red\n"), "qrels.tsv, line 82: 2 columns"),
        (
            lambda f: (f / "qrels.tsv").write_text("q0\tgate-red\t0.5\n"),
            "qrels.tsv, line 1: the score '0.5' is not a whole",
        ),
        (_append("qrels.tsv", "q0\tgate-red\t²\n"), "line 82: the score '²' is not a whole"),
        (_append("qrels.tsv", "q0\tgate-red\tgood\n"), "line 82: the score 'good' is not a whole"),
        (_append("queries.jsonl", '\n{"_id": "x", "text": "y"}\n'), "line 81: the line is empty"),
        (_append("queries.jsonl", '{"_id": "x"\n'), "queries.jsonl, line 81: invalid JSON"),
        (_append("queries.jsonl", "[1]\n"), "queries.jsonl, line 81: not a JSON object"),
        (_append("queries.jsonl", '{"_id": "q0", "text": "y"}\n'), "line 81: duplicate id 'q0'"),
        (_append("queries.jsonl", '{"_id": "x"}\n'), "line 81: the field 'text' is missing"),
        (_append("corpus.jsonl", '{"text": "y"}\n'), "line 81: the field '_id' is missing"),
        (_recode("utf-16"), "corpus.jsonl, line 1: the file is UTF-16"),
        (_recode("latin-1"), "corpus.jsonl, line 1: the byte 0xe9 is not UTF-8"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(
    folder: Path, spoil: Callable[[Path], object], said: str
) -> None:
    spoil(folder)
    with pytest.raises(InputError) as refusal:
        load_dataset(folder)
    assert said in refusal.value.message
    assert refusal.value.hint


def test_a_path_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no dataset"):
        load_dataset(tmp_path / "nothing")


def test_questions_and_answers_are_read_from_lines(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "qa.jsonl",
        [
            {"question": "Who?", "answer": "Anna", "document": "a.txt", "evidence": "Anna did."},
            {"question": "When?", "answerable": False, "document": "a.txt"},
            {"id": "third", "question": "Where?", "documents": ["a.txt", "b.txt"]},
        ],
    )
    first, second, third = load_dataset(path).questions
    assert (first.id, first.answers, first.answerable) == ("1", ("Anna",), True)
    assert (first.targets[0].document, first.targets[0].text) == ("a.txt", "Anna did.")
    assert second.answerable is False
    assert not second.targets
    assert third.grades == {"a.txt": 1, "b.txt": 1}


def test_passages_in_lines_become_the_documents(tmp_path: Path) -> None:
    passage = {"title": "Dada", "text": "Dada began in Zürich."}
    path = write_lines(
        tmp_path / "clap.jsonl",
        [
            {"id": "a", "input": "Where?", "passages": [passage], "output": [{"answer": "Zürich"}]},
            {"id": "b", "input": "Why?", "passages": [passage], "output": [{"answer": ""}]},
        ],
    )
    dataset = load_dataset(path)
    assert len(dataset.passages) == 1
    assert dataset.questions[0].grades == {dataset.passages[0].id: 1}
    assert dataset.questions[1].answerable is False


SAMPLE = {
    "user_input": "Where is the gate?",
    "reference": "In the north.",
    "reference_contexts": ["The gate is in the north of the town."],
}


def test_a_ragas_sample_without_a_response_is_asked_of_its_contexts(tmp_path: Path) -> None:
    dataset = load_dataset(write_lines(tmp_path / "ragas.jsonl", [SAMPLE]))
    assert dataset.passages[0].text == "The gate is in the north of the town."
    assert dataset.questions[0].grades == {dataset.passages[0].id: 1}
    assert dataset.questions[0].given_answer is None


def test_a_ragas_sample_with_a_response_is_judged_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "ragas.json"
    sample = {**SAMPLE, "response": "North.", "retrieved_contexts": ["Something else."]}
    path.write_text(json.dumps([sample]))
    dataset = load_dataset(path)
    assert not dataset.passages
    given = dataset.questions[0].given_answer
    assert given is not None
    assert given.response == "North."


def test_wrong_samples_are_said_with_their_place(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "qa.jsonl", [{"question": "Who?"}, {"answer": "x"}])
    with pytest.raises(InputError, match="line 2: the field 'question' is missing"):
        load_dataset(path)
    path.write_text("")
    with pytest.raises(InputError, match="has no questions"):
        load_dataset(path)
    broken = tmp_path / "broken.json"
    broken.write_text("[{]")
    with pytest.raises(InputError, match="line 1: invalid JSON"):
        load_dataset(broken)


@settings(deadline=None)
@given(st.lists(st.text(min_size=1), unique=True, max_size=30), st.integers(0, 40))
def test_halves_share_nothing_and_lose_nothing(ids: list[str], most: int) -> None:
    dataset = Dataset("d", tuple(Question(one, "?") for one in ids))
    halves = [{one.id for one in dataset.take_half(half).questions} for half in ("tune", "report")]  # type: ignore[arg-type]
    assert halves[0] | halves[1] == set(ids)
    assert not halves[0] & halves[1]
    few = dataset.take_sample(most)
    assert len(few.questions) == min(most, len(ids))
    assert {one.id for one in few.questions} <= set(ids)


def test_a_list_of_samples_counts_entries_and_lines_count_lines(tmp_path: Path) -> None:
    listed = tmp_path / "list.json"
    listed.write_text('[{"question": "Where?"},\n\n\n{"answer": "there"}]')
    with pytest.raises(InputError, match=r"list\.json, entry 2: the field 'question' is missing"):
        load_dataset(listed)
    deep = tmp_path / "deep.jsonl"
    deep.write_text("[" * 100_000 + "\n")
    with pytest.raises(
        InputError,
        match=r"deep\.jsonl, line 1: (the JSON is nested|not a JSON object|invalid JSON)",
    ):
        load_dataset(deep)
