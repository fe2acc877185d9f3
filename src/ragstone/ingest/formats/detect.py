"""What a file is: decided by its content first, by its name where content is silent.

Magic numbers of our own: a learned detector (magika) brings 3 MB of model and half a second of
start for types that twenty signatures and the suffix tell apart.
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

from ragstone.blocks import Loaded, Loader, LoadOptions, Unpacker
from ragstone.errors import IngestError
from ragstone.ingest.formats.compose import one_line
from ragstone.ingest.formats.xml import too_large
from ragstone.plugins import available, find

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
_OLE_STREAMS = (
    ("EncryptedPackage", "encrypted-office"),
    ("WordDocument", "a Word file of before 2007"),
    ("PowerPoint Document", "a PowerPoint file of before 2007"),
    ("__properties_version1.0", "an Outlook message (.msg)"),
)
_PACKAGES = (
    ("word/", "docx"), ("ppt/", "pptx"), ("xl/", "sheet"),
)  # fmt: skip
_MIMETYPES = {
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
# Suffixes whose files are taken at their word when nothing in the content speaks against it.
_TEXT_KINDS = ("markdown", "table", "json", "xml", "html", "mail", "mbox", "code", "text")


def kind_of(content: bytes, name: str) -> str:
    """The loader that reads a file; an IngestError says why there is none."""
    kind = _kind_by_magic(content)
    if kind == "package":
        return _kind_of_package(content)
    if kind == "ole":
        return _kind_of_ole(content)
    if kind is not None:
        return kind
    for magic, what in _UNREADABLE.items():
        if content.startswith(magic):
            raise IngestError(f"The file is {what}, which cannot be read.", hint=KNOWN)
    return _kind_of_text(content, name)


def _kind_by_magic(content: bytes) -> str | None:
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


KNOWN = "Ragstone reads office files, PDF, HTML, Markdown, text, mail, data, code and archives."


def _kind_of_package(content: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
            declared = ""
            if "mimetype" in names and archive.getinfo("mimetype").file_size < 200:
                declared = archive.read("mimetype").decode("ascii", "replace").strip()
    except (zipfile.BadZipFile, RuntimeError, ValueError, OSError, NotImplementedError, EOFError):
        return "zip"  # its loader says what is wrong with it
    for prefix, kind in _MIMETYPES.items():
        if declared.startswith(prefix):
            return kind
    if "[Content_Types].xml" in names:
        for folder, kind in _PACKAGES:
            if any(name.startswith(folder) for name in names):
                return kind
    if "META-INF/container.xml" in names:
        return "epub"
    return "zip"


def _kind_of_ole(content: bytes) -> str:
    """Old Office files are a small file system; its entries have UTF-16 names."""
    for stream, what in _OLE_STREAMS:
        if stream.encode("utf-16-le") in content:
            if what == "encrypted-office":
                return what
            raise IngestError(
                f"The file is {what}, which cannot be read.",
                hint="Save it in today's format (.docx, .pptx, .eml) or as PDF.",
            )
    if any(name.encode("utf-16-le") in content for name in ("Workbook", "Book")):
        return "sheet"
    raise IngestError("The file is an old Office file of an unknown kind.", hint=KNOWN)


def _kind_of_text(content: bytes, name: str) -> str:
    by_name = kind_by_name(name)
    if by_name is not None and by_name not in _TEXT_KINDS:
        raise IngestError(
            f"The file is no {PurePosixPath(name).suffix[1:].upper()}, although its name says so.",
            hint="A download may have been cut off; open it in its program to see.",
        )
    if by_name in {None, "text", "html", "xml", "mail"}:
        head = content[:4096]
        if _MBOX.match(head):
            return "mbox"
        if by_name == "mail" or _looks_like_mail(head):
            return "mail"
        if _HTML.match(head):
            return "html"
        if _XML.match(head) and by_name != "html":
            return "xml"
    return by_name or "text"


def _looks_like_mail(head: bytes) -> bool:
    """At least three header fields before the first blank line, and the first line is one."""
    top = re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0]
    return _MAIL_FIELD.match(top) is not None and len(_MAIL_FIELD.findall(top)) >= 3


def kind_by_name(name: str) -> str | None:
    return _suffixes().get(PurePosixPath(name.lower()).suffix)


def known_suffixes() -> set[str]:
    return set(_suffixes())


@cache
def _suffixes() -> dict[str, str]:
    return {suffix: kind for kind in available("loader") for suffix in loader_for(kind).suffixes}


@cache
def loader_for(kind: str) -> Loader | Unpacker:
    """The loader or unpacker of a kind, built once per process."""
    made: Loader | Unpacker = find("loader", kind)()
    return made


def decrypt_office(content: bytes, password: str | None) -> bytes:
    """The package inside an encrypted Office file."""
    if not password:
        raise IngestError(
            "The file is encrypted and needs a password.", hint="Give it with --password."
        )
    try:
        import msoffcrypto
        from msoffcrypto.exceptions import DecryptionError, InvalidKeyError
    except ImportError as error:
        raise IngestError(
            "The file is encrypted, and what opens it is not installed.",
            hint="Install it with: pip install 'ragstone[encrypted]'",
        ) from error
    package = io.BytesIO()
    try:
        file = msoffcrypto.OfficeFile(io.BytesIO(content))
        file.load_key(password=password)
        file.decrypt(package)
    except (InvalidKeyError, DecryptionError) as error:
        raise IngestError(
            "The file is encrypted and the password given does not open it.",
            hint="Give the right one with --password.",
        ) from error
    return package.getvalue()


@dataclass(frozen=True, slots=True)
class Part:
    """One document of a file. `member` is its place inside, empty for the file itself."""

    member: str
    sha256: str
    loaded: Loaded | None = None
    error: str = ""
    hint: str = ""


class _Budget:
    """What may still be unpacked, over all levels of nesting."""

    def __init__(self, options: LoadOptions) -> None:
        self.bytes = options.max_unpacked_bytes
        self.members = options.max_members

    def take(self, size: int) -> None:
        self.bytes -= size
        self.members -= 1
        if self.bytes < 0:
            raise too_large()
        if self.members < 0:
            raise IngestError(
                "The archive holds more files than are allowed.",
                hint="Raise RAGSTONE_INGEST_MAX_MEMBERS or unpack it first.",
            )


def read(content: bytes, name: str, options: LoadOptions) -> Iterator[Part]:
    """Every document in a file. What cannot be read is a part with an error, not an exception."""
    yield from _read(content, name, options, "", 0, _Budget(options))


def _read(
    content: bytes, name: str, options: LoadOptions, member: str, depth: int, budget: _Budget
) -> Iterator[Part]:
    sha256 = hashlib.sha256(content).hexdigest()
    options = replace(options, name=name)
    try:
        if not content.strip():
            raise IngestError("The file is empty.", hint="There is nothing to read in it.")
        kind = kind_of(content, name)
        if kind == "encrypted-office":
            content = decrypt_office(content, options.password)
            kind = kind_of(content, name)
        part: Any = loader_for(kind)
        if hasattr(part, "load"):
            yield Part(member, sha256, _with_text(part.load(content, options)))
        if hasattr(part, "unpack"):
            yield from _members(part, content, options, member, depth, budget)
    except IngestError as error:
        yield Part(member, sha256, error=error.message, hint=error.hint)
    except RecursionError:
        yield Part(
            member, sha256, error="The file is nested too deeply to be read.",
            hint="It may be damaged or hostile.",
        )  # fmt: skip
    except MemoryError:
        yield Part(
            member, sha256, error="Reading the file takes more memory than is allowed.",
            hint="Raise RAGSTONE_INGEST_MAX_MEMORY_MB or split it.",
        )  # fmt: skip
    except Exception as error:  # noqa: BLE001  a parser's own bug must cost one file, not the run
        yield Part(
            member, sha256,
            error=f"The file cannot be read: its {name.rpartition('.')[2]} parser failed "
            f"({type(error).__name__}: {one_line(str(error))[:200]}).",
            hint="It is probably damaged; save it anew in its program.",
        )  # fmt: skip


def _with_text(loaded: Loaded) -> Loaded:
    if not loaded.text.strip():
        raise IngestError("The file holds no text.", hint="There is nothing to search.")
    return loaded


def _members(
    part: Any, content: bytes, options: LoadOptions, member: str, depth: int, budget: _Budget
) -> Iterator[Part]:
    is_archive = not hasattr(part, "load")
    if depth >= options.max_depth:
        if is_archive:
            raise IngestError(
                f"The archive is nested more than {options.max_depth} levels deep.",
                hint="It may hold itself. Raise RAGSTONE_INGEST_MAX_DEPTH if you trust it.",
            )
        return
    seen: dict[str, int] = {}
    found = 0
    for inner in part.unpack(content, replace(options, max_unpacked_bytes=budget.bytes)):
        budget.take(len(inner.content))
        name = shown_name(inner.name)
        if not is_wanted(name):
            continue
        seen[name] = seen.get(name, 0) + 1
        shown = name if seen[name] == 1 else f"{name} ({seen[name]})"
        place = f"{member}/{shown}" if member else shown
        for inside in _read(inner.content, name, options, place, depth + 1, budget):
            found += 1
            yield inside
    if is_archive and not found:
        raise IngestError("The archive holds no documents.", hint=KNOWN)


def shown_name(name: str) -> str:
    """A name from inside an archive as it may be shown: no way up, no root, no odd characters."""
    parts = one_line(name.replace("\\", "/")).split("/")
    return "/".join(part for part in parts if part not in {"", ".", ".."})[-300:] or "unnamed"


def is_wanted(name: str) -> bool:
    """Files with a known suffix or none; hidden ones and folders of programs' own are left out."""
    parts = name.split("/")
    if any(part.startswith((".", "__MACOSX")) for part in parts):
        return False
    return "." not in parts[-1] or kind_by_name(parts[-1]) not in {None, "image"}
