"""Read every document in a file: bytes and a name in, one `ParsedPart` per document out."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ragstone.blocks import LoadOptions, ParsedPart
from ragstone.errors import IngestError
from ragstone.ingest.formats.archive import make_too_large_error
from ragstone.ingest.formats.compose import join_lines
from ragstone.ingest.formats.detect import READABLE_HINT, detect_kind, get_loader, is_wanted


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
