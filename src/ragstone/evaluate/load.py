"""A folder in BEIR layout: corpus.jsonl, queries.jsonl, and qrels.tsv or qrels/test.tsv.

A file qa.jsonl beside them may add the answers, and questions that the documents do not answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragstone.errors import InputError
from ragstone.evaluate.datasets import (
    Dataset,
    Given,
    Passage,
    Question,
    Target,
    bad_line,
    json_lines,
    text_field,
    text_lines,
    texts_field,
)

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


def read_samples(path: Path) -> Dataset:
    questions: dict[str, Question] = {}
    passages: dict[str, Passage] = {}
    for number, row in _rows(path):
        read = _ragas if "user_input" in row else _qa
        question = read(path, number, row, passages)
        if question.id in questions:
            raise bad_line(
                path, number, f"the id '{question.id}' is there twice", "Ids are unique."
            )
        questions[question.id] = question
    if not questions:
        raise InputError(f"The file '{path}' holds no question.", hint="Write one JSON per line.")
    return Dataset(path.stem, tuple(questions.values()), tuple(passages.values()), str(path))


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The objects of a file of lines, or of one JSON list; there the number counts objects."""
    if path.suffix != ".json":
        yield from json_lines(path)
        return
    try:
        whole = json.loads(path.read_text("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"The file '{path}' is not UTF-8.", hint="Save it in UTF-8.") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}: it is no JSON ({error.msg}).", hint="Mend it."
        ) from error
    listed = whole.get("samples", [whole]) if isinstance(whole, dict) else whole
    for number, row in enumerate(listed if isinstance(listed, list) else [listed], start=1):
        if not isinstance(row, dict):
            raise InputError(
                f"{path}, entry {number}: it is no JSON object.", hint="List the samples."
            )
        yield number, row


def _qa(path: Path, number: int, row: Mapping[str, Any], passages: dict[str, Passage]) -> Question:
    text = " ".join(text_field(path, number, row, "question", "query", "input").split())
    identity = str(row.get("id") or row.get("_id") or number)
    answers = texts_field(path, number, row, "answers") or texts_field(path, number, row, "answer")
    answers = answers or _outputs(row)
    denied = row.get("answerable") is False or row.get("is_impossible") is True
    denied = denied or (bool(row.get("output")) and not answers)  # CLAPnq's way to say so
    documents = texts_field(path, number, row, "documents") or texts_field(
        path, number, row, "document"
    )
    evidence = texts_field(path, number, row, "evidence") or texts_field(
        path, number, row, "contexts"
    )
    targets = _targets(documents, evidence)
    if own := _own_passages(path, number, row, passages):
        targets = tuple(Target(one, document=one) for one in own)
    return Question(
        identity, text, () if denied else targets, answers,
        answerable=False if denied else True if answers or targets else None, line=number,
    )  # fmt: skip


def _targets(documents: tuple[str, ...], evidence: tuple[str, ...]) -> tuple[Target, ...]:
    if len(documents) == 1 and evidence:
        return tuple(
            Target(f"{documents[0]}#{at}", document=documents[0], text=text)
            for at, text in enumerate(evidence)
        )
    if documents:
        return tuple(Target(one, document=one) for one in documents)
    return tuple(Target(f"evidence {at}", text=text) for at, text in enumerate(evidence, 1))


def _outputs(row: Mapping[str, Any]) -> tuple[str, ...]:
    """CLAPnq and KILT keep their answers in `output`."""
    listed = row.get("output")
    found = [one.get("answer") for one in listed or () if isinstance(one, dict)]
    return tuple(one for one in found if isinstance(one, str) and one.strip())


def _own_passages(
    path: Path, number: int, row: Mapping[str, Any], passages: dict[str, Passage]
) -> list[str]:
    listed = row.get("passages") or []
    found = []
    for one in listed if isinstance(listed, list) else [listed]:
        title = str(one.get("title") or "") if isinstance(one, dict) else ""
        text = one.get("text") if isinstance(one, dict) else one
        if not isinstance(text, str) or not text.strip():
            raise bad_line(path, number, "a passage has no text", "Give every passage a text.")
        found.append(_kept(passages, text, title))
    return found


def _kept(passages: dict[str, Passage], text: str, title: str = "") -> str:
    """The id of a passage among those kept: its text's own, so that it is there only once."""
    identity = f"p{hashlib.sha256(f'{title}{text}'.encode()).hexdigest()[:12]}"
    passages.setdefault(identity, Passage(identity, text, title))
    return identity


def _ragas(
    path: Path, number: int, row: Mapping[str, Any], passages: dict[str, Passage]
) -> Question:
    """A `SingleTurnSample`. One with a response is judged as it stands, else it is asked."""
    text = " ".join(text_field(path, number, row, "user_input").split())
    wanted = texts_field(path, number, row, "reference_contexts")
    wanted_ids = texts_field(path, number, row, "reference_context_ids")
    seen = texts_field(path, number, row, "retrieved_contexts")
    seen_ids = texts_field(path, number, row, "retrieved_context_ids")
    response = row.get("response")
    given = Given(response, seen, seen_ids) if isinstance(response, str) else None
    if wanted_ids:
        targets = tuple(Target(one, document=one) for one in wanted_ids)
    elif given is not None:
        targets = tuple(Target(f"reference {at}", text=one) for at, one in enumerate(wanted, 1))
    else:  # the contexts of the file are the documents that the question is asked of
        targets = tuple(Target(one, document=one) for one in (_kept(passages, t) for t in wanted))
        for one in seen:
            _kept(passages, one)
    answers = texts_field(path, number, row, "reference")
    return Question(
        str(row.get("id") or number), text, targets, answers,
        answerable=True if answers or targets else None, given=given, line=number,
    )  # fmt: skip
