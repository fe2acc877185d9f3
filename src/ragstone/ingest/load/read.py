"""One file to the documents in it: itself, or what an archive or mail holds.

Nesting, the number of files and the unpacked size are bounded over all levels together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ragstone.errors import IngestError
from ragstone.ingest.load import detect, encrypted
from ragstone.ingest.load.compose import one_line
from ragstone.ingest.load.package import too_large
from ragstone.reading import Loaded, LoadOptions


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
        kind = detect.kind_of(content, name)
        if kind == "encrypted-office":
            content = encrypted.opened(content, options.password)
            kind = detect.kind_of(content, name)
        part: Any = detect.part(kind)
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
        raise IngestError("The archive holds no documents.", hint=detect.KNOWN)


def shown_name(name: str) -> str:
    """A name from inside an archive as it may be shown: no way up, no root, no odd characters."""
    parts = one_line(name.replace("\\", "/")).split("/")
    return "/".join(part for part in parts if part not in {"", ".", ".."})[-300:] or "unnamed"


def is_wanted(name: str) -> bool:
    """Files with a known suffix or none; hidden ones and folders of programs' own are left out."""
    parts = name.split("/")
    if any(part.startswith((".", "__MACOSX")) for part in parts):
        return False
    return "." not in parts[-1] or detect.kind_by_name(parts[-1]) not in {None, "image"}
