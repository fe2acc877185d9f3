"""`ragstone search` from finding to saying why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .run import call

pytestmark = pytest.mark.slow


def filled(folder: Path) -> None:
    (folder / "lease.txt").write_text("The notice period of the lease is three months.")
    (folder / "cafe.txt").write_text("The café sells soup on weekdays.")
    assert (
        call(
            "ingest", folder / "lease.txt", folder / "cafe.txt", "-d", folder / "data", cwd=folder
        ).returncode
        == 0
    )


def test_search_finds_filters_explains_and_says_why_not(tmp_path: Path) -> None:
    filled(tmp_path)
    question, data = "How long is the notice period?", tmp_path / "data"
    hits = json.loads(call("search", question, "--json", "-d", data, cwd=tmp_path).stdout)
    assert hits[0]["document_name"] == "lease.txt"
    assert hits[0]["scores"]["keyword_rank"] == 1
    only = call(
        "search", question, "-f", "document_name=cafe.txt", "--json", "-d", data, cwd=tmp_path
    )
    assert [hit["document_name"] for hit in json.loads(only.stdout)] == ["cafe.txt"]
    explained = call("search", question, "--explain", "-d", data, cwd=tmp_path).stdout
    assert hits[0]["chunk_id"] in explained
    assert "refine.select" in explained
    why = call("search", question, "--why-not", hits[0]["chunk_id"], "-d", data, cwd=tmp_path)
    assert "Returned, rank 1." in why.stdout
    asked = json.loads(call("ask", question, "--json", "-d", data, cwd=tmp_path).stdout)
    no_index = hits[0]["chunk_id"].partition(":")[0]
    lost = call("search", question, "--why-not", no_index, "-d", data, cwd=tmp_path)
    assert "A chunk's id is DOCUMENT:INDEX" in lost.stderr
    past = ("history", asked["query_id"], "--why-not", hits[0]["chunk_id"], "-d", data)
    assert "Read for the answer, as source 1." in call(*past, cwd=tmp_path).stdout
    assert "cannot be combined" in call(*past, "--delete", cwd=tmp_path).stderr
    assert call("history", asked["query_id"], "-d", data, cwd=tmp_path).returncode == 0
    unnamed = call("history", "--why-not", hits[0]["chunk_id"], "-d", data, cwd=tmp_path)
    assert "needs the id of a query" in unnamed.stderr
    wrong = call("search", question, "-f", "nonsense", "-d", data, cwd=tmp_path)
    assert wrong.returncode == 1
    assert "has no comparison" in wrong.stderr


def test_a_search_without_hits_says_so(tmp_path: Path) -> None:
    filled(tmp_path)
    for words in (["--filter", "nofield=1"], ["--method", "keyword"]):
        done = call("search", "xylophone", *words, "-d", "data", cwd=tmp_path)
        assert done.returncode == 0
        assert done.stdout == "No passage found.\n"
    done = call("search", "xylophone", "--method", "keyword", "--json", "-d", "data", cwd=tmp_path)
    assert json.loads(done.stdout) == []
