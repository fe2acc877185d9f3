"""EPUB: the chapters in reading order, each read as HTML."""

from __future__ import annotations

import posixpath
from typing import Any, ClassVar
from urllib.parse import unquote

from ragstone.errors import IngestError
from ragstone.ingest.load.compose import Composer
from ragstone.ingest.load.html import parse_html, write_html
from ragstone.ingest.load.package import Package
from ragstone.ingest.load.xml_tree import local
from ragstone.reading import Loaded, LoadOptions


class EpubLoader:
    """Read with the standard library: the known EPUB library is under the AGPL."""

    media_type: ClassVar[str] = "application/epub+zip"
    suffixes: ClassVar[tuple[str, ...]] = (".epub",)

    def load(self, content: bytes, options: LoadOptions) -> Loaded:
        package = Package(content, options)
        if "META-INF/encryption.xml" in package.names and any(
            "content.xml" in name for name in package.names
        ):
            raise IngestError("The book is protected against reading.", hint="Use one that is not.")
        outline = _outline(package)
        root = package.xml(outline)
        composer = Composer()
        for chapter in _chapters(root, posixpath.dirname(outline)):
            if chapter in package.names:
                markup = package.read(chapter)
                if markup.strip():
                    write_html(parse_html(markup), composer)
        return composer.loaded(self.media_type, _facts(root))


def _outline(package: Package) -> str:
    """The OPF file that lists the book's parts."""
    if "META-INF/container.xml" in package.names:
        for element in package.xml("META-INF/container.xml").iter():
            path = element.get("full-path") if local(element) == "rootfile" else None
            if path in package.names:
                return str(path)
    for name in sorted(package.names):
        if name.endswith(".opf"):
            return name
    raise IngestError("The book is damaged: its list of parts is missing.", hint="Get it again.")


def _chapters(root: Any, folder: str) -> list[str]:
    files = {
        element.get("id"): posixpath.normpath(posixpath.join(folder, unquote(element.get("href"))))
        for element in root.iter()
        if local(element) == "item" and element.get("href")
    }
    order = [element.get("idref") for element in root.iter() if local(element) == "itemref"]
    return [files[identity] for identity in order if identity in files]


def _facts(root: Any) -> dict[str, Any]:
    names = {"title": "title", "creator": "author", "language": "language", "date": "created"}
    facts: dict[str, Any] = {}
    for element in root.iter():
        key = names.get(local(element))
        if key and element.text and element.text.strip():
            facts.setdefault(key, element.text.strip())
    return facts
