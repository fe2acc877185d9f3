"""Find parts by name. Built-in parts and plug-ins are both registered as entry points.

A package declares, in its own pyproject.toml, e.g.
`[project.entry-points."ragstone.provider"]  mine = "my_package:build"`, where `build(context)`
returns the part. The table of slots in docs/concepts/plugins.md names the context of each slot.
Entry points are read from the installed metadata: after an edit of pyproject.toml install again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points, metadata
from typing import Any

from ragstone.derived import DerivedStore
from ragstone.errors import SettingsError
from ragstone.fallback import Fallbacks
from ragstone.models.cache import QuestionBatcher
from ragstone.protocols import Catalog, Chat, Embedder, Index, Provider, Retriever
from ragstone.settings import Settings

GROUPS = {
    slot: f"ragstone.{slot}"
    for slot in (
        "embedder", "index", "provider", "loader", "splitter", "moderator",
        "understander", "retriever", "refiner", "reranker", "context", "answerer", "checker",
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class IndexContext:
    """Hold what an index may be built from."""

    settings: Settings
    catalog: Catalog
    embedder: Embedder


@dataclass(frozen=True, slots=True)
class PartContext:
    """Hold what a part may be built from."""

    settings: Settings
    embedder: Embedder
    index: Index
    catalog: Catalog
    fallbacks: Fallbacks
    batcher: QuestionBatcher
    provider: Provider | None = None
    """Writes the answer; None while the provider itself is built."""
    quoting: Provider | None = None
    """The provider that quotes sources, for when the model fails."""
    reader: Embedder | None = None
    """Compares sentences when answers are chosen and checked, where that is not the embedder."""
    search: Retriever | None = None
    """The search of the documents, for a retriever that adds to it."""
    derived: DerivedStore | None = None
    """Keeps what was computed from documents, for all processes."""

    @property
    def reads_with(self) -> Embedder:
        """Return the embedder that compares sentences."""
        return self.reader or self.embedder

    @property
    def chat(self) -> Chat | None:
        """Return the provider's small model, which other stages ask, if it has one."""
        provider: object = self.provider
        return provider if isinstance(provider, Chat) else None


def list_parts(slot: str) -> dict[str, EntryPoint]:
    """List the installed parts for a slot by name; a plug-in replaces a built-in of that name."""
    found: dict[str, EntryPoint] = {}
    for point in sorted(_read_entry_points(tuple(sys.path))[slot], key=lambda p: p.value):
        if point.name not in found or not point.value.startswith("ragstone."):
            found[point.name] = point
    return found


@lru_cache(maxsize=1)
def _read_entry_points(_places: tuple[str, ...]) -> dict[str, tuple[EntryPoint, ...]]:
    """Read the entry points of every slot, once for a list of places to import from.

    Reading takes 5 ms, an engine looks for 14 parts, and a worker that reads files for 20.
    """
    points = entry_points()
    return {slot: tuple(points.select(group=group)) for slot, group in GROUPS.items()}


def find_part(slot: str, name: str) -> Callable[..., Any]:
    """Import and return the factory of a part."""
    points = list_parts(slot)
    if name not in points:  # it may have been installed since, in a notebook for example
        _read_entry_points.cache_clear()
        points = list_parts(slot)
    if name not in points:
        raise SettingsError(
            f"No {slot} named '{name}' is installed.",
            hint=f"Installed: {', '.join(sorted(points)) or 'none'}.",
        )
    try:
        factory: Callable[..., Any] = points[name].load()
    except ImportError as error:
        raise SettingsError(
            f"The {slot} '{name}' needs a package that is not installed: {error}.",
            hint=_explain_install(points[name], error),
        ) from error
    return factory


def list_extras() -> frozenset[str]:
    """List the extras of the installed Ragstone."""
    return frozenset(metadata("ragstone").get_all("Provides-Extra") or ())


def _explain_install(point: EntryPoint, error: ImportError) -> str:
    """Return the command that installs a missing package."""
    owner = point.dist.name if point.dist else "ragstone"
    missing = (error.name or "").partition(".")[0]
    if owner != "ragstone":
        return f"Install the package that '{owner}' needs, e.g.: pip install '{missing or owner}'"
    if point.name in list_extras():
        return f"Try: pip install 'ragstone[{point.name}]'"
    return "Ragstone is only partly installed. Try: pip install --force-reinstall ragstone"
