"""Read every document in a file: bytes and a name in, one `ParsedPart` per document out.

The kind of a file is detected by its content first, by its name if the content does not tell. The
signatures are our own: a learned detector (magika) brings 3 MB of model and half a second of start
for types that twenty signatures and the suffix tell apart.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from ragstone.blocks import Loader, LoadOptions, ParsedPart, Unpacker
from ragstone.errors import IngestError
from ragstone.ingest.formats.archive import make_too_large_error
from ragstone.ingest.formats.compose import join_lines
from ragstone.plugins import find_part, list_parts

READABLE_HINT = (
    "Ragstone reads office files, PDF, HTML, Markdown, text, mail, data, code and archives."
)
_UNREADABLE = {
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive",
    b"Rar!\x1a\x07": "a RAR archive",
    b"MZ": "a Windows program",
    b"\x7fELF": "a program",
    b"\xca\xfe\xba\xbe": "a program",
    b"\xcf\xfa\xed\xfe": "a program",
    b"SQLite format 3\x00": "an SQLite database",
    b"OggS": "a sound recording",
    b"ID3": "a sound recording",
    b"fLaC": "a sound recording",
    b"\x00\x01\x00\x00\x00": "a font",
    b"wOFF": "a font",
    b"<stata_dta>": "a Stata data set",
}
_MAGIC = {
    "package": (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08", b"PK00PK"),
    "ole": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",),
    "compressed": (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00"),
    "image": (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\x00", b"MM\x00*", b"GIF8"),
}
_UNREADABLE_OLE = {
    "WordDocument": "a Word file from before 2007",
    "PowerPoint Document": "a PowerPoint file from before 2007",
    "__properties_version1.0": "an Outlook message (.msg)",
}
_PACKAGE_FOLDERS = {"word/": "docx", "ppt/": "pptx", "xl/": "sheet"}
_PACKAGE_TYPES = {
    "application/vnd.oasis.opendocument.text": "opendocument",
    "application/vnd.oasis.opendocument.presentation": "opendocument",
    "application/vnd.oasis.opendocument.spreadsheet": "sheet",
    "application/epub+zip": "epub",
}
_HTML = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*(?:<!--.{0,500}?-->\s*)*(?:<\?xml[^>]{0,200}\?>\s*)?"
    rb"(?:<!doctype\s+html|<html\b|<head\b|<body\b)",
    re.IGNORECASE | re.DOTALL,
)
_XML = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<\?xml\b")
_MBOX = re.compile(rb"\AFrom \S+[^\n]*\d{4}\r?\n[A-Za-z-]+:")
_MAIL_FIELD = re.compile(
    rb"^(?:Return-Path|Received|From|To|Date|Subject|Message-ID|MIME-Version|Delivered-To"
    rb"|Content-Type|DKIM-Signature|Reply-To)[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)
# Built-in kinds with a signature: text under such a name is a damaged or misnamed file. For all
# others, those of plug-ins among them, the suffix is trusted unless the content contradicts it.
_BINARY_KINDS = frozenset(
    (
        "compressed",
        "docx",
        "epub",
        "image",
        "opendocument",
        "pdf",
        "pptx",
        "rtf",
        "sheet",
        "tar",
        "zip",
    )
)


def detect_kind(content: bytes, name: str) -> str:
    """Return the kind of a file, which names its loader; raise an IngestError if it has none."""
    kind = _detect_by_magic(content)
    if kind == "package":
        return _detect_package(content)
    if kind == "ole":
        return _detect_ole(content)
    if kind is not None:
        return kind
    for magic, what in _UNREADABLE.items():
        if content.startswith(magic):
            raise IngestError(f"The file is {what}, which cannot be read.", hint=READABLE_HINT)
    return _detect_text(content, name)


def _detect_by_magic(content: bytes) -> str | None:
    head = content[:1024]
    for kind, magics in _MAGIC.items():
        if head.startswith(magics):
            return kind
    if b"%PDF-" in head:
        return "pdf"  # mail headers or other wrapping may stand before it
    if head.lstrip().startswith(b"{\\rtf"):
        return "rtf"
    if content[257:262] == b"ustar":
        return "tar"
    return "image" if head.startswith(b"RIFF") and head[8:12] == b"WEBP" else None


def _detect_package(content: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
            declared = ""
            if "mimetype" in names and archive.getinfo("mimetype").file_size < 200:
                declared = archive.read("mimetype").decode("ascii", "replace").strip()
    except (zipfile.BadZipFile, RuntimeError, ValueError, OSError, NotImplementedError, EOFError):
        return "zip"  # its loader reports what is wrong with it
    for media_type, kind in _PACKAGE_TYPES.items():
        if declared.startswith(media_type):
            return kind
    if "[Content_Types].xml" in names:
        for folder, kind in _PACKAGE_FOLDERS.items():
            if any(name.startswith(folder) for name in names):
                return kind
    return "epub" if "META-INF/container.xml" in names else "zip"


def _detect_ole(content: bytes) -> str:
    """Detect old Office files: each is a small file system whose entries have UTF-16 names."""
    if "EncryptedPackage".encode("utf-16-le") in content:
        return "encrypted-office"
    for stream, what in _UNREADABLE_OLE.items():
        if stream.encode("utf-16-le") in content:
            raise IngestError(
                f"The file is {what}, which cannot be read.",
                hint="Save it in a current format (.docx, .pptx, .eml) or as PDF.",
            )
    if any(name.encode("utf-16-le") in content for name in ("Workbook", "Book")):
        return "sheet"
    raise IngestError("The file is an old Office file of an unknown kind.", hint=READABLE_HINT)


def _detect_text(content: bytes, name: str) -> str:
    by_name = guess_kind_by_name(name)
    if by_name in _BINARY_KINDS:
        suffix = PurePosixPath(name).suffix
        raise IngestError(
            f"The file is named '{suffix}' but its content is not {suffix[1:].upper()}.",
            hint="The download may be incomplete. Check that its own program opens it.",
        )
    if by_name in {None, "text", "html", "xml", "mail"}:
        head = content[:4096]
        if _MBOX.match(head):
            return "mbox"
        if by_name == "mail" or _has_mail_headers(head):
            return "mail"
        if _HTML.match(head):
            return "html"
        if _XML.match(head) and by_name != "html":
            return "xml"
    return by_name or "text"


def _has_mail_headers(head: bytes) -> bool:
    """Require three header fields before the first blank line, one of them on the first line."""
    top = re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0]
    return _MAIL_FIELD.match(top) is not None and len(_MAIL_FIELD.findall(top)) >= 3


def guess_kind_by_name(name: str) -> str | None:
    return _map_suffixes().get(PurePosixPath(name.lower()).suffix)


@cache
def _map_suffixes() -> dict[str, str]:
    return {suffix: kind for kind in list_parts("loader") for suffix in get_loader(kind).suffixes}


@cache
def get_loader(kind: str) -> Loader | Unpacker:
    """Return the loader or unpacker of a kind, built once per process."""
    loader: Loader | Unpacker = find_part("loader", kind)()
    return loader


def is_wanted(name: str) -> bool:
    """Accept names with a known suffix or none; refuse hidden files and folders."""
    last = name.rpartition("/")[2]
    if is_hidden(name):
        return False
    return "." not in last or guess_kind_by_name(last) not in {None, "image"}


def is_hidden(name: str) -> bool:
    """Return whether a file or a folder above it is hidden, or made by a system for itself."""
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


@dataclass(slots=True)
class _Budget:
    """Count what may still be unpacked, over all levels of nesting."""

    bytes: int
    members: int

    def take(self, size: int) -> None:
        self.bytes -= size
        self.members -= 1
        if self.bytes < 0:
            raise make_too_large_error()
        if self.members < 0:
            raise IngestError(
                "The archive holds more files than are allowed.",
                hint="Raise RAGSTONE_INGEST_MAX_MEMBERS or unpack it first.",
            )


def read_parts(content: bytes, name: str, options: LoadOptions) -> Iterator[ParsedPart]:
    """Yield every document in a file. A document that cannot be read is a part with an error."""
    budget = _Budget(options.max_unpacked_bytes, options.max_members)
    yield from _read_parts(content, name, options, "", 0, budget)


def _read_parts(
    content: bytes, name: str, options: LoadOptions, member: str, depth: int, budget: _Budget
) -> Iterator[ParsedPart]:
    sha256 = hashlib.sha256(content).hexdigest()
    options = replace(options, name=name)
    try:
        if not content.strip():
            raise IngestError("The file is empty.", hint="Check that it was saved completely.")
        kind = detect_kind(content, name)
        if kind == "encrypted-office":
            content = _decrypt_office(content, options.password)
            kind = detect_kind(content, name)
        loader: Any = get_loader(kind)
        if hasattr(loader, "load"):
            loaded = loader.load(content, options)
            if not loaded.text.strip():
                raise IngestError("The file holds no text.", hint="There is nothing to search.")
            yield ParsedPart(member, sha256, loaded)
        if hasattr(loader, "unpack"):
            yield from _read_members(loader, content, options, member, depth, budget)
    except Exception as error:  # noqa: BLE001  a bug in a parser must cost one file, not the run
        reason = _explain(error, name)
        yield ParsedPart(member, sha256, error=reason.message, hint=reason.hint)


def _explain(error: Exception, name: str) -> IngestError:
    if isinstance(error, IngestError):
        return error
    if isinstance(error, RecursionError):
        return IngestError(
            "The file is nested too deeply to be read.", hint="It may be damaged or hostile."
        )
    if isinstance(error, MemoryError):
        return IngestError(
            "Reading the file takes more memory than is allowed.",
            hint="Raise RAGSTONE_INGEST_MAX_MEMORY_MB or split it.",
        )
    return IngestError(
        f"The file cannot be read: its {name.rpartition('.')[2]} parser failed "
        f"({type(error).__name__}: {join_lines(str(error))[:200]}).",
        hint="It is probably damaged. Save it again in its program.",
    )


def _read_members(
    unpacker: Any, content: bytes, options: LoadOptions, member: str, depth: int, budget: _Budget
) -> Iterator[ParsedPart]:
    is_archive = not hasattr(unpacker, "load")
    if depth >= options.max_depth:
        if is_archive:
            raise IngestError(
                f"The archive is nested more than {options.max_depth} levels deep.",
                hint="It may hold itself. Raise RAGSTONE_INGEST_MAX_DEPTH if you trust it.",
            )
        return
    counts: dict[str, int] = {}
    for inner in unpacker.unpack(content, replace(options, max_unpacked_bytes=budget.bytes)):
        budget.take(len(inner.content))
        name = clean_name(inner.name)
        if is_wanted(name):
            path = number_name(name, counts)
            path = f"{member}/{path}" if member else path
            yield from _read_parts(inner.content, name, options, path, depth + 1, budget)
    if is_archive and not counts:
        raise IngestError("The archive holds no documents.", hint=READABLE_HINT)


def clean_name(name: str) -> str:
    """Make a foreign file name safe to show: no parent folders, no root, no odd characters."""
    parts = join_lines(name.replace("\\", "/")).split("/")
    return "/".join(part for part in parts if part not in {"", ".", ".."})[-300:] or "unnamed"


def number_name(name: str, counts: dict[str, int]) -> str:
    """Return the name, with a number if it was counted before, and count it."""
    counts[name] = counts.get(name, 0) + 1
    return name if counts[name] == 1 else f"{name} ({counts[name]})"


def _decrypt_office(content: bytes, password: str | None) -> bytes:
    """Return the package inside an encrypted Office file."""
    if not password:
        raise IngestError(
            "The file is encrypted and needs a password.", hint="Give it with --password."
        )
    try:
        import msoffcrypto
        from msoffcrypto.exceptions import DecryptionError, InvalidKeyError
    except ImportError as error:
        raise IngestError(
            "The file is encrypted; the package msoffcrypto-tool, which opens it, is missing.",
            hint="Install it with: pip install 'ragstone[encrypted]'",
        ) from error
    package = io.BytesIO()
    try:
        file = msoffcrypto.OfficeFile(io.BytesIO(content))
        file.load_key(password=password)
        file.decrypt(package)
    except (InvalidKeyError, DecryptionError) as error:
        raise IngestError(
            "The file is encrypted and the password does not open it.",
            hint="Give the right password with --password.",
        ) from error
    return package.getvalue()
