"""Read datasets: questions with their known answers, and the documents to search.

A path in → a `Dataset` out, whatever the format: a folder in BEIR layout, a file of questions and
answers, or a file of Ragas samples. Errors name the file and the line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ragstone.errors import InputError


def line_error(path: Path, number: int, problem: str, hint: str) -> InputError:
    """Build an error about a line; a JSON file has numbered entries in place of lines."""
    unit = "entry" if path.suffix == ".json" else "line"
    return InputError(f"{path}, {unit} {number}: {problem}.", hint=hint)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers from 1. Blank lines are allowed only at the end."""
    blank = 0
    for number, raw in enumerate(_read_bytes(path).split(b"\n"), start=1):
        try:
            line = raw.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            problem = f"the byte 0x{raw[error.start]:02x} is not UTF-8"
            raise line_error(path, number, problem, "Save the file in UTF-8.") from error
        if not line.strip():
            blank = blank or number
            continue
        if blank:
            raise line_error(path, blank, "the line is empty", "Remove the line.")
        yield number, line


def _read_bytes(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"The file '{path}' cannot be read: {error.strerror}.",
            hint="Check the path and the permissions.",
        ) from error
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise line_error(path, 1, "the file is UTF-16", "Save the file in UTF-8.")
    return content.removeprefix(b"\xef\xbb\xbf")


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON object of each line with its number."""
    for number, line in read_lines(path):
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            problem = f"invalid JSON ({error.msg}, column {error.colno})"
            raise line_error(path, number, problem, "Write one JSON object per line.") from error
        except RecursionError as error:
            hint = "Write a flat JSON object."
            raise line_error(path, number, "the JSON is nested too deeply", hint) from error
        if not isinstance(value, dict):
            hint = 'Write one JSON object per line: {"…": …}.'
            raise line_error(path, number, "not a JSON object", hint)
        yield number, value


def read_text(path: Path, number: int, row: Mapping[str, Any], *names: str) -> str:
    """Return the first of the named fields that is set; it must be a text that is not empty."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value)
        if value is not None:
            problem = f"the field '{name}' is not a text"
            raise line_error(path, number, problem, "Give it a text or an id.")
    hint = f"The fields are: {', '.join(map(str, row)) or 'none'}."
    raise line_error(path, number, f"the field '{names[0]}' is missing", hint)


def read_texts(path: Path, number: int, row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return a text or a list of texts as a tuple; empty if the field is missing or null."""
    value = row.get(name)
    listed = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(one, str | int) for one in listed):
        problem = f"the field '{name}' is not a list of texts"
        raise line_error(path, number, problem, 'Write ["…", "…"].')
    return tuple(str(one) for one in listed if str(one).strip())


Half: TypeAlias = Literal["tune", "report"]


@dataclass(frozen=True, slots=True)
class Passage:
    """A document of the dataset itself."""

    id: str
    text: str
    title: str = ""

    @property
    def contextual_text(self) -> str:
        """The text as it is embedded and indexed: title, then text."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class Target:
    """The thing a search should find: a document, a text, or a text in a document."""

    label: str
    grade: int = 1
    document: str = ""
    """Id or name of the document; empty if the text may be in any."""
    text: str = ""
    """The evidence; empty if any part of the document will do."""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """Hits and answer of another system, to be measured unchanged."""

    response: str
    contexts: tuple[str, ...] = ()
    context_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A question and everything known about its answer."""

    id: str
    text: str
    targets: tuple[Target, ...] = ()
    answers: tuple[str, ...] = ()
    answerable: bool | None = None
    """False: the documents have no answer, and to abstain is right. None: not known."""
    hidden_documents: tuple[str, ...] = ()
    """Names of documents that the search must leave out."""
    given_answer: GivenAnswer | None = None
    line: int = field(default=0, compare=False, repr=False)
    """Line in its file, for error messages."""

    @property
    def grades(self) -> dict[str, int]:
        return {target.label: target.grade for target in self.targets if target.grade > 0}


@dataclass(frozen=True)
class Dataset:
    """Questions, and the documents to search; without documents, the user's own collection."""

    name: str
    questions: tuple[Question, ...]
    passages: tuple[Passage, ...] = ()
    origin: str = field(default="", compare=False)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of questions and documents, whatever file they come from."""
        digest = hashlib.sha256()
        for passage in self.passages:
            digest.update(f"{passage.id}\0{passage.title}\0{passage.text}\1".encode())
        for question in self.questions:
            digest.update(repr(question).encode())
        return digest.hexdigest()[:12]

    @property
    def has_targets(self) -> bool:
        return any(question.targets for question in self.questions)

    @property
    def has_answers(self) -> bool:
        return any(one.answers or one.answerable is False for one in self.questions)

    def take_sample(self, max_questions: int | None) -> Dataset:
        """Take an even sample: the first questions in the order of the hashes of their ids."""
        if max_questions is None or max_questions >= len(self.questions):
            return self
        chosen = sorted(self.questions, key=lambda one: hash_text(one.id))[:max_questions]
        return replace(self, questions=tuple(chosen))

    def take_half(self, which: Half) -> Dataset:
        """Take one half of the questions. The hash of the id decides, so halves never change."""
        remainder = 0 if which == "tune" else 1
        chosen = [one for one in self.questions if hash_text(one.id) % 2 == remainder]
        return replace(self, questions=tuple(chosen))


def hash_text(text: str) -> int:
    """Return a number that is the same in every process, unlike `hash`."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def load_dataset(path: Path) -> Dataset:
    """Read a dataset in any of the known formats."""
    from ragstone.evaluate.load import read_beir, read_samples

    if path.is_dir():
        return read_beir(path)
    if path.is_file():
        return read_samples(path)
    raise InputError(
        f"There is no dataset '{path}'.",
        hint="Name a folder with corpus.jsonl, queries.jsonl and qrels.tsv, or a .jsonl file.",
    )
