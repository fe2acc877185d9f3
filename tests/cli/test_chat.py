"""`ragstone chat` in pipes and in a terminal, `sessions` and `history --delete`."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from ..patience import LONG_S
from .run import assert_refused, call, command, environment

pytestmark = pytest.mark.slow

REPORT = "The revenue in 2022 was 4 million euros.\n\nThe revenue in 2023 was 5 million euros.\n"


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data directory, to be copied."""
    folder = tmp_path_factory.mktemp("ingested")
    (folder / "report.txt").write_text(REPORT)
    assert call("ingest", "report.txt", "-d", "data", cwd=folder).returncode == 0
    return folder


@pytest.fixture
def folder(ingested: Path, tmp_path: Path) -> Path:
    shutil.copytree(ingested, tmp_path, dirs_exist_ok=True)
    return tmp_path


def talk(folder: Path, said: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call("chat", "-d", "data", *arguments, cwd=folder, typed=said)


def test_a_pipe_is_a_conversation_that_is_remembered(folder: Path) -> None:
    done = talk(
        folder,
        "What was the revenue in 2022?\n\nand in 2023?\n/quit\nnever\n",
        "--session",
        "money",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.index("4 million") < done.stdout.index("5 million")
    assert "report.txt" in done.stdout
    assert "\x1b[" not in done.stdout
    again = talk(folder, "and in 2022?\n", "--session", "money")
    assert "4 million" in again.stdout
    shown = call("sessions", "show", "money", "-d", "data", cwd=folder).stdout
    assert shown.count("›") == 3
    assert "never" not in shown
    listed = call("sessions", "list", "-d", "data", cwd=folder).stdout.splitlines()[1].split("\t")
    assert (listed[1], listed[3]) == ("money", "3")
    entries = json.loads(
        call("history", "--session", "money", "-d", "data", "--json", cwd=folder).stdout
    )
    assert len(entries) == 3
    assert call("sessions", "delete", "money", "-d", "data", cwd=folder).returncode == 0
    assert_refused(call("sessions", "show", "money", "-d", "data", cwd=folder), "no session")
    assert "No sessions yet" in call("sessions", "list", "-d", "data", cwd=folder).stdout
    assert_refused(call("sessions", "delete", "-d", "data", cwd=folder), "--all", code=2)
    refused = call("sessions", "delete", "--all", "-d", "data", cwd=folder)
    assert_refused(refused, "a terminal is needed to confirm it")
    said = call("sessions", "delete", "--all", "--yes", "-d", "data", cwd=folder).stdout
    assert said.startswith("Deleted 0 sessions and")
    assert "No queries yet" in call("history", "-d", "data", cwd=folder).stdout


def test_the_last_session_is_continued_renamed_and_exported(folder: Path) -> None:
    assert_refused(talk(folder, "hi\n", "--continue"), "no session in the collection")
    talk(folder, "What was the revenue in 2022?\n", "--session", "money")
    both = talk(folder, "and in 2023?\n", "--continue", "--session", "other")
    assert_refused(both, "name two conversations")
    again = talk(folder, "and in 2023?\n", "--continue")
    assert "Searched as: revenue 2022: and in 2023" in again.stdout
    empty = call("sessions", "rename", "money", " ", "-d", "data", cwd=folder)
    assert_refused(empty, "The new title is empty")
    call("sessions", "rename", "money", "Our money", "-d", "data", cwd=folder)
    assert "Our money" in call("sessions", "list", "-d", "data", cwd=folder).stdout
    written = call("sessions", "export", "money", "-d", "data", cwd=folder).stdout
    assert written.startswith("# Our money")
    assert "## and in 2023?" in written
    parsed = json.loads(
        call("sessions", "export", "money", "--json", "-d", "data", cwd=folder).stdout
    )
    assert [turn["question"] for turn in parsed["turns"]][-1] == "and in 2023?"


def test_a_follow_up_is_asked_again_as_it_was_typed(folder: Path) -> None:
    said = "/typed\nhi\nWhat was the revenue in 2022?\nand in 2023?\n/typed\n"
    done = talk(folder, said, "--session", "money")
    assert done.returncode == 0
    assert "no message yet" in done.stderr
    assert done.stdout.count("Searched as: revenue 2022: and in 2023") == 1
    shown = json.loads(call("sessions", "show", "money", "--json", "-d", "data", cwd=folder).stdout)
    asked = [(turn["question"], turn["searched_as"]) for turn in shown["turns"][2:]]
    assert asked == [("and in 2023?", "revenue 2022: and in 2023"), ("and in 2023?", "")]
    assert shown["title"] == "What was the revenue in 2022?"
    listed = call("sessions", "list", "-d", "data", cwd=folder).stdout
    assert "What was the revenue in 2022?" in listed


def test_a_question_that_is_refused_does_not_end_the_chat(folder: Path) -> None:
    done = talk(folder, "\x07\nWhat was the revenue in 2022?\n")
    assert done.returncode == 0
    assert "at least 1" in done.stderr
    assert "4 million" in done.stdout


def test_in_a_terminal_it_prompts_and_streams(folder: Path) -> None:
    main, terminal = pty.openpty()
    chat = subprocess.Popen(
        command("chat", "-d", "data"),
        cwd=folder,
        env=environment(TERM="xterm"),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        close_fds=True,
    )
    os.close(terminal)
    os.write(main, b"What was the revenue in 2022?\n/quit\n")
    seen = b""
    while True:
        try:
            piece = os.read(main, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        seen += piece
    os.close(main)
    assert chat.wait(LONG_S) == 0
    assert b"session" in seen
    assert b"4 million" in seen
    assert b"report.txt" in seen


def test_history_deletes_the_selected_queries(folder: Path) -> None:
    talk(folder, "What was the revenue in 2022?\n")
    call("ask", "What was the revenue in 2023?", "-d", "data", cwd=folder)
    assert_refused(
        call("history", "--delete", "-d", "data", cwd=folder), "needs a selection", code=2
    )
    entries = json.loads(call("history", "-d", "data", "--json", cwd=folder).stdout)
    one = call("history", entries[0]["query_id"], "--delete", "-d", "data", cwd=folder)
    assert one.stdout == "Deleted 1 query.\n"
    words = ("history", "--owner", "local", "--delete", "-d", "data")
    assert_refused(call(*words, cwd=folder), "No query was deleted: a terminal is needed")
    mistyped = call(*words, "-C", "defualt", "--yes", cwd=folder)
    assert_refused(mistyped, "There is no collection 'defualt'.")
    assert "Did you mean 'default'?" in mistyped.stderr
    assert call(*words, "--yes", cwd=folder).stdout == "Deleted 1 query.\n"


def test_an_unknown_command_is_answered_with_the_known_ones(folder: Path) -> None:
    done = talk(folder, "/nope\n/help\n")
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0] == "There is no command /nope."
    assert len(lines) == 3
    for line in lines[1:]:
        assert all(name in line for name in ("/new", "/typed", "/quit"))
