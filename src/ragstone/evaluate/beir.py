"""A folder in BEIR layout: corpus.jsonl, queries.jsonl, and qrels.tsv or qrels/test.tsv.

A file qa.jsonl beside them may add the answers, and questions that the documents do not answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ragstone.errors import InputError
from ragstone.evaluate.datasets import Dataset, Passage, Question, Target
from ragstone.evaluate.lines import bad_line, json_lines, text_field, text_lines, texts_field

_JUDGEMENTS = ("qrels.tsv", "qrels/test.tsv", "qrels/dev.tsv", "qrels/train.tsv")


def read_beir(folder: Path) -> Dataset:
    for name in ("corpus.jsonl", "queries.jsonl"):
        if not (folder / name).is_file():
            raise InputError(
                f"The dataset '{folder}' has no {name}.",
                hint="A BEIR folder holds corpus.jsonl, queries.jsonl and qrels.tsv.",
            )
    passages = _passages(folder / "corpus.jsonl")
    asked = _queries(folder / "queries.jsonl")
    targets = _judgements(folder, passages, asked)
    questions = [
        Question(query_id, text, tuple(targets[query_id]))
        for query_id, text in asked.items()
        if query_id in targets
    ]
    answers = folder / "qa.jsonl"
    if answers.is_file():
        questions = _with_answers(answers, questions, passages)
    if not questions:
        raise InputError(
            f"The dataset '{folder}' has no judged question.",
            hint="Its qrels must name ids of queries.jsonl.",
        )
    name = folder.resolve().name
    return Dataset(name, tuple(questions), tuple(passages.values()), str(folder))


def _passages(path: Path) -> dict[str, Passage]:
    found: dict[str, Passage] = {}
    for number, row in json_lines(path):
        identity = text_field(path, number, row, "_id", "id")
        if identity in found:
            raise bad_line(path, number, f"the id '{identity}' is there twice", "Ids are unique.")
        if not isinstance(text := row.get("text"), str):
            raise bad_line(path, number, "the field 'text' is missing", "Give every line a text.")
        title = row.get("title")
        # Some sets have documents without a text: they can be found by their title.
        if not text.strip():
            text, title = str(title or "").strip() or "–", ""
        found[identity] = Passage(identity, text, title if isinstance(title, str) else "")
    if not found:
        raise InputError(f"The file '{path}' is empty.", hint="It must hold the documents.")
    return found


def _queries(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, row in json_lines(path):
        identity = text_field(path, number, row, "_id", "id")
        if identity in found:
            raise bad_line(path, number, f"the id '{identity}' is there twice", "Ids are unique.")
        found[identity] = " ".join(text_field(path, number, row, "text").split())
    return found


def _judgements(
    folder: Path, passages: Mapping[str, Passage], asked: Mapping[str, str]
) -> dict[str, list[Target]]:
    path = next((folder / name for name in _JUDGEMENTS if (folder / name).is_file()), None)
    if path is None:
        raise InputError(
            f"The dataset '{folder}' has no qrels.tsv.",
            hint="It says which documents answer which question: query-id, corpus-id, score.",
        )
    found: dict[str, list[Target]] = {}
    for number, line in text_lines(path):
        cells = line.split("\t") if "\t" in line else line.split()
        if number == 1 and cells[0].strip() not in asked and not _is_whole(cells[-1]):
            continue  # the header
        query_id, document_id, grade = _judgement(path, number, cells)
        if query_id not in asked:
            raise bad_line(
                path, number, f"there is no question '{query_id}' in queries.jsonl",
                "Add the question, or remove the line.",
            )  # fmt: skip
        if document_id not in passages:
            raise bad_line(
                path, number, f"there is no document '{document_id}' in corpus.jsonl",
                "Add the document, or remove the line.",
            )  # fmt: skip
        if grade > 0:
            target = Target(document_id, grade, document=document_id)
            found.setdefault(query_id, []).append(target)
    return found


def _judgement(path: Path, number: int, cells: list[str]) -> tuple[str, str, int]:
    """query, document, score; TREC's own files have one column more."""
    if len(cells) == 4:
        del cells[1]
    if len(cells) != 3:
        raise bad_line(
            path, number, f"it has {len(cells)} columns, not 3",
            "Write query-id, corpus-id and score with tabs between them.",
        )  # fmt: skip
    if not _is_whole(cells[2]):
        raise bad_line(
            path, number, f"the score '{cells[2]}' is no whole number", "Use 0, 1, 2 and so on."
        )
    return cells[0].strip(), cells[1].strip(), int(cells[2])


def _is_whole(cell: str) -> bool:
    return re.fullmatch(r"\s*-?[0-9]+\s*", cell) is not None


def _with_answers(
    path: Path, questions: list[Question], passages: Mapping[str, Passage]
) -> list[Question]:
    """The questions with their answers, and those that have none as unanswerable."""
    known = {question.id: question for question in questions}
    for number, row in json_lines(path):
        if not isinstance(row.get("question"), str):
            return list(known.values())  # another file of that name: nothing to add
        text = " ".join(row["question"].split())
        identity = str(row.get("id") or row.get("_id") or f"{path.name}:{number}")
        answers = texts_field(path, number, row, "answers") or texts_field(
            path, number, row, "answer"
        )
        impossible = row.get("is_impossible") is True or row.get("answerable") is False
        if impossible:
            known[identity] = Question(identity, text, answerable=False)
        elif identity in known:
            before = known[identity]
            known[identity] = Question(
                identity, before.text, before.targets, answers, answerable=True
            )
    return list(known.values())
