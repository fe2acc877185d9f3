"""Install the wheel into empty environments, run the demo there, and compare the answers.

    python scripts/check_wheel.py            # build, install in both ways, compare
    python scripts/check_wheel.py --no-lock  # only without the lock

Twice: as `pip install ragstone` resolves it today, and as requirements.lock pins it. The demo runs
outside the checkout, without a network where the system can take it away, and must print the
answers of the checkout itself. The wheel that the sdist builds must hold the same files.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT_MB = 80
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check", "install")


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command in a clean environment and return what it printed."""
    known = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "XDG_CONFIG_HOME")
    environment = {name: os.environ[name] for name in known if name in os.environ}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        check=False,
        capture_output=True,
        text=True,
        env={**environment, "NO_COLOR": "1"},
    )
    if done.returncode:
        sys.exit(
            f"error: {' '.join(map(str, command))} ended with exit code {done.returncode}.\n"
            f"{done.stdout}{done.stderr}"
        )
    return done.stdout


def build(source: Path, target: Path, *kinds: str) -> list[Path]:
    wanted = [part for kind in kinds for part in ("-t", kind)]
    run(sys.executable, "-m", "hatchling", "build", "-d", target, *wanted, cwd=source)
    return sorted(target.iterdir())


def list_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def check_files(wheel: Path, sdist: Path, folder: Path) -> None:
    """Refuse a wheel that is too large, or an sdist that builds another one."""
    megabytes = wheel.stat().st_size / 1e6
    print(f"{wheel.name}: {megabytes:.1f} MB, {len(list_files(wheel))} files")
    if megabytes > LIMIT_MB:
        sys.exit(f"error: The wheel has {megabytes:.1f} MB; at most {LIMIT_MB} are allowed.")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "sdist", filter="data")
    print(f"{sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB")
    (unpacked,) = (folder / "sdist").iterdir()
    (again,) = build(unpacked, folder / "again", "wheel")
    different = list_files(wheel) ^ list_files(again)
    if different:
        sys.exit(f"error: The wheel of the sdist has other files: {sorted(different)}")


def make_environment(folder: Path) -> Path:
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    return folder / "bin" / "python"


def find_answers(printed: str) -> str:
    """Cut the three answers out of the demo's output, without the times."""
    begin, end = printed.find("\n? "), printed.find("\nAsk your own:")
    if begin < 0 or end < 0:
        sys.exit(f"error: The demo printed no answers.\n{printed}")
    return re.sub(r"\d+ ms", "… ms", printed[begin:end]).strip()


def find_network_blocker() -> tuple[str, ...]:
    """Name the command that takes the network away, where the system has it."""
    wrapped = ("unshare", "--map-root-user", "--net")
    try:
        subprocess.run([*wrapped, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    return wrapped


def run_demo(python: Path, folder: Path) -> str:
    """Run the demo in a folder of its own; say so where the package is not the installed one."""
    folder.mkdir()
    home = run(python, "-c", "import ragstone; print(ragstone.__file__)", cwd=folder).strip()
    if Path(home).is_relative_to(ROOT):
        sys.exit(f"error: {python} runs the checkout, {home}.")
    begun = time.monotonic()
    printed = run(
        *find_network_blocker(), python, "-m", "ragstone", "demo", "-d", "data", cwd=folder
    )
    network = "without a network" if find_network_blocker() else "with the network"
    print(f"  demo {network}: {time.monotonic() - begun:.0f} s")
    return find_answers(printed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--no-lock", action="store_true", help="leave out requirements.lock")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wheel-check-") as name:
        folder = Path(name)
        sdist, wheel = build(ROOT, folder / "dist", "sdist", "wheel")
        if wheel.suffix != ".whl":
            sdist, wheel = wheel, sdist
        check_files(wheel, sdist, folder)
        printed = run(sys.executable, "-m", "ragstone", "demo", "-d", folder / "own", cwd=ROOT)
        expected = find_answers(printed)
        ways: dict[str, list[tuple[str | Path, ...]]] = {"without the lock": [(wheel,)]}
        if not options.no_lock:
            locked = ("--require-hashes", "-r", ROOT / "requirements.lock")
            ways["from requirements.lock"] = [locked, ("--no-deps", wheel)]
        for number, (way, installs) in enumerate(ways.items()):
            begun = time.monotonic()
            python = make_environment(folder / f"venv{number}")
            for arguments in installs:
                run(python, *PIP, *arguments, cwd=folder)
            print(f"installed {way}: {time.monotonic() - begun:.0f} s")
            found = run_demo(python, folder / f"demo{number}")
            if found != expected:
                sys.exit(
                    f"error: Installed {way}, the demo answers otherwise than the checkout.\n"
                    f"--- checkout\n{expected}\n--- installed\n{found}"
                )
            print(f"  the {found.count('? ')} answers are those of the checkout")


if __name__ == "__main__":
    main()
