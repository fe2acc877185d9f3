"""Define what the catalog says of documents as a whole, without their texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class DocumentEntry:
    """A document as the catalog knows it, without its text."""

    id: str
    name: str
    title: str = ""
    labels: str = ""
    """Other words that describe it: subject, keywords, category."""
    first_key: int = 0
    chunk_count: int = 0


@dataclass(frozen=True, slots=True)
class DocumentGroup:
    """Documents of one folder."""

    name: str
    count: int
    documents: tuple[DocumentEntry, ...]
    """The main document first; not all of them in a large group."""


OutlineKind: TypeAlias = Literal["summary", "comparison", "overview", "catalog"]


@dataclass(frozen=True, slots=True)
class Outline:
    """The documents that a request is about as a whole, such as "Summarize the lease"."""

    kind: OutlineKind
    subject: str = ""
    documents: tuple[DocumentEntry, ...] = ()
    """The documents that are meant; empty if they were not found."""
    count: int = 0
    """How many documents are meant, also beyond those listed."""
    total: int = 0
    """How many documents the search may use."""
    groups: tuple[DocumentGroup, ...] = ()
    is_topic: bool = False
    """True when only the passages on the subject are wanted, not the whole documents."""
    probability: float = 0.0
    """How probable it is that these documents are meant."""
