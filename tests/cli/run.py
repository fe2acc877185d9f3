"""Runs `ragstone` as a person does: a process of its own, with a clean environment."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

from ..patience import LONG_S

# Capabilities with which root passes over file permissions, and the call that gives them up.
_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2


def environment(**extra: str) -> dict[str, str]:
    """What the process sees; coverage follows it through COVERAGE_*, where tests are measured."""
    measured = {name: value for name, value in os.environ.items() if name.startswith("COV")}
    return measured | unmeasured(**extra)


def unmeasured(**extra: str) -> dict[str, str]:
    """The same without coverage, which makes a process half as slow again: for the many that run
    what other tests measure already."""
    known = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
    kept = {name: value for name, value in os.environ.items() if name in known}
    return kept | {"NO_COLOR": "1"} | extra


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "ragstone", *map(str, arguments)]


def run(
    *arguments: str | Path, cwd: Path, obey_permissions: bool = False, **extra: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment(**extra),
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
        preexec_fn=_obey_permissions if obey_permissions else None,
    )


def _obey_permissions() -> None:
    """Let root be held by file permissions like anybody else."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            assert libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0


def assert_refused(done: subprocess.CompletedProcess[str], *said: str, code: int = 1) -> None:
    """One sentence, one hint, the exit code, no traceback, and nothing on standard output."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    lines = done.stderr.strip().splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"], done.stderr
    assert lines[0].endswith((".", "?"))
    for words in said:
        assert words in done.stderr
    assert done.stdout == ""
