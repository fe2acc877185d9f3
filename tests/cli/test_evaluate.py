"""`ragstone eval`, `compare` and `tune` as a person runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..evaluate.build import painted_things, write_lines
from .run import assert_refused, call

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    """Questions beside a work directory of their own; the data are `filled`'s."""
    write_lines(
        tmp_path / "questions.jsonl",
        [
            {"question": "What colour is the gate?", "answer": "green", "document": "gate.txt"},
            {
                "question": "How much notice ends the lease?",
                "answer": "six months",
                "document": "lease.md",
            },
            {"question": "Who sings in the opera tonight?", "answerable": False},
        ],
    )
    return tmp_path


def at(filled: Path, folder: Path) -> dict[str, str]:
    return {"RAGSTONE_DATA": str(filled / "data"), "RAGSTONE_EVALUATE_DIRECTORY": str(folder / "w")}


def test_eval_prints_figures_and_writes_a_report(filled: Path, folder: Path) -> None:
    done = call("eval", "questions.jsonl", "--report", "r.html", cwd=folder, **at(filled, folder))
    assert done.returncode == 0, done.stderr
    rows = dict(line.split("\t")[:2] for line in done.stdout.splitlines() if "\t" in line)
    assert rows["hit@10"] == "1.0000"
    assert rows["decided_right"] == "1.0000"
    assert (folder / "r.html").read_text().startswith("<!doctype html>")
    again = call(
        "eval",
        "questions.jsonl",
        "--json",
        "--fail-if",
        "ndcg@10 < 2",
        cwd=folder,
        **at(filled, folder),
    )
    assert again.returncode == 3
    assert "gate: ndcg@10 < 2" in again.stderr
    runs = json.loads(again.stdout)["runs"]
    assert list(runs) == ["balanced", "BM25 alone", "dense alone"]
    assert runs["balanced"]["metrics"]["containment"]["mean"] == 1.0


def test_compare_of_equal_sides_says_no_difference(filled: Path, folder: Path) -> None:
    done = call(
        "compare",
        "balanced",
        "balanced",
        "questions.jsonl",
        "--no-answers",
        "--junit",
        "j.xml",
        "--fail-if",
        "ndcg@10 worse",
        cwd=folder,
        **at(filled, folder),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("No difference: ndcg@10 is equal")
    assert 'failures="0"' in (folder / "j.xml").read_text()
    anew = call(
        "compare",
        "balanced",
        "balanced",
        "questions.jsonl",
        "--no-answers",
        "--again",
        "--json",
        cwd=folder,
        **at(filled, folder),
    )
    found = {one["measure"]: one for one in json.loads(anew.stdout)["differences"]}
    assert found["ndcg@10"]["ties"] == 2
    assert found["latency_ms"]["ties"] < 3  # kept times would be equal


def test_a_broken_settings_file_fails_the_gate(filled: Path, folder: Path) -> None:
    (folder / "broken.toml").write_text("[refine]\nmin_similarity = 1.0\nmin_chunks = 0\n")
    done = call(
        "compare",
        "balanced",
        "broken.toml",
        "questions.jsonl",
        "--no-answers",
        "--json",
        "--fail-if",
        "recall@10 worse by 0.1",
        cwd=folder,
        **at(filled, folder),
    )
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["failed"][0].startswith("recall@10 worse by 0.1: ")


def test_questions_are_made_from_the_documents(filled: Path, folder: Path) -> None:
    done = call(
        "eval",
        "--from-documents",
        "--count",
        "3",
        "--no-answers",
        "--json",
        cwd=folder,
        **at(filled, folder),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["dataset"] == "documents of default"
    assert 1 <= found["questions"] <= 3
    both = call("eval", "questions.jsonl", "--from-documents", cwd=folder, **at(filled, folder))
    assert_refused(both, "both given")


def test_tune_writes_settings_that_can_be_used(filled: Path, folder: Path) -> None:
    painted_things(folder / "things")
    known = at(filled, folder)
    done = call("tune", "things", "--questions", "20", "--check", "20", cwd=folder, **known)
    assert done.returncode == 0, done.stderr
    assert "held-back half" in done.stdout
    assert "recommended threshold: RAG_MIN_SIMILARITY=" in done.stdout
    names = sorted(path.name for path in (folder / "tuned").iterdir())
    assert names == ["ragstone.toml", "tune.html", "tune.json", "tune.md"]
    used = call("settings", "--config", "tuned/ragstone.toml", cwd=folder, **known)
    assert used.returncode == 0, used.stderr


def test_wrong_requests_are_sentences(filled: Path, folder: Path) -> None:
    known = at(filled, folder)
    assert_refused(call("eval", cwd=folder, **known), "There are no questions", "--from-documents")
    assert_refused(call("eval", "nowhere", cwd=folder, **known), "There is no dataset 'nowhere'")
    assert_refused(
        call("compare", "balanced", "nowhere", cwd=folder, **known), "not a preset", code=2
    )
    wrong = call("eval", "questions.jsonl", "--fail-if", "beauty < 1", cwd=folder, **known)
    assert_refused(wrong, "Unknown measure 'beauty'", "ndcg@10", code=2)
    worse = call("eval", "questions.jsonl", "--fail-if", "f1 worse", cwd=folder, **known)
    assert_refused(worse, "compares two systems", "ragstone compare", code=2)
    for arguments in (
        ("compare", "balanced", "minimal", "questions.jsonl", "--junit", "questions.jsonl/j.xml"),
        ("tune", "questions.jsonl", "--out", "questions.jsonl"),
        ("eval", "questions.jsonl", "--report", "questions.jsonl/r.html"),
    ):
        assert_refused(call(*arguments, cwd=folder, **known), "cannot be written")
    work = call("eval", "questions.jsonl", "--work", "questions.jsonl", cwd=folder, **known)
    assert_refused(work, "is a file, not a directory")
    write_lines(
        folder / "lost.jsonl",
        [
            {"question": "What colour is the gate?", "document": "docs/gate.txt"},
            {"question": "Where is the key?", "document": "nowhere.txt"},
        ],
    )
    lost = call("eval", "lost.jsonl", cwd=folder, **known)
    assert_refused(lost, "lost.jsonl, line 2: there is no document 'nowhere.txt' in 'default'")
    few = call("tune", "questions.jsonl", cwd=folder, **known)
    assert_refused(few, "too few judged questions")
