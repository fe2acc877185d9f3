"""Run the README's two commands in a fresh clone, as on a machine that nobody has touched.

    python scripts/check_newcomer.py                        # the last commit
    python scripts/check_newcomer.py --python python3.12
    python scripts/check_newcomer.py --commit 933efaf

An empty home directory, no uv on the PATH, no cache, and the pip that comes with the interpreter.
`make test` is stopped at the first test that passes: everything after it is what CI runs anyway.
Only the last commit is checked, not what is uncommitted.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Each command with what it prints once a newcomer would be content; None: it has to end by itself.
COMMANDS: dict[str, re.Pattern[str] | None] = {
    "make demo": None,
    "make test": re.compile(r"\bPASSED\b"),
}
# An installer of another kind: with it on the PATH nobody notices that pip fails.
HIDDEN = {"uv", "uvx"}
PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
KEPT = {"LANG", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "TMPDIR", "PIP_CERT", "PIP_DEFAULT_TIMEOUT"}
LIMIT_S = 1800


def hide_programs(path: str, scratch: Path) -> str:
    """Return a search path without the hidden programs, but with all their neighbours."""
    folders = []
    for number, folder in enumerate(Path(name) for name in path.split(os.pathsep) if name):
        if any((folder / name).exists() for name in HIDDEN):
            links = scratch / f"bin{number}"
            links.mkdir()
            for program in folder.iterdir():
                if program.name not in HIDDEN:
                    (links / program.name).symlink_to(program)
            folders.append(str(links))
        else:
            folders.append(str(folder))
    return os.pathsep.join(folders)


def make_environment(scratch: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in KEPT or name.upper() in PROXIES or name.startswith("LC_")
    }
    home = scratch / "home"
    home.mkdir()
    # Without a terminal, Python and pytest would keep their lines to themselves.
    visible = {"PYTHONUNBUFFERED": "1", "PYTEST_ADDOPTS": "-vv"}
    path = hide_programs(os.environ["PATH"], scratch)
    return {**kept, **visible, "PATH": path, "HOME": str(home), "PIP_NO_CACHE_DIR": "1"}


def run(command: str, python: str | None, checkout: Path, environment: dict[str, str]) -> None:
    """Run a command to its end, or until it has printed what it is waited for."""
    arguments = command.split() + ([f"PYTHON={python}"] if python else [])
    awaited = COMMANDS[command]
    begun = time.monotonic()
    print(f"$ {' '.join(arguments)}", flush=True)
    process = subprocess.Popen(
        arguments,
        cwd=checkout,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that everything it started can be stopped with it
    )
    limit = threading.Timer(LIMIT_S, stop, [process])
    limit.start()
    assert process.stdout is not None
    is_content = False
    try:
        for line in process.stdout:
            print(f"  {line}", end="", flush=True)
            if awaited and awaited.search(line):
                is_content = True
                break
    finally:
        limit.cancel()
        if is_content or process.poll() is None:
            stop(process)
    code = process.wait()
    if not is_content and (code or awaited):
        sys.exit(f"error: A newcomer's `{command}` ended with exit code {code}.")
    print(f"ok: {command}, {time.monotonic() - begun:.0f} s", flush=True)


def stop(process: subprocess.Popen[str]) -> None:
    """Interrupt the command and everything it started, as Ctrl-C does."""
    for sign in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--commit", default="HEAD", help="what is checked out (default: HEAD)")
    parser.add_argument("--python", help="the interpreter; else the one that the Makefile finds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="newcomer-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        checkout = scratch / "ragstone"
        git = shutil.which("git") or sys.exit("error: git is needed to clone the checkout.")
        subprocess.run([git, "clone", "--quiet", "--no-hardlinks", ROOT, checkout], check=True)
        subprocess.run([git, "checkout", "--quiet", options.commit], cwd=checkout, check=True)
        environment = make_environment(scratch)
        for command in COMMANDS:
            run(command, options.python, checkout, environment)


if __name__ == "__main__":
    main()
