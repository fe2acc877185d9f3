"""Every command: what it prints, as text and as JSON, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import ragstone
from ragstone.cli.main import app

from ..patience import LONG_S
from .run import assert_refused, call, command, environment

pytestmark = pytest.mark.slow

GROUPS = {
    "documents": ["list", "show", "delete"],
    "sessions": ["list", "show", "delete"],
    "models": ["pull"],
    "consent": ["show", "give", "withdraw"],
    "keys": ["create", "list", "revoke"],
}
SINGLE = ["demo", "ingest", "ask", "chat", "search", "check", "eval", "compare", "tune", "serve"]
SINGLE += ["mcp", "documents", "history", "models", "settings", "reindex", "backup", "restore"]
SINGLE += ["doctor", "feedback", "reembed"]
COMMANDS = [[name] for name in SINGLE]
COMMANDS += [[group, name] for group, names in GROUPS.items() for name in names]


def test_help_says_what_a_command_does_with_an_example(tmp_path: Path) -> None:
    for words in COMMANDS:
        done = call(*words, "--help", cwd=tmp_path)
        assert done.returncode == 0
        assert "Example" in done.stdout
        assert f"ragstone {words[0]}" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_help_names_arguments_in_capitals_and_breaks_no_line_of_a_paragraph() -> None:
    ragstone: Any = typer.main.get_command(app)
    for words in COMMANDS:
        command = ragstone
        for word in words:
            command = command.commands[word]
        for argument in (part for part in command.params if part.param_type_name == "argument"):
            assert argument.metavar == argument.metavar.upper()
        for paragraph in command.help.split("\n\n"):
            assert paragraph.startswith(" ") or "\n" not in paragraph


def test_without_a_command_the_commands_are_listed(tmp_path: Path) -> None:
    done = call(cwd=tmp_path)
    for words in COMMANDS:
        assert words[0] in done.stdout + done.stderr


def test_version_prints_the_version(tmp_path: Path) -> None:
    assert call("--version", cwd=tmp_path).stdout == f"ragstone {ragstone.__version__}\n"


def test_ask_prints_the_answer_its_source_and_no_colour_in_a_pipe(filled: Path) -> None:
    done = call("ask", "How much notice ends the lease?", "-d", "data", "--trace", cwd=filled)
    assert (done.returncode, done.stderr) == (0, "")
    assert "six months' notice" in done.stdout
    assert "lease.md" in done.stdout
    assert "\x1b[" not in done.stdout
    for stage in ("embed", "retrieve.semantic", "retrieve.keyword", "fuse", "ground.generate"):
        assert stage in done.stdout
    assert max(map(len, done.stdout.splitlines())) < 300


def test_ask_as_json_is_the_reply_of_the_http_endpoint(filled: Path) -> None:
    done = call(
        "ask", "How much notice ends the lease?", "-d", "data", "--json", "--trace", cwd=filled
    )
    reply = json.loads(done.stdout)
    assert reply["status"] == "answered"
    citation = reply["citations"][0]
    stored = call("documents", "show", citation["document_id"], "-d", "data", cwd=filled).stdout
    assert stored[citation["start"] : citation["end"]] == citation["snippet"]
    assert reply["trace"]["spans"]


def test_ask_where_nothing_is_says_how_to_fill_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    done = call("ask", "Is anything here?", "-d", "data", "-C", "empty", cwd=tmp_path)
    assert done.returncode == 0
    assert "I don't have enough information" in done.stdout
    assert "The collection 'empty' is empty" in done.stderr
    assert "ragstone ingest" in done.stderr


def test_documents_are_listed_shown_and_deleted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The gate is green.")
    report = json.loads(call("ingest", "a.txt", "-d", "data", "--json", cwd=tmp_path).stdout)
    assert [(file["name"], file["outcome"]) for file in report] == [("a.txt", "added")]
    document_id = report[0]["document_id"]
    listed = call("documents", "list", "-d", "data", cwd=tmp_path).stdout
    assert listed.splitlines()[1].split("\t")[:2] == [document_id, "indexed"]
    as_json = json.loads(call("documents", "list", "-d", "data", "--json", cwd=tmp_path).stdout)
    assert as_json[0]["id"] == document_id
    shown = call("documents", "show", document_id, "-d", "data", "--json", cwd=tmp_path).stdout
    assert json.loads(shown)["text"] == "The gate is green."
    also_listed = call("documents", "-d", "data", cwd=tmp_path)
    assert (also_listed.returncode, also_listed.stdout) == (0, listed)
    deleted = call("documents", "delete", document_id, "-d", "data", "--yes", cwd=tmp_path)
    assert (deleted.returncode, deleted.stdout) == (0, f"Deleted 'a.txt' ({document_id}).\n")
    assert "is empty" in call("documents", "list", "-d", "data", cwd=tmp_path).stdout
    gone = call("documents", "show", document_id, "-d", "data", cwd=tmp_path)
    assert (gone.returncode, "There is no document" in gone.stderr) == (1, True)


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("", 1)])
def test_delete_shows_the_name_and_asks_in_a_terminal(
    typed: str, code: int, filled: Path, tmp_path: Path
) -> None:
    shutil.copytree(filled / "data", tmp_path / "data")
    listed = json.loads(call("documents", "--json", "-d", "data", cwd=tmp_path).stdout)
    one = next(document for document in listed if document["name"] == "gate.txt")
    main, terminal = pty.openpty()
    with subprocess.Popen(
        command("documents", "delete", one["id"], "-d", "data"),
        cwd=tmp_path,
        env=environment(),
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as asked:
        os.write(main, f"{typed}\n".encode())
        said, question = asked.communicate(timeout=LONG_S)
    os.close(main)
    os.close(terminal)
    assert "Delete 'gate.txt' from the collection 'default'? [y/N]" in question
    assert asked.returncode == code
    assert ("Deleted 'gate.txt'" in said) == (code == 0)
    assert ("Nothing was deleted." in question) == (code == 1)
    left = json.loads(call("documents", "--json", "-d", "data", cwd=tmp_path).stdout)
    assert len(left) == 1 + code


def test_history_lists_what_was_asked_and_shows_one_in_full(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert "No queries yet" in call("history", "-d", "data", cwd=tmp_path).stdout
    call("ask", "Is anything here?", "-d", "data", cwd=tmp_path)
    assert "Is anything here?" in call("history", "-d", "data", cwd=tmp_path).stdout
    entries = json.loads(call("history", "-d", "data", "--json", cwd=tmp_path).stdout)
    one = call("history", entries[0]["query_id"], "--json", "-d", "data", cwd=tmp_path).stdout
    assert json.loads(one)["trace"]["spans"]


def test_settings_shows_values_with_origins_and_hides_secrets(tmp_path: Path) -> None:
    done = call(
        "settings",
        "--set",
        "RAG_MIN_CHUNKS=9",
        cwd=tmp_path,
        RAG_TOP_K="3",
        LLM_API_KEY="sk-secret",
    )
    rows = {line.split("\t")[0]: line.split("\t") for line in done.stdout.splitlines()}
    assert rows["refine.top_k"][1:3] == ["3", "environment RAG_TOP_K"]
    assert rows["refine.min_chunks"][1:3] == ["9", "flag RAG_MIN_CHUNKS"]
    assert rows["provider.api_key"][1] == "********"
    as_json = call("settings", "--json", cwd=tmp_path, LLM_API_KEY="sk-secret").stdout
    assert "sk-secret" not in done.stdout + as_json
    assert {"name", "value", "origin", "variables", "description"} == set(json.loads(as_json)[0])


def test_settings_calls_a_value_that_is_not_set_so(tmp_path: Path) -> None:
    lines = call("settings", cwd=tmp_path).stdout.splitlines()
    assert "None" not in {line.split("\t")[1] for line in lines}
    assert "not set" in {line.split("\t")[1] for line in lines}


def test_one_source_is_singular(tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate of the observatory is painted green.")
    call("ingest", "gate.txt", "-d", "data", cwd=tmp_path)
    done = call("ask", "What colour is the gate?", "-d", "data", cwd=tmp_path)
    assert " · 1 source read · " in done.stdout
    done = call("doctor", "--deep", "-d", "data", cwd=tmp_path)
    assert "checked 1 document and 1 chunk with their vectors: all are intact" in done.stdout
    assert "originals\tok\tnone stored" in done.stdout


def test_models_lists_the_shipped_embedder(tmp_path: Path) -> None:
    done = call("models", cwd=tmp_path)
    assert "ragstone-embed-l6\tembedder\tshipped" in done.stdout
    assert json.loads(call("models", "--json", cwd=tmp_path).stdout)[0]["licence"]


def test_a_reader_that_has_enough_is_no_failure(filled: Path) -> None:
    listing = subprocess.Popen(
        command("settings"),
        cwd=filled,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert listing.stdout is not None
    assert listing.stderr is not None
    listing.stdout.close()
    errors = listing.stderr.read()
    listing.stderr.close()
    assert listing.wait(LONG_S) == 0
    assert b"Traceback" not in errors


def test_importing_ragstone_imports_nothing_heavy(tmp_path: Path) -> None:
    heavy = ("numpy", "pydantic", "fastapi", "onnxruntime", "sqlalchemy", "tantivy", "rich")
    code = f"import sys, ragstone; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment()
    )
    assert done.stdout.strip() == "[]"


def test_check_says_of_each_sentence_what_the_files_say(tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    answer = "The gate is green. It was painted in 2021."
    # Settings that say where documents are stored are not those of a check.
    elsewhere = {"RAGSTONE_INGEST_SOURCE": "lyon", "RAGSTONE_INDEX_KIND": "qdrant"}
    done = call("check", answer, "--against", "gate.txt", "--json", cwd=tmp_path, **elsewhere)
    assert done.returncode == 0, done.stderr
    reply = json.loads(done.stdout)
    assert [claim["verdict"] for claim in reply["claims"]] == ["supported", "contradicted"]
    assert reply["facts"] == ["gate.txt"]


def test_a_marker_counts_the_files_as_they_are_given_and_not_as_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragstone.ingest.discover._LARGE_BYTES", 100)
    (tmp_path / "large.txt").write_text("The dome is white. " * 6)
    (tmp_path / "small.txt").write_text("The gate is green.")
    answer = "The dome is white. [Source 1] The gate is green. [Source 2]"
    files = ("--against", "large.txt", "--against", "small.txt")
    reply = json.loads(call("check", answer, *files, "--json", cwd=tmp_path).stdout)
    assert reply["facts"] == ["large.txt", "small.txt"]
    assert [claim["verdict"] for claim in reply["claims"]] == ["supported", "supported"]


def test_check_fails_on_the_verdicts_that_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    (tmp_path / "dome.txt").write_text("The dome is white.")
    answers = {
        "It was painted in 2020.": (0, 0),
        "It was painted in 2021.": (1, 1),
        "It was painted in 2020 [Source 9].": (0, 1),
        "It was painted in 2020 [Source 2].": (0, 1),
    }
    for answer, codes in answers.items():
        files = ("-a", "gate.txt", "-a", "dome.txt")
        found = [
            call("check", answer, *files, "--fail-on", one, cwd=tmp_path).returncode
            for one in ("contradicted", "unsupported")
        ]
        assert tuple(found) == codes, answer


def test_check_refuses_an_empty_answer(tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green.")
    for answer in ("", "  \n", "-"):
        done = call("check", answer, "--against", "gate.txt", cwd=tmp_path)
        assert done.returncode == 2, done.stdout
        assert "The answer is empty." in done.stderr


@pytest.mark.parametrize(
    "command", [("ask", "-", "--data", "data"), ("check", "-", "--against", "gate.txt")]
)
def test_input_that_is_not_utf_8_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green.")
    done = call(*command, cwd=tmp_path, typed="caf\udce9?")
    assert_refused(done, "standard input is not in UTF-8")


def test_doctor_names_the_reading_model(tmp_path: Path) -> None:
    assert call("ingest", str(tmp_path), "-d", "data", cwd=tmp_path).returncode in (0, 1)
    done = call("doctor", "-d", "data", "--json", cwd=tmp_path)
    (line,) = [one for one in json.loads(done.stdout) if one["subject"] == "reading model"]
    assert line["state"] == "ok"
    assert re.search(r"version \d", line["detail"])


def test_doctor_check_reports_a_damaged_index_and_leaves_it(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled / "data", tmp_path / "data")
    vectors = tmp_path / "data" / "index" / "default" / "dense-1" / "vectors.f32"
    vectors.write_bytes(bytes(300))
    done = call("doctor", "--check", "--deep", "-d", "data", cwd=tmp_path)
    assert done.returncode == 1
    assert "collection default\twrong" in done.stdout
    assert "is damaged" in done.stdout
    assert "Without --check the command repairs these problems" in done.stderr
    assert vectors.read_bytes() == bytes(300)
    done = call("doctor", "-d", "data", cwd=tmp_path)
    assert done.returncode == 0
    assert "collection default\trepaired" in done.stdout
    assert call("doctor", "--check", "--deep", "-d", "data", cwd=tmp_path).returncode == 0


def test_random_vectors_cause_no_warning_of_the_library(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled / "data", tmp_path / "data")
    vectors = tmp_path / "data" / "index" / "default" / "dense-1" / "vectors.f32"
    vectors.write_bytes(b"\xff\xff\xff\x7f\x00\x00\x80\x7f" * (vectors.stat().st_size // 8))
    done = call("search", "gate", "-d", "data", cwd=tmp_path)
    assert done.returncode == 0
    assert "RuntimeWarning" not in done.stderr
    assert "painted green" in done.stdout


def test_doctor_names_a_reranker_that_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    careful = {"RAGSTONE_PRESET": "careful", "RAGSTONE_DATA_MODELS": "models"}
    done = call("doctor", "-d", "data", cwd=tmp_path, **careful)
    assert done.returncode == 1
    assert "reranker\twrong" in done.stdout
    assert "Run: ragstone models pull ms-marco-minilm-l12" in done.stdout
    assert "Run the commands that the lines above name." in done.stderr


def test_a_missing_key_is_said_once_and_before_any_connection(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled / "data", tmp_path / "data")
    words = ["ask", "What colour is the gate?", "-d", "data"]
    done = call(*words, cwd=tmp_path, LLM_PROVIDER="openai")
    assert done.stderr.startswith(
        "warning: OpenAI needs an API key. Set OPENAI_API_KEY or LLM_API_KEY. No model was used"
    )
    assert "green" in done.stdout
    assert "API key" not in done.stdout
    done = call(*words, "--json", cwd=tmp_path, LLM_PROVIDER="openai")
    assert "OpenAI needs an API key" in " ".join(json.loads(done.stdout)["notes"])


def test_a_question_from_a_pipe_and_its_entry_in_the_history(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled / "data", tmp_path / "data")
    question = "What colour is the gate?"
    asked = call("ask", "-", "-d", "data", cwd=tmp_path, typed=f"{question}\n")
    assert "green" in asked.stdout
    entry = json.loads(call("history", "-d", "data", "--json", cwd=tmp_path).stdout)[0]
    assert entry["query"] == question
    shown = call("history", entry["query_id"][:8], "-d", "data", cwd=tmp_path).stdout
    for part in (question, entry["answer"], "[Source 1] gate.txt", entry["query_id"]):
        assert part in shown


def test_an_id_may_be_cut_short_as_long_as_it_names_one_thing(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled / "data", tmp_path / "data")
    listed = call("documents", "-d", "data", cwd=tmp_path).stdout
    document_id = listed.splitlines()[1].split("\t")[0]
    whole, cut = (
        call("documents", "show", given, "-d", "data", cwd=tmp_path).stdout
        for given in (document_id, f"{document_id[:6]}…")
    )
    assert whole
    assert cut == whole
    for number in (1, 2):
        call("chat", "--session", f"plans-{number}", "-d", "data", cwd=tmp_path, typed="Is it so?")
    several = call("sessions", "show", "plans", "-d", "data", cwd=tmp_path)
    assert_refused(several, "'plans': plans-1, plans-2.")
    other_case = call("sessions", "show", "Plans", "-d", "data", cwd=tmp_path)
    assert_refused(other_case, "'Plans'")
    assert "plans-1" not in other_case.stderr
    nothing = call("documents", "delete", "", "--yes", "-d", "data", cwd=tmp_path)
    assert_refused(nothing, "There is no id ''.", "first 4 characters")


def test_a_file_that_cannot_be_read_does_not_end_a_check(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "scan.pdf").write_text("hello")
    check = ("check", "The gate is green.", "--against", "docs")
    assert_refused(call(*check, cwd=tmp_path), "scan.pdf")
    (tmp_path / "docs" / "gate.txt").write_text("The gate is green.")
    done = call(*check, cwd=tmp_path)
    assert done.returncode == 0
    assert "supported" in done.stdout
    assert "warning: scan.pdf was left out" in done.stderr
    (left_out,) = json.loads(call(*check, "--json", cwd=tmp_path).stdout)["left_out"]
    assert left_out["name"] == "scan.pdf"
