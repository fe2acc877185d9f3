"""Packages that are imported at their first use: each worker of a test run imports every file of
tests, but only one of them runs it, and some packages take more than a second."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Lazy:
    """A module; `Lazy("openai")` stands for `import openai`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest looks for its marks
            raise AttributeError(name)
        return getattr(import_module(self._name), name)
