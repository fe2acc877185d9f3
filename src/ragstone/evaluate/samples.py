"""Files of questions: one JSON object per line, or Ragas' samples (`SingleTurnSample`).

A line of questions and answers: `question`, and any of `answer`/`answers`, `answerable` or
`is_impossible`, `document` (a name or id of the collection), `evidence` (the text that answers),
`passages` (texts that the dataset brings along).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragstone.errors import InputError
from ragstone.evaluate.datasets import Dataset, Given, Passage, Question, Target
from ragstone.evaluate.lines import bad_line, json_lines, text_field, texts_field


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
