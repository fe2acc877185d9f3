"""Finding parts by name: built-ins are registered as entry points, the same way as a stranger's.

A plug-in declares, in its own pyproject.toml, e.g.
`[project.entry-points."ragstone.provider"]  mine = "my_package:build"`, where `build(context)`
returns the part. `context` is the `PartContext` below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points, metadata
from typing import Any

from ragstone.errors import SettingsError
from ragstone.protocols import Catalog, Embedder, Index, Provider
from ragstone.settings import Settings

GROUPS = {
    "embedder": "ragstone.embedder",
    "index": "ragstone.index",
    "provider": "ragstone.provider",
    "reranker": "ragstone.reranker",
    "loader": "ragstone.loader",
    "moderator": "ragstone.moderator",
}


@dataclass(frozen=True, slots=True)
class IndexContext:
    """What an index may be built from."""

    settings: Settings
    catalog: Catalog
    embedder: Embedder


@dataclass(frozen=True, slots=True)
class PartContext:
    """What a part may be built from."""

    settings: Settings
    embedder: Embedder
    index: Index
    provider: Provider | None = None
    """Who writes the answer; not there yet while the provider itself is built."""
    reader: Embedder | None = None
    """Compares sentences when answers are chosen and checked, where that is not the embedder."""

    @property
    def reads_with(self) -> Embedder:
        return self.reader or self.embedder


def available(slot: str) -> dict[str, EntryPoint]:
    """Every installed part for a slot, by name; an outside one replaces a built-in of that name."""
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=GROUPS[slot]), key=lambda p: p.value):
        if point.name not in found or not point.value.startswith("ragstone."):
            found[point.name] = point
    return found


def find(slot: str, name: str) -> Callable[..., Any]:
    """The factory of a part. Importing it happens here and not before."""
    points = available(slot)
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
            hint=_how_to_install(points[name], error),
        ) from error
    return factory


def extras() -> frozenset[str]:
    """List the extras of the installed Ragstone."""
    return frozenset(metadata("ragstone").get_all("Provides-Extra") or ())


def _how_to_install(point: EntryPoint, error: ImportError) -> str:
    """Say what brings a missing package: an extra of ours only where there is one."""
    owner = point.dist.name if point.dist else "ragstone"
    missing = (error.name or "").partition(".")[0]
    if owner != "ragstone":
        return f"Install the package that '{owner}' needs, e.g.: pip install '{missing or owner}'"
    if point.name in extras():
        return f"Try: pip install 'ragstone[{point.name}]'"
    return "Ragstone is only partly installed. Try: pip install --force-reinstall ragstone"
