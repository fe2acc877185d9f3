"""Parse dataset files: a folder in BEIR layout, questions with answers, or Ragas samples.

A BEIR folder holds corpus.jsonl, queries.jsonl, and qrels.tsv or qrels/test.tsv. A file qa.jsonl
beside them may add answers, and questions that the documents do not answer.
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
    GivenAnswer,
    Passage,
    Question,
    Target,
    line_error,
    read_json_lines,
    read_lines,
    read_text,
    read_texts,
)

_JUDGEMENT_FILES = ("qrels.tsv", "qrels/test.tsv", "qrels/dev.tsv", "qrels/train.tsv")


def read_beir(folder: Path) -> Dataset:
    for name in ("corpus.jsonl", "queries.jsonl"):
        if not (folder / name).is_file():
            raise InputError(
                f"The dataset '{folder}' has no {name}.",
                hint="A BEIR folder holds corpus.jsonl, queries.jsonl and qrels.tsv.",
            )
    passages = _read_passages(folder / "corpus.jsonl")
    queries = _read_queries(folder / "queries.jsonl")
    targets = _read_judgements(folder, passages, queries)
    questions = [
        Question(query_id, text, tuple(targets[query_id]))
        for query_id, text in queries.items()
        if query_id in targets
    ]
    answers = folder / "qa.jsonl"
    if answers.is_file():
        questions = _add_answers(answers, questions)
    if not questions:
        raise InputError(
            f"The dataset '{folder}' has no judged question.",
            hint="The qrels must use ids of queries.jsonl.",
        )
    name = folder.resolve().name
    return Dataset(name, tuple(questions), tuple(passages.values()), str(folder))


def _read_passages(path: Path) -> dict[str, Passage]:
    found: dict[str, Passage] = {}
    for number, row in read_json_lines(path):
        identity = read_text(path, number, row, "_id", "id")
        if identity in found:
            raise _duplicate_id(path, number, identity)
        if not isinstance(text := row.get("text"), str):
            raise line_error(path, number, "the field 'text' is missing", "Give every line a text.")
        title = row.get("title")
        # Some datasets have documents without a text: a search can find their title.
        if not text.strip():
            text, title = str(title or "").strip() or "–", ""
        found[identity] = Passage(identity, text, title if isinstance(title, str) else "")
    if not found:
        raise InputError(f"The file '{path}' is empty.", hint="It must contain the documents.")
    return found


def _duplicate_id(path: Path, number: int, identity: str) -> InputError:
    return line_error(path, number, f"duplicate id '{identity}'", "Give each entry its own id.")


def _read_queries(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, row in read_json_lines(path):
        identity = read_text(path, number, row, "_id", "id")
        if identity in found:
            raise _duplicate_id(path, number, identity)
        found[identity] = " ".join(read_text(path, number, row, "text").split())
    return found


def _read_judgements(
    folder: Path, passages: Mapping[str, Passage], queries: Mapping[str, str]
) -> dict[str, list[Target]]:
    path = next((folder / name for name in _JUDGEMENT_FILES if (folder / name).is_file()), None)
    if path is None:
        raise InputError(
            f"The dataset '{folder}' has no qrels.tsv.",
            hint="It lists the relevant documents of each question: query-id, corpus-id, score.",
        )
    found: dict[str, list[Target]] = {}
    for number, line in read_lines(path):
        cells = line.split("\t") if "\t" in line else line.split()
        if number == 1 and cells[0].strip() not in queries and not _is_whole(cells[-1]):
            continue  # the header
        query_id, document_id, grade = _parse_judgement(path, number, cells)
        if query_id not in queries:
            problem = f"there is no question '{query_id}' in queries.jsonl"
            raise line_error(path, number, problem, "Add the question, or remove the line.")
        if document_id not in passages:
            problem = f"there is no document '{document_id}' in corpus.jsonl"
            raise line_error(path, number, problem, "Add the document, or remove the line.")
        if grade > 0:
            target = Target(document_id, grade, document=document_id)
            found.setdefault(query_id, []).append(target)
    return found


def _parse_judgement(path: Path, number: int, cells: list[str]) -> tuple[str, str, int]:
    """Return query, document and score. TREC's own files have a second column to skip."""
    if len(cells) == 4:
        del cells[1]
    if len(cells) != 3:
        hint = "Write query-id, corpus-id and score with tabs between them."
        raise line_error(path, number, f"{len(cells)} columns, expected 3", hint)
    if not _is_whole(cells[2]):
        problem = f"the score '{cells[2]}' is not a whole number"
        raise line_error(path, number, problem, "Use 0, 1, 2 and so on.")
    return cells[0].strip(), cells[1].strip(), int(cells[2])


def _is_whole(cell: str) -> bool:
    return re.fullmatch(r"\s*-?[0-9]+\s*", cell) is not None


def _add_answers(path: Path, questions: list[Question]) -> list[Question]:
    """Add the answers to the questions, and the unanswerable questions of the file."""
    known = {question.id: question for question in questions}
    for number, row in read_json_lines(path):
        if not isinstance(row.get("question"), str):
            return list(known.values())  # a file of another format
        text = " ".join(row["question"].split())
        identity = str(row.get("id") or row.get("_id") or f"{path.name}:{number}")
        answers = _read_either(path, number, row, "answers", "answer")
        if _is_unanswerable(row):
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
    for number, row in _read_rows(path):
        read = _read_ragas_sample if "user_input" in row else _read_question
        question = read(path, number, row, passages)
        if question.id in questions:
            raise _duplicate_id(path, number, question.id)
        questions[question.id] = question
    if not questions:
        raise InputError(
            f"The file '{path}' has no questions.", hint="Write one JSON object per line."
        )
    return Dataset(path.stem, tuple(questions.values()), tuple(passages.values()), str(path))


def _read_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the numbered objects of a file with one per line, or with one JSON list."""
    if path.suffix != ".json":
        yield from read_json_lines(path)
        return
    try:
        whole = json.loads(path.read_text("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"The file '{path}' is not UTF-8.", hint="Save it in UTF-8.") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}: invalid JSON ({error.msg}).", hint="Correct the JSON."
        ) from error
    listed = whole.get("samples", [whole]) if isinstance(whole, dict) else whole
    for number, row in enumerate(listed if isinstance(listed, list) else [listed], start=1):
        if not isinstance(row, dict):
            raise line_error(path, number, "not a JSON object", "Write a list of objects.")
        yield number, row


def _read_question(
    path: Path, number: int, row: Mapping[str, Any], passages: dict[str, Passage]
) -> Question:
    text = " ".join(read_text(path, number, row, "question", "query", "input").split())
    identity = str(row.get("id") or row.get("_id") or number)
    answers = _read_either(path, number, row, "answers", "answer") or _read_outputs(row)
    # CLAPnq marks an unanswerable question with an output that has no answer.
    unanswerable = _is_unanswerable(row) or (bool(row.get("output")) and not answers)
    documents = _read_either(path, number, row, "documents", "document")
    evidence = _read_either(path, number, row, "evidence", "contexts")
    targets = _build_targets(documents, evidence)
    if own := _collect_passages(path, number, row, passages):
        targets = tuple(Target(one, document=one) for one in own)
    known = True if answers or targets else None
    return Question(
        identity,
        text,
        () if unanswerable else targets,
        answers,
        answerable=False if unanswerable else known,
        line=number,
    )


def _read_either(
    path: Path, number: int, row: Mapping[str, Any], first: str, second: str
) -> tuple[str, ...]:
    return read_texts(path, number, row, first) or read_texts(path, number, row, second)


def _is_unanswerable(row: Mapping[str, Any]) -> bool:
    return row.get("is_impossible") is True or row.get("answerable") is False


def _build_targets(documents: tuple[str, ...], evidence: tuple[str, ...]) -> tuple[Target, ...]:
    if len(documents) == 1 and evidence:
        return tuple(
            Target(f"{documents[0]}#{at}", document=documents[0], text=text)
            for at, text in enumerate(evidence)
        )
    if documents:
        return tuple(Target(one, document=one) for one in documents)
    return tuple(Target(f"evidence {at}", text=text) for at, text in enumerate(evidence, 1))


def _read_outputs(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Read the answers in `output`, where CLAPnq and KILT have them."""
    answers = [one.get("answer") for one in row.get("output") or () if isinstance(one, dict)]
    return tuple(one for one in answers if isinstance(one, str) and one.strip())


def _collect_passages(
    path: Path, number: int, row: Mapping[str, Any], passages: dict[str, Passage]
) -> list[str]:
    listed = row.get("passages") or []
    found = []
    for one in listed if isinstance(listed, list) else [listed]:
        title = str(one.get("title") or "") if isinstance(one, dict) else ""
        text = one.get("text") if isinstance(one, dict) else one
        if not isinstance(text, str) or not text.strip():
            raise line_error(path, number, "a passage has no text", "Give every passage a text.")
        found.append(_add_passage(passages, text, title))
    return found


def _add_passage(passages: dict[str, Passage], text: str, title: str = "") -> str:
    """Store a passage under the hash of its text, so that it is there only once; return the id."""
    identity = f"p{hashlib.sha256(f'{title}{text}'.encode()).hexdigest()[:12]}"
    passages.setdefault(identity, Passage(identity, text, title))
    return identity


def _read_ragas_sample(
    path: Path, number: int, row: Mapping[str, Any], passages: dict[str, Passage]
) -> Question:
    """Read a `SingleTurnSample`. A response is measured unchanged; without one, we ask."""
    text = " ".join(read_text(path, number, row, "user_input").split())
    contexts = read_texts(path, number, row, "reference_contexts")
    context_ids = read_texts(path, number, row, "reference_context_ids")
    seen = read_texts(path, number, row, "retrieved_contexts")
    seen_ids = read_texts(path, number, row, "retrieved_context_ids")
    response = row.get("response")
    given = GivenAnswer(response, seen, seen_ids) if isinstance(response, str) else None
    if context_ids:
        targets = tuple(Target(one, document=one) for one in context_ids)
    elif given is not None:
        targets = tuple(Target(f"reference {at}", text=one) for at, one in enumerate(contexts, 1))
    else:  # the contexts of the file are the documents to search
        ids = [_add_passage(passages, context) for context in contexts]
        targets = tuple(Target(one, document=one) for one in ids)
        for one in seen:
            _add_passage(passages, one)
    answers = read_texts(path, number, row, "reference")
    return Question(
        str(row.get("id") or number),
        text,
        targets,
        answers,
        answerable=True if answers or targets else None,
        given_answer=given,
        line=number,
    )
