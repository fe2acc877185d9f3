"""Whatever is wrong, the command says so in a sentence with a hint, fails, and loses nothing."""

from __future__ import annotations

import os
import shutil
import socket
import tarfile
from pathlib import Path

import pytest

from .run import assert_refused, call, run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("", "0 characters; at least 1"),
        ("x" * 32_001, "32,001 characters; at most 32,000"),
        ("\x07\x1b\x01\x02", "0 characters; at least 1"),
    ],
)
def test_a_question_of_a_wrong_length(filled: Path, question: str, said: str) -> None:
    assert_refused(call("ask", question, "-d", "data", cwd=filled), said)


def test_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    assert_refused(call("ingest", "docs", "-d", "data", cwd=tmp_path), "holds no documents", "PDF")


def test_a_missing_file(tmp_path: Path) -> None:
    assert_refused(
        call("ingest", "no.txt", "-d", "data", cwd=tmp_path), "no file or folder 'no.txt'"
    )


def test_a_folder_without_permission(tmp_path: Path) -> None:
    locked = tmp_path / "docs"
    locked.mkdir()
    (locked / "a.txt").write_text("The gate is green.")
    locked.chmod(0)
    try:
        done = run("ingest", "docs", "-d", "data", cwd=tmp_path, obey_permissions=True)
    finally:
        locked.chmod(0o700)
    assert_refused(done, "docs' cannot be read: Permission denied", "permissions")


def test_what_is_below_it_without_permission_fails_alone_and_nothing_of_it_is_pruned(
    tmp_path: Path,
) -> None:
    locked = tmp_path / "docs" / "sub"
    locked.mkdir(parents=True)
    (tmp_path / "docs" / "a.txt").write_text("The gate is green.")
    (tmp_path / "docs" / "c.txt").write_text("The roof is red.")
    (locked / "b.txt").write_text("The dome is white.")
    assert call("ingest", "docs", "-d", "data", cwd=tmp_path).returncode == 0
    (tmp_path / "docs" / "a.txt").write_text("The gate is blue.")
    (tmp_path / "docs" / "c.txt").write_text("The roof is blue.")
    (tmp_path / "docs" / "c.txt").chmod(0)
    locked.chmod(0)
    try:
        done = run("ingest", "docs", "--prune", "-d", "data", cwd=tmp_path, obey_permissions=True)
    finally:
        locked.chmod(0o700)
    assert done.returncode == 1
    assert "failed sub: The folder" in done.stdout
    assert "failed c.txt: The file cannot be read: Permission denied." in done.stdout
    assert "1 updated, 2 failed · 3 chunks in 'default'" in done.stdout


def test_a_pattern_that_matches_nothing(tmp_path: Path) -> None:
    done = call("ingest", "*.xyz", "-d", "data", cwd=tmp_path)
    assert_refused(done, "No file matches '*.xyz'")


def test_one_mistyped_path_among_several(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The gate is green.")
    done = call("ingest", "a.txt", "no.txt", "-d", "data", cwd=tmp_path)
    assert_refused(done, "no file or folder 'no.txt'", "Nothing was read.")


def test_a_file_in_a_folder_without_permission(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir(mode=0)
    done = run("ingest", "docs/a.txt", "-d", "data", cwd=tmp_path, obey_permissions=True)
    (tmp_path / "docs").chmod(0o700)
    assert_refused(done, "'docs/a.txt' cannot be reached: Permission denied")


def test_a_pdf_that_is_no_pdf_and_the_others_are_stored(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("The gate is green.")
    (docs / "b.pdf").write_text("hello")
    done = call("ingest", "docs", "-d", "data", cwd=tmp_path)
    assert done.returncode == 1
    assert "failed b.pdf: The file is named '.pdf' but its content is not PDF" in done.stdout
    assert "hint:" in done.stdout
    assert "1 added, 1 failed" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_database_file_of_garbage_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    garbage = b"\x8d\x13garbage" * 500
    (tmp_path / "data" / "catalog.db").write_bytes(garbage)
    for words in (["ask", "Is it so?"], ["history"]):
        assert_refused(call(*words, "-d", "data", cwd=tmp_path), "not a database", "backup")
    assert (tmp_path / "data" / "catalog.db").read_bytes() == garbage


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = call("serve", "--port", str(port), "-d", "data", cwd=tmp_path)
    assert_refused(done, f"127.0.0.1:{port}: Address already in use", "--port", code=2)


def test_an_address_that_is_not_ours(tmp_path: Path) -> None:
    done = call(
        "serve", "--insecure", "--host", "203.0.113.1", "--port", "0", "-d", "data", cwd=tmp_path
    )
    assert_refused(done, "cannot listen on 203.0.113.1", code=2)
    done = call("serve", "--insecure", "--host", "no such host", "-d", "data", cwd=tmp_path)
    assert_refused(done, "cannot listen on no such host", code=2)


@pytest.mark.parametrize(
    "words",
    [["ask", "Is it so?"], ["search", "so"], ["documents"], ["history"], ["doctor"]],
    ids=lambda words: words[0],
)
def test_a_command_that_reads_creates_no_data_directory(tmp_path: Path, words: list[str]) -> None:
    done = call(*words, "--data", "dta", cwd=tmp_path)
    assert_refused(done, "There is no data directory 'dta'.", "ragstone ingest")
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_data_directory(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    done = run("ask", "Is it so?", "-d", "data", cwd=tmp_path, obey_permissions=True)
    assert_refused(done, "'data' cannot be written: Permission denied", "--data")


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("I was here first.")
    done = call("ask", "Is it so?", "-d", "data", cwd=tmp_path)
    assert_refused(done, "The data directory 'data' is a file, not a directory.", "--data")
    assert (tmp_path / "data").read_text() == "I was here first."


def test_an_unknown_setting_in_every_layer(tmp_path: Path) -> None:
    ask = ["ask", "Is it so?", "-d", "data"]
    assert_refused(
        call(*ask, "--set", "RAG_TOPK=3", cwd=tmp_path), "RAG_TOPK", "RAG_TOP_K?", code=2
    )
    assert_refused(call(*ask, "--set", "RAG_TOP_K", cwd=tmp_path), "has no value", code=2)
    assert_refused(call(*ask, cwd=tmp_path, RAG_TOPK="3"), "(environment)", "RAG_TOP_K?", code=2)
    assert_refused(
        call(*ask, cwd=tmp_path, RAGSTONE_TOPK="3"), "(environment)", "RAG_TOP_K?", code=2
    )
    (tmp_path / "ragstone.toml").write_text("[refine]\ntopk = 3\n")
    assert_refused(
        call(*ask, cwd=tmp_path), "'refine.topk' (ragstone.toml)", "refine.top_k?", code=2
    )
    assert not (tmp_path / "data").exists()


def test_a_wrong_value_names_the_setting_the_value_and_what_is_allowed(tmp_path: Path) -> None:
    done = call("ask", "Is it so?", cwd=tmp_path, RAG_TOP_K="0")
    assert_refused(done, "RAG_TOP_K is '0'", "a whole number from 1 to 1000", code=2)
    done = call("ask", "Is it so?", "--method", "magic", cwd=tmp_path)
    assert_refused(done, "'magic'", "semantic, keyword, hybrid", code=2)
    done = call("ask", "Is it so?", "--preset", "wild", cwd=tmp_path)
    assert_refused(done, "'wild'", "minimal, classic, balanced, careful", code=2)


def test_an_unknown_option_or_command_is_a_wrong_command_line(tmp_path: Path) -> None:
    for words in (["ask", "Is it so?", "--nope"], ["nope"], ["ask"]):
        done = call(*words, cwd=tmp_path)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert "--help" in done.stderr or "-h" in done.stderr


@pytest.mark.parametrize(
    "setting", ["LLM_PROVIDER", "RAG_RERANKER_TYPE", "EMBEDDING_PROVIDER", "RAGSTONE_INDEX_KIND"]
)
def test_a_part_that_is_not_installed_is_refused_by_every_server_as_by_ask(
    filled: Path, setting: str
) -> None:
    wrong = {setting: "nobody"}
    asked = call("ask", "Is it so?", "-d", "data", cwd=filled, **wrong)
    assert_refused(asked, "'nobody'", "Installed: ", code=2)
    serve = ["serve", "--port", "0"]
    for words in (serve, [*serve, "--workers", "2"], ["mcp"]):
        done = call(*words, "-d", "data", cwd=filled, **wrong)
        assert (done.returncode, done.stderr) == (asked.returncode, asked.stderr)


def test_no_server_and_no_worker_starts_with_a_splitter_that_is_not_installed(
    filled: Path,
) -> None:
    for words in (["serve", "--port", "0"], ["worker"]):
        done = call(*words, "-d", "data", cwd=filled, RAGSTONE_INGEST_SPLITTER="nobody")
        assert_refused(done, "'nobody'", "sentences", code=2)


def test_a_name_with_a_path_in_it_is_no_collection(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    done = call("ask", "Is it so?", "-d", "data", "-C", "../up", cwd=tmp_path)
    assert_refused(done, "Invalid collection name '../up'")


@pytest.mark.parametrize(
    "words",
    [
        ["ask", "Is it so?"],
        ["search", "Is it so?"],
        ["chat"],
        ["documents"],
        ["documents", "list"],
        ["history"],
        ["reindex"],
        ["reembed"],
        ["mcp"],
        ["eval", "--from-documents"],
        ["tune", "--from-documents"],
        ["compare", "minimal", "balanced"],
    ],
    ids=" ".join,
)
def test_a_mistyped_collection(filled: Path, words: list[str], tmp_path: Path) -> None:
    out = ["--out", str(tmp_path)] if words[0] == "tune" else []
    done = call(*words, *out, "-d", "data", "-C", "defalt", cwd=filled)
    assert_refused(done, "There is no collection 'defalt'.", "Did you mean 'default'?")
    done = call(*words, *out, "-d", "data", "-C", "quite-another", cwd=filled)
    assert_refused(done, "There is no collection 'quite-another'.", "There are: default.")


def test_a_mistyped_collection_of_a_file_of_questions(filled: Path, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "What colour is the gate?", "documents": ["gate.txt"]}\n')
    done = call("eval", questions, "-d", "data", "-C", "defalt", cwd=filled)
    assert_refused(done, "There is no collection 'defalt'.", "Did you mean 'default'?")


def test_a_collection_that_is_not_there_is_made_by_ingest_and_by_nothing_else(
    filled: Path, tmp_path: Path
) -> None:
    shutil.copytree(filled / "docs", tmp_path / "docs")
    assert call("ingest", "docs", "-d", "data", "-C", "wiki", cwd=tmp_path).returncode == 0
    done = call("ask", "What colour is the gate?", "-d", "data", cwd=tmp_path)
    assert_refused(done, "There is no collection 'default'.", "There are: wiki.")
    assert call("ingest", "docs", "-d", "data", cwd=tmp_path).returncode == 0
    done = call("ask", "What colour is the gate?", "-d", "data", cwd=tmp_path)
    assert "green" in done.stdout


def test_a_document_is_not_deleted_where_nobody_can_be_asked(filled: Path) -> None:
    listed = call("documents", "-d", "data", cwd=filled).stdout
    document_id, *_, name, _ = listed.splitlines()[1].split("\t")
    done = call("documents", "delete", document_id, "-d", "data", cwd=filled)
    assert_refused(done, f"'{name}' was not deleted", "--yes")
    assert call("documents", "-d", "data", cwd=filled).stdout == listed


def test_an_option_before_the_subcommand_is_not_ignored(filled: Path) -> None:
    done = call("documents", "--data", "data", "delete", "abc", "--yes", cwd=filled)
    assert done.returncode == 2
    assert "Put --data after 'delete'" in done.stderr


def test_a_mistyped_secret_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[openai]\napi_key = 123456789\n")
    done = call("settings", "--config", "mine.toml", cwd=tmp_path)
    assert_refused(done, "openai.api_key (mine.toml) is a number, not text", "quotation", code=2)
    assert "123456789" not in done.stderr
    done = call("settings", "--set", "LLM_API_KEY:sk-123456789", cwd=tmp_path)
    assert_refused(done, "'--set LLM_API_KEY' has no value", code=2)
    assert "sk-123456789" not in done.stderr


def test_a_variable_that_kubernetes_sets_is_a_warning(tmp_path: Path) -> None:
    address = "tcp://10.0.0.7:8642"
    done = call("settings", cwd=tmp_path, RAGSTONE_PORT=address, RAGSTONE_SERVER_PORT=address)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        f"warning: The variable {name} is ignored: Kubernetes sets it for a Service."
        for name in ("RAGSTONE_PORT", "RAGSTONE_SERVER_PORT")
    ]
    assert "server.port\t8642\tdefault" in done.stdout


def test_an_unknown_id_or_model(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert_refused(call("documents", "show", "nobody", "-d", "data", cwd=tmp_path), "nobody")
    assert_refused(call("documents", "delete", "nobody", "-d", "data", cwd=tmp_path), "nobody")
    assert_refused(call("history", "nobody", "-d", "data", cwd=tmp_path), "nobody")
    assert_refused(call("models", "pull", "nobody", cwd=tmp_path), "nobody", code=2)


@pytest.mark.skipif(os.name != "posix", reason="file names are bytes only on POSIX")
def test_a_file_name_that_is_no_unicode_is_read_all_the_same(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    Path(os.fsdecode(os.fsencode(docs) + b"/caf\xe9.txt")).write_text("The gate is green.")
    done = run("ingest", "docs", "-d", "data", cwd=tmp_path)
    assert "Traceback" not in done.stderr
    assert (done.returncode, "1 added" in done.stdout) == (0, True)


def test_a_file_that_is_no_backup_creates_nothing(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>No archive.</p>")
    done = call("restore", "page.html", "-d", "new", cwd=tmp_path)
    assert_refused(done, "The file 'page.html' is not a backup.", "nothing was changed")
    with tarfile.open(tmp_path / "other.tar", "w") as archive:
        archive.add(tmp_path / "page.html", "page.html")
    done = call("restore", "other.tar", "-d", "new", cwd=tmp_path)
    assert_refused(done, "does not match its checksums", "nothing was changed")
    done = call("restore", "gone.tar", "-d", "new", cwd=tmp_path)
    assert_refused(done, "The backup 'gone.tar' cannot be read: No such file or directory.")
    assert not (tmp_path / "new").exists()


def test_a_backup_into_a_folder_that_is_not_there(filled: Path, tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "x.tar"
    done = call("backup", target, "-d", filled / "data", cwd=tmp_path)
    assert_refused(done, f"There is no folder '{target.parent}' for the backup.")


@pytest.mark.parametrize(
    "words",
    [["create", "bob", "--role", "king"], ["create", "bob", "--expires", "soon"], ["list"]],
    ids=["role", "lifetime", "list"],
)
def test_a_refused_key_leaves_no_catalog(tmp_path: Path, words: list[str]) -> None:
    done = call("keys", *words, "-d", "data", cwd=tmp_path)
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_questions_that_cannot_be_read(filled: Path, tmp_path: Path) -> None:
    ask = ["ask", "-d", filled / "data", "--file"]
    done = call(*ask, "none.txt", cwd=tmp_path)
    assert_refused(done, "The file 'none.txt' cannot be read: No such file or directory.")
    (tmp_path / "latin.txt").write_bytes("Où est le café ?".encode("latin-1"))
    assert_refused(call(*ask, "latin.txt", cwd=tmp_path), "cannot be read: it is not in UTF-8.")
