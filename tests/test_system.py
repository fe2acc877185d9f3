"""Only one module knows the operating system; without Linux's own means everything still works."""

from __future__ import annotations

import ast
import gzip
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

import ragstone
from ragstone import system

from . import other_system
from .cli.run import environment
from .patience import LONG_S

SOURCE = Path(ragstone.__file__).parent
# What only some systems have, and `ragstone.system` alone may use.
MODULES = {"fcntl", "resource", "msvcrt", "ctypes", "termios", "pwd", "grp", "pty", "select"}
NAMES = re.compile(
    r"/proc\b|os\.(nice|setpriority|sched_\w+|getuid|geteuid|killpg|sysconf|setsid)\b"
    r"|os\.(fork\w*|register_at_fork)\b|(get_context|set_start_method)\(\s*(method=)?[\"']fork"
    r"|DupFd|SO_REUSE\w+|add_signal_handler|signal\.SIG(?!TERM|INT)\w+|sys\.platform|os\.name\b"
)
SYSTEMS = ("darwin", "win32")


def test_no_other_module_knows_the_operating_system() -> None:
    for path in SOURCE.rglob("*.py"):
        # PDFium writes into places that ctypes makes: that is the same on every system.
        if path.name in ("system.py", "pdf_page.py", "pdf_form.py"):
            continue
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                assert not {one.name for one in node.names} & MODULES, path
            elif isinstance(node, ast.ImportFrom):
                assert node.module not in MODULES, path
        found = NAMES.search(text)
        assert found is None, f"{path}: {found and found[0]}"


@pytest.mark.parametrize(
    "code",
    [
        "os.fork()",
        "os.forkpty()",
        "os.register_at_fork(after_in_child=forget)",
        'multiprocessing.get_context("fork")',
        "get_context(method='forkserver')",
        'multiprocessing.set_start_method("fork")',
    ],
)
def test_the_check_sees_what_forks(code: str) -> None:
    assert NAMES.search(code)
    assert not NAMES.search('get_context("spawn")')


@pytest.fixture(params=SYSTEMS)
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment of a process that takes this machine for another one."""
    folder = tmp_path / "site"
    folder.mkdir()
    shutil.copy(other_system.__file__, folder / "sitecustomize.py")
    return environment(
        PYTHONPATH=str(folder), PRETENDED_SYSTEM=request.param,
        RAGSTONE_DATA=str(tmp_path / "data"),
    )  # fmt: skip


def run(environ: dict[str, str], *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], env=environ, cwd=cwd, capture_output=True, text=True,
        timeout=LONG_S, check=False,
    )  # fmt: skip


def test_the_means_of_linux_are_really_hidden(elsewhere: dict[str, str], tmp_path: Path) -> None:
    code = """
import os
from ragstone import system
assert not system._has_proc() and not system._IS_LINUX
assert not hasattr(os, "sched_getaffinity")
for name in ("fcntl", "resource"):
    try:
        __import__(name)
        print(name)
    except ImportError:
        pass
"""
    done = run(elsewhere, "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    is_mac = elsewhere["PRETENDED_SYSTEM"] == "darwin"
    assert done.stdout.split() == (["fcntl", "resource"] if is_mac else [])


@pytest.mark.slow
def test_the_server_reads_an_upload_and_answers(elsewhere: dict[str, str], tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "ragstone", "serve", "--port", "0"], env=elsewhere, cwd=tmp_path,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        line = ""
        while "http://" not in line:
            line = process.stderr.readline()
            assert line, "the server ended"
        address = next(word for word in line.split() if word.startswith("http://"))
        files = {"files": ("gate.txt", b"The gate of the observatory is painted green.")}
        reply = httpx.post(f"{address}/v1/documents", files=files, timeout=LONG_S)
        assert reply.status_code == 201, reply.text
        asked = {"query": "What colour is the gate?"}
        answer = httpx.post(f"{address}/v1/query", json=asked, timeout=LONG_S).json()
        assert "painted green" in answer["answer"]
    finally:
        process.terminate()
        process.communicate(timeout=LONG_S)


def test_a_lock_is_held_by_one_process_and_ends_with_it(
    elsewhere: dict[str, str], tmp_path: Path
) -> None:
    holder = """
import os, subprocess, sys
from pathlib import Path
from ragstone.system import lock_file, remove_locked_file
path = Path("one.lock")
assert lock_file(path) is None
path.touch()
held = lock_file(path)
assert held is not None
look = "from pathlib import Path; from ragstone.system import lock_file; "
look += "print(lock_file(Path('one.lock')) is not None)"
ask = [sys.executable, "-c", look]
print(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip())
os.close(held)
print(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip())
held = lock_file(path)
remove_locked_file(path, held)
print(path.exists())
"""
    done = run(elsewhere, "-c", holder, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True", "False"]


def test_memory_is_also_known_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    known, peak = system.measure_resident_bytes(os.getpid()), system.measure_peak_bytes(os.getpid())
    monkeypatch.setattr(system, "_PROC", Path("/no/such/folder"))
    assert system.measure_resident_bytes(os.getpid()) == pytest.approx(known, rel=0.2)
    assert system.measure_peak_bytes(os.getpid()) == pytest.approx(peak, rel=0.2)
    assert system.get_memory_check_interval_s() == 1.0
    system.limit_address_space(0)  # without /proc it must not limit anything


@pytest.mark.slow
def test_a_file_that_takes_too_much_memory_is_also_stopped_without_proc(
    elsewhere: dict[str, str], tmp_path: Path
) -> None:
    if elsewhere["PRETENDED_SYSTEM"] == "win32":
        pytest.skip("Windows has no ps; there only the time of a file is limited")
    (tmp_path / "big.txt.gz").write_bytes(gzip.compress(b"word " * 15_000_000, 1))
    elsewhere["RAGSTONE_INGEST_MAX_MEMORY_MB"] = "256"
    done = run(elsewhere, "-m", "ragstone", "ingest", "big.txt.gz", cwd=tmp_path)
    assert done.returncode == 1
    assert "more than 256 MB of memory" in done.stdout


def test_memory_of_a_process_that_has_ended_is_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert system.measure_resident_bytes(process.pid) == 0
    assert system.measure_peak_bytes(process.pid) == 0
    assert system._read_resident_from_ps(process.pid) == 0


@pytest.mark.parametrize("is_windows", [False, True])
def test_a_pipe_is_read_with_a_time_limit(
    is_windows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "_IS_WINDOWS", is_windows)
    code = "import sys; sys.stdout.write('x' * 300_000); sys.stdout.flush(); sys.stdin.read(1)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    reader = system.open_pipe_reader(process.stdout)
    found = b""
    while len(found) < 300_000:
        piece = reader.read(7_000, 60)
        assert piece is not None
        assert 0 < len(piece) <= 7_000
        found += piece
    assert found == b"x" * 300_000
    begun = time.monotonic()
    assert reader.read(1, 0.05) is None
    assert time.monotonic() - begun >= 0.04
    process.stdin.close()
    assert reader.read(1, 60) == b""
    assert reader.read(1, 60) == b""
    process.wait()
    process.stdout.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits")
def test_a_lower_hard_limit_of_the_shell_is_kept() -> None:
    """`ulimit -v` and `ulimit -t` set both limits: a process cannot raise its own again."""
    script = (
        "import resource as r; from ragstone import system\n"
        "r.setrlimit(r.RLIMIT_AS, (1 << 33, 1 << 33)); r.setrlimit(r.RLIMIT_CPU, (60, 60))\n"
        "system.limit_address_space(1 << 40); system.limit_processor_time(600)\n"
        "print(r.getrlimit(r.RLIMIT_AS)[0], r.getrlimit(r.RLIMIT_CPU)[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env=environment(),
    )  # fmt: skip
    assert done.stdout.split() == [str(1 << 33), "60"], done.stderr
