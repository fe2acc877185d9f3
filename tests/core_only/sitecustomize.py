"""Refuse the import of every package outside the core, in this process and its children.

Python imports a module of this name at its start from PYTHONPATH. CORE_ONLY names a JSON file that
maps each refused top-level module to the distribution which it belongs to.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path


class RefusedImportError(ModuleNotFoundError):
    """An import that `pip install ragstone` alone could not satisfy."""


class CoreOnly:
    """A finder that stands before all others and refuses what the core does not bring."""

    def __init__(self, refused: dict[str, str]) -> None:
        self._refused = refused

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        top = name.partition(".")[0]
        if top in self._refused:
            chain = ["a script", *dict.fromkeys(reversed([*_importers()])), name]
            raise RefusedImportError(
                f"{chain[-2]} imports '{name}' of the distribution '{self._refused[top]}', which "
                f"'pip install ragstone' does not bring. Import chain: {' → '.join(chain[1:])}.",
                name=name,
            )


def _importers() -> Iterator[str]:
    """Name the modules whose code is running, the innermost first, without Python's own."""
    frame = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", "__main__"))
        if name.partition(".")[0] not in sys.stdlib_module_names | {"__main__"}:
            yield name
        frame = frame.f_back  # type: ignore[assignment]


if "CORE_ONLY" in os.environ:
    sys.meta_path.insert(0, CoreOnly(json.loads(Path(os.environ["CORE_ONLY"]).read_text("utf-8"))))
