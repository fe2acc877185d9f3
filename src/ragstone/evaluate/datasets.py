"""Questions with what is known of their answers, and the documents that they are asked of.

A path in → a `Dataset` out, whatever the format: a folder in BEIR layout, a file of questions and
answers, or a file of Ragas samples. What is wrong with a file is said with its name and line.
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


def bad_line(path: Path, number: int, what: str, hint: str) -> InputError:
    unit = "entry" if path.suffix == ".json" else "line"  # there objects are counted
    return InputError(f"{path}, {unit} {number}: {what}.", hint=hint)


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines with their numbers from 1. Blank ones may stand at the end and nowhere else."""
    blank = 0
    for number, raw in enumerate(_content(path).split(b"\n"), start=1):
        try:
            line = raw.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            raise bad_line(
                path, number, f"the byte 0x{raw[error.start]:02x} is not UTF-8",
                "Save the file in UTF-8.",
            ) from error  # fmt: skip
        if not line.strip():
            blank = blank or number
            continue
        if blank:
            raise bad_line(path, blank, "it is empty", "Remove the line, or fill it.")
        yield number, line


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"The file '{path}' cannot be read: {error.strerror}.", hint="Check its name."
        ) from error
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise bad_line(path, 1, "the file is in UTF-16", "Save the file in UTF-8.")
    return content.removeprefix(b"\xef\xbb\xbf")


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """One JSON object per line."""
    for number, line in text_lines(path):
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise bad_line(
                path, number, f"it is no JSON ({error.msg}, column {error.colno})",
                "Every line must be one JSON object.",
            ) from error  # fmt: skip
        except RecursionError as error:
            raise bad_line(path, number, "it is nested too deeply", "Write it flat.") from error
        if not isinstance(value, dict):
            raise bad_line(
                path, number, "it is no JSON object", 'Every line must look like {"…": …}.'
            )
        yield number, value


def text_field(path: Path, number: int, row: Mapping[str, Any], *names: str) -> str:
    """The first of the named fields, which must be a text that is not empty."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value)
        if value is not None:
            raise bad_line(
                path, number, f"the field '{name}' holds no text", "Give it a text, or an id."
            )
    raise bad_line(
        path, number, f"the field '{names[0]}' is missing",
        f"It has: {', '.join(map(str, row)) or 'nothing'}.",
    )  # fmt: skip


def texts_field(path: Path, number: int, row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A text or a list of texts; nothing when the field is missing or null."""
    value = row.get(name)
    listed = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(one, str | int) for one in listed):
        raise bad_line(path, number, f"the field '{name}' is no list of texts", 'Write ["…", "…"].')
    return tuple(str(one) for one in listed if str(one).strip())


Half: TypeAlias = Literal["tune", "report"]


@dataclass(frozen=True, slots=True)
class Passage:
    """A document that a dataset brings along."""

    id: str
    text: str
    title: str = ""

    @property
    def contextual_text(self) -> str:
        """As it is embedded and indexed: its title as a heading, then its text."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class Target:
    """What a search should find: a document, a text, or a text in a document."""

    label: str
    grade: int = 1
    document: str = ""
    """Its id or name; empty when the text may stand anywhere."""
    text: str = ""
    """The evidence itself; empty when any part of the document will do."""


@dataclass(frozen=True, slots=True)
class Given:
    """What another system found and answered, to be judged as it stands."""

    response: str
    contexts: tuple[str, ...] = ()
    context_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """One question and everything that is known of its answer."""

    id: str
    text: str
    targets: tuple[Target, ...] = ()
    answers: tuple[str, ...] = ()
    answerable: bool | None = None
    """False: the documents do not hold the answer, and saying so is right. None: not known."""
    without: tuple[str, ...] = ()
    """Names of documents that this question must not see."""
    given: Given | None = None
    line: int = field(default=0, compare=False, repr=False)
    """Where it stands in its file, for sentences about it; no part of what it is."""

    @property
    def grades(self) -> dict[str, int]:
        return {target.label: target.grade for target in self.targets if target.grade > 0}


@dataclass(frozen=True)
class Dataset:
    """Questions, and the documents they are asked of; without any, the user's own collection."""

    name: str
    questions: tuple[Question, ...]
    passages: tuple[Passage, ...] = ()
    origin: str = field(default="", compare=False)

    @cached_property
    def fingerprint(self) -> str:
        """The same for the same questions and documents, wherever they are read from."""
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

    def limited(self, most: int | None) -> Dataset:
        """The first `most` questions in an order that their own ids decide: an even sample."""
        if most is None or most >= len(self.questions):
            return self
        chosen = sorted(self.questions, key=lambda one: stable_number(one.id))[:most]
        return replace(self, questions=tuple(chosen))

    def half(self, which: Half) -> Dataset:
        """The questions of one half. A question's own id decides, so the halves never change."""
        wanted = 0 if which == "tune" else 1
        chosen = [one for one in self.questions if stable_number(one.id) % 2 == wanted]
        return replace(self, questions=tuple(chosen))


def stable_number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def load_dataset(path: Path) -> Dataset:
    """Read a dataset, whichever format it has."""
    from ragstone.evaluate.load import read_beir, read_samples

    if path.is_dir():
        return read_beir(path)
    if path.is_file():
        return read_samples(path)
    raise InputError(
        f"There is no dataset '{path}'.",
        hint="Name a folder with corpus.jsonl, queries.jsonl and qrels.tsv, or a .jsonl file.",
    )
