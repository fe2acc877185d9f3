"""`ragstone feedback` and `ragstone consent`: rate answers, evaluate with them, agree, withdraw."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from .run import assert_refused, call

QUESTION = "What colour is the gate of the observatory?"


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    shutil.copytree(filled / "data", tmp_path / "data")
    return tmp_path


def ask(folder: Path, question: str, **extra: str) -> str:
    done = call("ask", question, "-d", "data", "--json", cwd=folder, **extra)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["query_id"])


def test_ratings_are_given_listed_and_deleted(folder: Path) -> None:
    assert "No ratings yet" in call("feedback", "-d", "data", cwd=folder).stdout
    query_id = ask(folder, QUESTION)
    words = ("feedback", query_id, "-d", "data")
    assert call(*words, "--vote", "down", cwd=folder).stdout == "Rated 1 answer.\n"
    given = call(*words, "--rating", "5", "--comment", "Right.", "--json", cwd=folder)
    assert json.loads(given.stdout)["vote"] is None
    table = call("feedback", "-d", "data", cwd=folder).stdout
    assert QUESTION in table
    assert "5 of 5" in table
    (one,) = json.loads(call("feedback", "-d", "data", "--json", cwd=folder).stdout)
    assert (one["rating"], one["comment"], one["owner"]) == (5, "Right.", "local")
    assert call(*words, "--delete", cwd=folder).stdout == "Deleted 1 rating.\n"
    assert_refused(call(*words, "--delete", cwd=folder), "not rated")
    assert_refused(call(*words, "--vote", "sideways", cwd=folder), "Invalid vote 'sideways'")
    assert_refused(
        call("feedback", "--vote", "up", "-d", "data", cwd=folder), "name its query", code=2
    )
    mistyped = call("feedback", "-C", "defualt", "-d", "data", cwd=folder)
    assert_refused(mistyped, "There is no collection 'defualt'.")


def test_rated_answers_are_an_evaluation_set(folder: Path) -> None:
    for question, vote in ((QUESTION, "up"), ("How much notice ends the lease?", "down")):
        done = call("feedback", ask(folder, question), "--vote", vote, "-d", "data", cwd=folder)
        assert done.returncode == 0, done.stderr
    done = call("feedback", "--export", "out/rated.jsonl", "-d", "data", cwd=folder)
    assert done.stdout == "Wrote 2 questions to out/rated.jsonl, 1 with a reference.\n"
    assert "Add 'answer'" in done.stderr
    evaluated = call(
        "eval", "out/rated.jsonl", "-d", "data", "--work", "work", "--no-baselines", "--json",
        "--fail-if", "recall@10 < 1", cwd=folder,
    )  # fmt: skip
    assert evaluated.returncode == 0, evaluated.stderr
    assert '"questions": 2' in evaluated.stdout


def test_nothing_is_stored_before_consent(folder: Path) -> None:
    asking = {"REQUIRE_CONSENT": "true", "RETENTION_DAYS": "1"}

    def consent(*words: str) -> str:
        done = call("consent", *words, "-d", "data", cwd=folder, **asking)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def history() -> list[object]:
        done = call("history", "-d", "data", "--json", cwd=folder, **asking)
        return list(json.loads(done.stdout))

    assert "local has not agreed: nothing is stored." in consent("show")
    before = history()
    ask(folder, QUESTION, **asking)
    assert history() == before
    stored = "Your questions, their answers and your conversations are stored for 1 day.\n"
    assert consent("give") == stored
    ask(folder, QUESTION, **asking)
    assert len(history()) == len(before) + 1
    assert consent("show").endswith(stored)
    assert json.loads(consent("show", "--json"))["required"] is True
    count = len(before) + 1
    assert consent("withdraw") == f"Deleted 0 sessions and {count} queries of local.\n"
    assert history() == []
    assert "Consent is not required" in call("consent", "show", "-d", "data", cwd=folder).stdout
    assert_refused(call("consent", "give", "-d", "data", cwd=folder), "does not ask")
