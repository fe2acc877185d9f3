"""Install the wheel into empty environments, run the demo there, and compare the answers.

    python scripts/check_wheel.py dist/*     # check these two files: what is released
    python scripts/check_wheel.py            # build both into a temporary folder first
    python scripts/check_wheel.py --no-lock  # only without the lock

Twice: as `pip install ragstone` resolves it today, and as requirements.lock pins it. The demo runs
outside the checkout, without a network where the system can take it away (in CI on Linux it must),
and must print the answers of the checkout itself. The wheel that the sdist builds must hold the
same files.
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
KNOWN = {"PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "XDG_CONFIG_HOME"}
PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command in a clean environment and return what it printed."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in KNOWN or name.upper() in PROXIES or name.startswith("PIP_")
    }
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


def find_kinds(files: list[Path]) -> tuple[Path, Path]:
    """Return the wheel and the sdist out of two files."""
    wheels = [file for file in files if file.suffix == ".whl"]
    sdists = [file for file in files if file.name.endswith(".tar.gz")]
    if len(files) != 2 or len(wheels) != 1 or len(sdists) != 1:
        named = ", ".join(map(str, files)) or "nothing"
        sys.exit(f"error: Expected one wheel and one sdist, not {named}. Build them: make dist")
    return wheels[0].resolve(), sdists[0].resolve()


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
    answers = re.sub(r"\d+ ms", "… ms", printed[begin:end]).strip()
    questions = len(re.findall(r"^\? ", answers, re.MULTILINE))
    declined = len(re.findall(r"^no (?:answer found|sure answer)", answers, re.MULTILINE))
    if (questions, declined) != (3, 1):
        sys.exit(
            f"error: The demo answered {questions - declined} questions and declined {declined}; "
            f"expected 2 and 1.\n{printed}"
        )
    return answers


def find_network_blocker() -> tuple[str, ...]:
    """Name the command that takes the network away; () where there is none, which is printed."""
    wrapped = ("unshare", "--map-root-user", "--net")
    try:
        subprocess.run([*wrapped, "true"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = (getattr(error, "stderr", "") or str(error)).strip()
        if sys.platform == "linux" and os.environ.get("CI"):
            sys.exit(
                f"error: The network cannot be cut ({reason}), so the demo might use it unseen.\n"
                "hint: Allow user namespaces: "
                "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
            )
        print(f"warning: the network cannot be cut here ({reason}): the demo could use it unseen")
        return ()
    return wrapped


def run_demo(python: Path, folder: Path, blocker: tuple[str, ...]) -> str:
    """Run the demo in a folder of its own; say so where the package is not the installed one."""
    folder.mkdir()
    home = run(python, "-c", "import ragstone; print(ragstone.__file__)", cwd=folder).strip()
    if Path(home).is_relative_to(ROOT):
        sys.exit(f"error: {python} runs the checkout, {home}.")
    begun = time.monotonic()
    printed = run(*blocker, python, "-m", "ragstone", "demo", "-d", "data", cwd=folder)
    network = "without a network" if blocker else "with the network"
    print(f"  demo {network}: {time.monotonic() - begun:.0f} s")
    return find_answers(printed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help="a wheel and its sdist, else built now")
    parser.add_argument("--no-lock", action="store_true", help="leave out requirements.lock")
    options = parser.parse_args()
    blocker = find_network_blocker()
    with tempfile.TemporaryDirectory(prefix="wheel-check-") as name:
        folder = Path(name)
        files = options.files or build(ROOT, folder / "dist", "sdist", "wheel")
        wheel, sdist = find_kinds(files)
        check_files(wheel, sdist, folder)
        printed = run(sys.executable, "-m", "ragstone", "demo", "-d", folder / "own", cwd=ROOT)
        expected = find_answers(printed)
        ways: dict[str, list[tuple[str | Path, ...]]] = {"without the lock": [(wheel,)]}
        if not options.no_lock:
            locked = ("--no-deps", "--require-hashes", "-r", ROOT / "requirements.lock")
            ways["from requirements.lock"] = [locked, ("--no-deps", wheel)]
        for number, (way, installs) in enumerate(ways.items()):
            begun = time.monotonic()
            python = make_environment(folder / f"venv{number}")
            for arguments in installs:
                run(python, *PIP, *arguments, cwd=folder)
            run(python, "-m", "pip", "check", cwd=folder)
            print(f"installed {way}: {time.monotonic() - begun:.0f} s")
            found = run_demo(python, folder / f"demo{number}", blocker)
            if found != expected:
                sys.exit(
                    f"error: Installed {way}, the demo gives different answers than the checkout.\n"
                    f"--- checkout\n{expected}\n--- installed\n{found}"
                )
            print("  the three answers are those of the checkout")


if __name__ == "__main__":
    main()
