"""Questions with what is known of their answers, and the documents that they are asked of.

A path in → a `Dataset` out, whatever the format: a folder in BEIR layout, a file of questions and
answers, or a file of Ragas samples. What is wrong with a file is said with its name and line.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from ragstone.errors import InputError

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
    from ragstone.evaluate.beir import read_beir
    from ragstone.evaluate.samples import read_samples

    if path.is_dir():
        return read_beir(path)
    if path.is_file():
        return read_samples(path)
    raise InputError(
        f"There is no dataset '{path}'.",
        hint="Name a folder with corpus.jsonl, queries.jsonl and qrels.tsv, or a .jsonl file.",
    )
