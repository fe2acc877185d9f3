"""Files that are ZIP packages inside: DOCX, PPTX, XLSX, ODT, EPUB. Bytes to their named parts."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from typing import Any

from ragstone.errors import IngestError
from ragstone.ingest.load import xml_tree
from ragstone.reading import LoadOptions

_PIECE = 1 << 20


class Package:
    """An open package. What is read from it in all is bounded by `max_unpacked_bytes`."""

    def __init__(self, content: bytes, options: LoadOptions) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            raise IngestError(
                "The file is damaged: the package around its content cannot be opened.",
                hint="A download may have been cut off; get it again or save it anew.",
            ) from error
        self._left = options.max_unpacked_bytes
        self.names = frozenset(self._zip.namelist())

    def read(self, name: str) -> bytes:
        """One part, counted while it is unpacked: the sizes that a package states may be lies."""
        pieces: list[bytes] = []
        try:
            with self._zip.open(name) as part:
                while piece := part.read(_PIECE):
                    self._left -= len(piece)
                    if self._left < 0:
                        raise too_large()
                    pieces.append(piece)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError,
                NotImplementedError) as error:  # fmt: skip
            raise IngestError(
                f"The file is damaged: its part '{name}' cannot be unpacked.",
                hint="Get it again, or open it in its program and save it anew.",
            ) from error
        return b"".join(pieces)

    def xml(self, name: str) -> Any:
        return xml_tree.parse(self.read(name))

    @property
    def stated_size(self) -> int:
        """What the package says that it unpacks to."""
        return sum(entry.file_size for entry in self._zip.infolist())

    def words(self, name: str, tags: set[str]) -> list[str]:
        """The texts of all elements with one of these names in a part."""
        found = (
            " ".join((element.text or "").split())
            for element in self.xml(name).iter()
            if xml_tree.local(element) in tags
        )
        return [text for text in found if text]

    def relations(self, part: str) -> dict[str, str]:
        """The parts that a part of an Office file points to, by relation id."""
        folder, file = posixpath.split(part)
        name = posixpath.join(folder, "_rels", f"{file}.rels")
        if name not in self.names:
            return {}
        found: dict[str, str] = {}
        for relation in self.xml(name):
            target = relation.get("Target") or ""
            if relation.get("TargetMode") == "External" or not relation.get("Id"):
                continue
            path = target.lstrip("/") if target.startswith("/") else posixpath.join(folder, target)
            found[relation.get("Id")] = posixpath.normpath(path)
        return found

    def close(self) -> None:
        self._zip.close()


def too_large() -> IngestError:
    return IngestError(
        "The file unpacks to more than is allowed; it may be a decompression bomb.",
        hint="Raise RAGSTONE_INGEST_MAX_UNPACKED_MB if you trust it.",
    )


def office_facts(package: Package) -> dict[str, Any]:
    """Title, author and dates from `docProps/core.xml`."""
    if "docProps/core.xml" not in package.names:
        return {}
    names = {
        "title": "title", "creator": "author", "subject": "subject", "keywords": "keywords",
        "created": "created", "modified": "modified", "language": "language",
    }  # fmt: skip
    facts: dict[str, Any] = {}
    for element in package.xml("docProps/core.xml"):
        key = names.get(xml_tree.local(element))
        if key and element.text and element.text.strip():
            facts[key] = element.text.strip()
    return facts
