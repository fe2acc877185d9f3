"""Archives: ZIP, TAR and single compressed files, to the files inside, one at a time.

Names inside are shown to people and never used as paths; nothing is written to the disk. Sizes are
counted while unpacking, because those that an archive states may be lies.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, Any, ClassVar

from ragstone.blocks import LoadOptions, Member
from ragstone.errors import IngestError
from ragstone.ingest.formats.xml import too_large

_PIECE = 1 << 20
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError,
           NotImplementedError, ValueError)  # fmt: skip


class ZipUnpacker:
    """`.zip`; a password serves the classic encryption of ZIP files."""

    media_type: ClassVar[str] = "application/zip"
    suffixes: ClassVar[tuple[str, ...]] = (".zip",)

    def unpack(self, content: bytes, options: LoadOptions) -> Iterator[Member]:
        left = options.max_unpacked_bytes
        failure: IngestError | None = None
        try:
            archive = zipfile.ZipFile(io.BytesIO(content))
        except _BROKEN as error:
            raise _damaged("ZIP", error) from error
        for entry in archive.infolist():
            if entry.is_dir():
                continue
            try:
                inside = _zip_entry(archive, entry, left, options.password)
            except RuntimeError:
                failure = _encrypted()  # what can be read is read before it is reported
                continue
            except _BROKEN as error:
                failure = failure or _damaged("ZIP", error)
                continue
            left -= len(inside)
            yield Member(entry.filename, inside)
        if failure is not None:
            raise failure


class TarUnpacker:
    """`.tar`, also compressed; links and devices in it are left out."""

    media_type: ClassVar[str] = "application/x-tar"
    suffixes: ClassVar[tuple[str, ...]] = (".tar", ".tgz", ".tbz2", ".txz")

    def unpack(self, content: bytes, options: LoadOptions) -> Iterator[Member]:
        yield from _tar_members(io.BytesIO(content), options)


class CompressedUnpacker:
    """`.gz`, `.bz2`, `.xz`: one file, or a TAR, which is then read as it streams."""

    media_type: ClassVar[str] = "application/gzip"
    suffixes: ClassVar[tuple[str, ...]] = (".gz", ".bz2", ".xz")

    def unpack(self, content: bytes, options: LoadOptions) -> Iterator[Member]:
        with _opened(content) as head:
            try:
                is_tar = head.read(262)[257:] == b"ustar"
            except _BROKEN as error:
                raise _damaged("compressed file", error) from error
        with _opened(content) as file:
            if is_tar:
                yield from _tar_members(file, options)
                return
            try:
                inside = _bounded(file, options.max_unpacked_bytes)
            except _BROKEN as error:
                raise _damaged("compressed file", error) from error
        yield Member(PurePosixPath(options.name).stem or "content", inside)


def _opened(content: bytes) -> Any:
    source = io.BytesIO(content)
    if content.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=source)
    if content.startswith(b"BZh"):
        return bz2.open(source)
    return lzma.open(source)


def _tar_members(source: IO[bytes], options: LoadOptions) -> Iterator[Member]:
    left = options.max_unpacked_bytes
    try:
        # Read as a stream: seeking back in a compressed TAR would unpack it again and again.
        with tarfile.open(fileobj=source, mode="r|") as archive:
            for entry in archive:
                file = archive.extractfile(entry) if entry.isfile() else None
                if file is not None:
                    inside = _bounded(file, left)
                    left -= len(inside)
                    yield Member(entry.name, inside)
    except _BROKEN as error:
        raise _damaged("TAR", error) from error


def _zip_entry(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int, password: str | None
) -> bytes:
    with archive.open(entry, pwd=password.encode() if password else None) as file:
        return _bounded(file, most)


def _bounded(file: IO[bytes], most: int) -> bytes:
    pieces: list[bytes] = []
    while piece := file.read(_PIECE):
        most -= len(piece)
        if most < 0:
            raise too_large()
        pieces.append(piece)
    return b"".join(pieces)


def _encrypted() -> IngestError:
    return IngestError(
        "The archive is encrypted and needs a password, or the one given is wrong.",
        hint="Give it with --password; archives with AES encryption must be unpacked first.",
    )


def _damaged(kind: str, error: Exception) -> IngestError:
    return IngestError(
        f"The {kind} archive is damaged or cut off: {error}.",
        hint="Get it again; parts of a split archive must be joined first.",
    )
