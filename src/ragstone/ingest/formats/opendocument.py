"""ODT and ODP: headings, paragraphs, lists and tables of OpenDocument texts and presentations."""

from __future__ import annotations

from typing import Any, ClassVar

from ragstone.blocks import Loaded, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.compose import Composer
from ragstone.ingest.formats.xml import Package, attribute, local

_UNREAD = {"tracked-changes", "annotation-end", "sequence-decls", "forms", "bookmark-start"}


class OpenDocumentLoader:
    """`.odt`, `.ott`, `.odp`; a slide of a presentation is a page."""

    media_type: ClassVar[str] = "application/vnd.oasis.opendocument.text"
    suffixes: ClassVar[tuple[str, ...]] = (".odt", ".ott", ".odp", ".fodt")

    def load(self, content: bytes, options: LoadOptions) -> Loaded:
        package = Package(content, options)
        if _is_encrypted(package):
            raise IngestError(
                "The OpenDocument file is encrypted and needs a password.",
                hint="Save it without one; OpenDocument passwords cannot be given yet.",
            )
        if "content.xml" not in package.names:
            raise IngestError(
                "The OpenDocument file is damaged: its text is missing.", hint="Save it anew."
            )
        composer = Composer()
        for element in package.xml("content.xml"):
            if local(element) == "body":
                _blocks(element, composer)
        return composer.loaded(self.media_type, _facts(package))


def _is_encrypted(package: Package) -> bool:
    name = "META-INF/manifest.xml"
    return name in package.names and any(
        local(element) == "encryption-data" for element in package.xml(name).iter()
    )


def _blocks(parent: Any, composer: Composer, depth: int = 0) -> None:
    for element in parent:
        kind = local(element)
        if kind == "h":
            level = attribute(element, "outline-level") or "1"
            composer.heading(int(level) if level.isdigit() else 1, text_of(element))
        elif kind == "p":
            composer.paragraph(text_of(element))
            _frames(element, composer)
        elif kind == "list":
            _list(element, composer, depth)
        elif kind == "table":
            _table(element, composer)
        elif kind == "page":
            composer.page()
            _blocks(element, composer)
        elif kind and kind not in _UNREAD:
            _blocks(element, composer, depth)


def _list(element: Any, composer: Composer, depth: int) -> None:
    for item in element:
        if local(item) not in {"list-item", "list-header"}:
            continue
        for part in item:
            if local(part) == "list":
                _list(part, composer, depth + 1)
            elif local(part) in {"p", "h"}:
                composer.item(text_of(part), depth=depth)
            else:
                _blocks([part], composer, depth)


def _table(element: Any, composer: Composer) -> None:
    composer.table(
        [
            [text_of(cell) for cell in row if local(cell).endswith("table-cell")]
            for row in element.iter()
            if local(row) == "table-row"
        ]
    )


def _frames(paragraph: Any, composer: Composer) -> None:
    """Text boxes that are anchored in a paragraph."""
    for element in paragraph.iter():
        if local(element) == "text-box":
            _blocks(element, composer)


def text_of(element: Any) -> str:
    pieces: list[str] = []
    _collect(element, pieces)
    return "".join(pieces).strip()


def _collect(element: Any, pieces: list[str]) -> None:
    pieces.append(element.text or "")
    for child in element:
        kind = local(child)
        if kind == "s":
            count = attribute(child, "c") or "1"
            pieces.append(" " * min(int(count) if count.isdigit() else 1, 100))
        elif kind == "tab":
            pieces.append("\t")
        elif kind == "line-break":
            pieces.append("\n")
        elif kind == "annotation":
            pieces.append(" [" + " ".join(text_of(p) for p in child if local(p) == "p") + "] ")
        elif kind and kind not in _UNREAD and kind != "text-box":
            _collect(child, pieces)
            if kind in {"p", "h"}:
                pieces.append("\n")
        pieces.append(child.tail or "")


def _facts(package: Package) -> dict[str, Any]:
    names = {
        "title": "title", "initial-creator": "author", "creator": "author", "subject": "subject",
        "keyword": "keywords", "creation-date": "created", "date": "modified",
        "language": "language",
    }  # fmt: skip
    facts: dict[str, Any] = {}
    if "meta.xml" in package.names:
        for element in package.xml("meta.xml").iter():
            key = names.get(local(element))
            if key and element.text and element.text.strip():
                facts.setdefault(key, element.text.strip())
    return facts
