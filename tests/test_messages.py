"""Messages in other languages: complete catalogues, whole sentences, every way that shows them."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

import ragstone
from ragstone.cli.pace import Pace
from ragstone.engine import Engine
from ragstone.ingest.embed import explain_unread_languages
from ragstone.messages import (
    LANGUAGES,
    choose_language,
    find_language_code,
    translate,
    translate_outcome,
)
from ragstone.reports import IngestedFile
from ragstone.testing import HashEmbedder

from .cli.run import call
from .conftest import settings_in

SOURCE = Path(ragstone.__file__).parent
CATALOGUES = {path.stem: tomllib.loads(path.read_text("utf-8"))
              for path in sorted((SOURCE / "messages").glob("*.toml"))}  # fmt: skip


def read_texts() -> set[str]:
    """Every text of the source, with `{}` for the values of an f-string."""
    texts: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = [
                    one.value if isinstance(one, ast.Constant) else "{}" for one in node.values
                ]
                texts.add("".join(map(str, parts)))
    return texts


def test_a_catalogue_holds_only_texts_of_the_source() -> None:
    known = " \n ".join(read_texts())
    outcomes = {f"{{}} {one}" for one in ("added", "updated", "unchanged", "removed", "failed")}
    for code, catalogue in CATALOGUES.items():
        gone = [one for one in catalogue if one not in known and one not in outcomes]
        assert not gone, f"{code}: {gone}"


def test_german_and_chinese_have_the_same_texts() -> None:
    assert set(CATALOGUES["de"]) == set(CATALOGUES["zh"])
    assert set(LANGUAGES) == {"en", "de", "zh"}


@pytest.mark.parametrize("code", CATALOGUES)
def test_a_translation_has_the_values_of_its_text(code: str) -> None:
    for text, translated in CATALOGUES[code].items():
        assert len(re.findall(r"{\d?}", translated)) == text.count("{}"), text


def test_a_finished_sentence_is_recognised_with_its_values() -> None:
    said = "The collection 'a' was embedded with 'b', not with 'c'."
    assert translate(said, "de") == "Die Sammlung „a“ wurde mit „b“ eingebettet, nicht mit „c“."
    assert translate("There is no collection 'x'.", "zh") == "集合“x”不存在。"
    assert translate("Nobody wrote this sentence.", "de") == "Nobody wrote this sentence."
    assert translate(said, "en") == said


def test_the_outcome_of_a_file_keeps_its_other_fields() -> None:
    outcome = {"name": "a.txt", "error": "The file is empty.", "hint": None, "done": 1}
    told = {"name": "a.txt", "error": "Die Datei ist leer.", "hint": "", "done": 1}
    assert translate_outcome(outcome, "de") == told
    assert translate_outcome({"error": None}, "de") == {"error": None, "hint": ""}


@pytest.mark.parametrize(
    ("wanted", "code"),
    [("de-CH,en;q=0.8", "de"), ("fr,zh-CN;q=0.5", "zh"), ("de_DE.UTF-8", "de"), ("C", "en")],
)
def test_the_first_language_with_a_catalogue_is_chosen(wanted: str, code: str) -> None:
    assert choose_language(wanted) == code


def test_the_command_line_speaks_the_language_of_the_terminal(tmp_path: Path) -> None:
    done = call("ingest", "no.txt", cwd=tmp_path, LANG="de_DE.UTF-8")
    assert done.stderr == (
        "Fehler: Es gibt keine Datei und keinen Ordner „no.txt“.\n"
        "Hinweis: Prüfen Sie die Schreibweise des Pfads.\n"
    )
    done = call("ingest", "no.txt", cwd=tmp_path, LANG="de_DE.UTF-8", RAGSTONE_LANGUAGE="en")
    assert done.stderr.startswith("error: There is no file or folder")


@pytest.mark.parametrize(
    ("question", "begins"),
    [
        ("Wie hoch ist der Eiffelturm in Paris?", "Die Dokumente beantworten das vielleicht nicht"),
        ("Quelle est la hauteur de la tour Eiffel ?", "Les documents ne répondent peut-être pas"),
        ("埃菲尔铁塔有多高？", "文档可能没有回答"),
        ("How high is the Eiffel tower?", "The documents may not answer this."),
    ],
)
async def test_a_doubt_is_in_the_language_of_the_question(
    tmp_path: Path, question: str, begins: str
) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green.", "utf-8")
    async with Engine(settings_in(tmp_path / "data")) as engine:
        await engine.ingest([tmp_path / "gate.txt"])
        answer = await engine.ask(question)
        assert answer.status == "near"
        assert answer.text.startswith(begins)


def test_every_language_of_the_answers_has_a_catalogue() -> None:
    names = ("german", "french", "spanish", "italian", "portuguese", "dutch", "chinese")
    assert {find_language_code(name) for name in names} == set(CATALOGUES)
    assert find_language_code(None) == "en"


@pytest.mark.parametrize("code", ["de", "zh"])
def test_the_hint_about_unread_languages_is_translated(code: str) -> None:
    for read in (frozenset({"english"}), frozenset({"english", "french"})):
        embedder = _Reader(read)
        hint = explain_unread_languages({"de": 2}, embedder)
        assert hint.startswith("Most of these documents")
        told = translate(hint, code)
        assert "Most" not in told
        assert embedder.name in told
        assert ("reindex" in told) == (len(read) == 1)


class _Reader(HashEmbedder):
    def __init__(self, languages: frozenset[str]) -> None:
        super().__init__()
        self.languages = languages


def test_one_file_is_singular(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The gate is green.")
    for language, said in (("de", "1 Datei:"), ("en", "1 file:")):
        settings = {"LANG": language, "RAGSTONE_LANGUAGE": language}
        done = call("ingest", "a.txt", "--data", "d", "--again", cwd=tmp_path, **settings)
        assert said in done.stdout


def test_a_line_of_progress_does_not_contradict_itself() -> None:
    pace = Pace()
    pace.count(IngestedFile("a.txt", "added", chunk_count=1), 0, 4)
    assert pace.format_line().startswith("file 1 of 4 · 1 document, ")
    pace.count(IngestedFile("b.txt", "added", chunk_count=1), 4, 4)
    assert pace.format_line().startswith("file 4 of 4 · 2 documents, ")
