"""Unpack ZIP, TAR and compressed files, and the packages that Office files are.

Names inside are only shown, never used as paths; nothing is written to the disk. Sizes are counted
while unpacking, because the sizes that an archive states may be wrong.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import posixpath
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import IO, Any, ClassVar

from ragstone.blocks import LoadOptions, Member
from ragstone.errors import IngestError
from ragstone.ingest.formats.xml import parse_xml

_READ_BYTES = 1 << 20
_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    NotImplementedError,
    ValueError,
)


class ZipUnpacker:
    """Unpack `.zip`; the password works for the classic ZIP encryption."""

    media_type: ClassVar[str] = "application/zip"
    suffixes: ClassVar[tuple[str, ...]] = (".zip",)

    def unpack(self, content: bytes, options: LoadOptions) -> Iterator[Member]:
        left = options.max_unpacked_bytes
        password = options.password.encode() if options.password else None
        failure: IngestError | None = None
        try:
            archive = zipfile.ZipFile(io.BytesIO(content))
        except _ARCHIVE_ERRORS as error:
            raise _make_damaged_error("ZIP", error) from error
        for entry in archive.infolist():
            if entry.is_dir():
                continue
            try:
                with archive.open(entry, pwd=password) as file:
                    inside = read_bounded(file, left)
            except RuntimeError:
                # Raised at the end: the members that can be read come first.
                failure = IngestError(
                    "The archive is encrypted and needs a password, or the password is wrong.",
                    hint="Give it with --password; unpack archives with AES encryption first.",
                )
                continue
            except _ARCHIVE_ERRORS as error:
                failure = failure or _make_damaged_error("ZIP", error)
                continue
            left -= len(inside)
            yield Member(entry.filename, inside)
        if failure is not None:
            raise failure


class TarUnpacker:
    """Unpack `.tar`, also compressed; leave out links and devices."""

    media_type: ClassVar[str] = "application/x-tar"
    suffixes: ClassVar[tuple[str, ...]] = (".tar", ".tgz", ".tbz2", ".txz")

    def unpack(self, content: bytes, options: LoadOptions) -> Iterator[Member]:
        yield from _unpack_tar(io.BytesIO(content), options)


class CompressedUnpacker:
    """Unpack `.gz`, `.bz2`, `.xz`: one file, or a TAR."""

    media_type: ClassVar[str] = "application/gzip"
    suffixes: ClassVar[tuple[str, ...]] = (".gz", ".bz2", ".xz")

    def unpack(self, content: bytes, options: LoadOptions) -> Iterator[Member]:
        try:
            with _open_compressed(content) as head:
                is_tar = head.read(262)[257:] == b"ustar"
            with _open_compressed(content) as file:
                if is_tar:
                    yield from _unpack_tar(file, options)
                    return
                inside = read_bounded(file, options.max_unpacked_bytes)
        except _ARCHIVE_ERRORS as error:
            raise _make_damaged_error("compressed file", error) from error
        yield Member(PurePosixPath(options.name).stem or "content", inside)


class Package:
    """Read the parts of a ZIP package (DOCX, ODT, EPUB), `max_unpacked_bytes` in all."""

    def __init__(self, content: bytes, options: LoadOptions) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except _ARCHIVE_ERRORS as error:
            raise IngestError(
                "The file is damaged: the package around its content cannot be opened.",
                hint="The download may be incomplete. Download or save the file again.",
            ) from error
        self._left = options.max_unpacked_bytes
        self.names = frozenset(self._zip.namelist())

    def read(self, name: str) -> bytes:
        try:
            with self._zip.open(name) as part:
                content = read_bounded(part, self._left)
        except (*_ARCHIVE_ERRORS, RuntimeError) as error:
            raise IngestError(
                f"The file is damaged: its part '{name}' cannot be unpacked.",
                hint="Download it again, or open and save it in its program.",
            ) from error
        self._left -= len(content)
        return content

    def read_xml(self, name: str) -> Any:
        return parse_xml(self.read(name))

    def copy_with(self, changed: Mapping[str, bytes]) -> bytes:
        """Return the package with other content in some of its parts."""
        copy = io.BytesIO()
        with zipfile.ZipFile(copy, "w") as target:
            for name in self._zip.namelist():
                target.writestr(name, changed[name] if name in changed else self.read(name))
        return copy.getvalue()

    @property
    def stated_bytes(self) -> int:
        """Sum the unpacked sizes that the package states."""
        return sum(entry.file_size for entry in self._zip.infolist())

    def read_relations(self, part: str) -> dict[str, str]:
        """Return the parts that a part of an Office file refers to, by relation id."""
        folder, file = posixpath.split(part)
        name = posixpath.join(folder, "_rels", f"{file}.rels")
        if name not in self.names:
            return {}
        targets: dict[str, str] = {}
        for relation in self.read_xml(name):
            target = relation.get("Target") or ""
            if relation.get("TargetMode") == "External" or not relation.get("Id"):
                continue
            path = target.lstrip("/") if target.startswith("/") else posixpath.join(folder, target)
            targets[relation.get("Id")] = posixpath.normpath(path)
        return targets


def read_bounded(file: IO[bytes], max_bytes: int) -> bytes:
    """Read a file to its end, or raise an IngestError past `max_bytes`."""
    pieces: list[bytes] = []
    while piece := file.read(_READ_BYTES):
        max_bytes -= len(piece)
        if max_bytes < 0:
            raise make_too_large_error()
        pieces.append(piece)
    return b"".join(pieces)


def make_too_large_error() -> IngestError:
    return IngestError(
        "The file unpacks to more than is allowed; it may be a decompression bomb.",
        hint="Raise RAGSTONE_INGEST_MAX_UNPACKED_MB if you trust it.",
    )


def _open_compressed(content: bytes) -> Any:
    source = io.BytesIO(content)
    if content.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=source)
    if content.startswith(b"BZh"):
        return bz2.open(source)
    return lzma.open(source)


def _unpack_tar(source: IO[bytes], options: LoadOptions) -> Iterator[Member]:
    left = options.max_unpacked_bytes
    try:
        # Read as a stream: seeking back in a compressed TAR would unpack it again and again.
        with tarfile.open(fileobj=source, mode="r|") as archive:
            for entry in archive:
                file = archive.extractfile(entry) if entry.isfile() else None
                if file is not None:
                    inside = read_bounded(file, left)
                    left -= len(inside)
                    yield Member(entry.name, inside)
    except _ARCHIVE_ERRORS as error:
        raise _make_damaged_error("TAR", error) from error


def _make_damaged_error(kind: str, error: Exception) -> IngestError:
    return IngestError(
        f"The {kind} archive is damaged or cut off: {error}.",
        hint="Download it again; join the parts of a split archive first.",
    )
