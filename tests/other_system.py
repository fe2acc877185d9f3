"""Makes a Python process believe that it runs on another system, as far as Ragstone looks.

It is copied to a folder as `sitecustomize.py`, which is put on PYTHONPATH, so the processes that a
process starts believe it too. Ragstone asks `ragstone.system` alone, so only that module sees
the other platform's name; libraries see the truth, but for the modules and functions that are gone.
"""

from __future__ import annotations

# Those that `ragstone.system` imports come first: they must see the true name of the platform.
# asyncio too: its import on Linux asks functions that are gone afterwards.
import asyncio  # noqa: F401
import ctypes  # noqa: F401
import importlib.abc
import importlib.machinery
import os
import queue  # noqa: F401
import select  # noqa: F401
import socket  # noqa: F401
import subprocess  # noqa: F401
import sys
import threading  # noqa: F401
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

SYSTEM = os.environ.get("PRETENDED_SYSTEM", "")
# What each system lacks.
MODULES = {"darwin": (), "win32": ("fcntl", "resource", "termios", "pwd", "grp")}
FUNCTIONS = {
    "darwin": ("sched_getaffinity", "sched_setaffinity"),
    "win32": ("sched_getaffinity", "sched_setaffinity", "nice", "setpriority", "sysconf", "fork"),
}


def windows_locks() -> ModuleType:
    """Stand in for `msvcrt`, whose lock also is the process's and ends with it."""
    import fcntl

    fake = ModuleType("msvcrt")

    def locking(descriptor: int, _mode: int, _count: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:  # what Windows raises
            raise PermissionError(13, "Permission denied") from error

    fake.locking = locking  # type: ignore[attr-defined]
    fake.LK_NBLCK = 2  # type: ignore[attr-defined]
    return fake


class Pretender(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Refuses the modules that are not there, and loads `ragstone.system` on the other system."""

    def __init__(self, system: str) -> None:
        self._system = system
        self._locks = windows_locks() if system == "win32" else None
        self._real: Any = None

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name in MODULES[self._system]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name != "ragstone.system":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        assert spec is not None
        self._real, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        real = sys.platform
        sys.platform = self._system
        if self._locks is not None:
            sys.modules["msvcrt"] = self._locks
        try:
            self._real.exec_module(module)
        finally:
            sys.platform = real
            sys.modules.pop("msvcrt", None)
        module._PROC = Path("/no/such/folder")  # type: ignore[attr-defined]


if SYSTEM:
    pretender = Pretender(SYSTEM)
    for gone in MODULES[SYSTEM]:
        sys.modules.pop(gone, None)
    for gone in FUNCTIONS[SYSTEM]:
        if hasattr(os, gone):
            delattr(os, gone)
    if hasattr(os, "process_cpu_count"):  # since Python 3.13; on Linux it asks sched_getaffinity
        os.process_cpu_count = os.cpu_count
    sys.meta_path.insert(0, pretender)
