"""Load ODT and ODP: headings, paragraphs, lists and tables of texts and presentations."""

from __future__ import annotations

from typing import Any, ClassVar

from ragstone.blocks import LoadedDocument, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.archive import Package
from ragstone.ingest.formats.compose import Cell, Composer, spread_cells
from ragstone.ingest.formats.xml import collect_metadata, get_attribute, get_tag

_SKIPPED = {"tracked-changes", "annotation-end", "sequence-decls", "forms", "bookmark-start"}
_METADATA = {
    "title": "title", "initial-creator": "author", "creator": "author", "subject": "subject",
    "keyword": "keywords", "creation-date": "created", "date": "modified", "language": "language",
}  # fmt: skip


class OpenDocumentLoader:
    """Load `.odt`, `.ott`, `.odp`; a slide of a presentation is a page."""

    media_type: ClassVar[str] = "application/vnd.oasis.opendocument.text"
    suffixes: ClassVar[tuple[str, ...]] = (".odt", ".ott", ".odp", ".fodt")

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument:
        package = Package(content, options)
        if _is_encrypted(package):
            raise IngestError(
                "The OpenDocument file is encrypted and needs a password.",
                hint="Save it without a password; Ragstone cannot open encrypted OpenDocument.",
            )
        if "content.xml" not in package.names:
            raise IngestError(
                "The OpenDocument file is damaged: its part 'content.xml' is missing.",
                hint="Save the file again.",
            )
        composer = Composer()
        for element in package.read_xml("content.xml"):
            if get_tag(element) == "body":
                _write_blocks(element, composer)
        metadata = {}
        if "meta.xml" in package.names:
            metadata = collect_metadata(package.read_xml("meta.xml").iter(), _METADATA)
        return composer.finish(self.media_type, metadata)


def _is_encrypted(package: Package) -> bool:
    name = "META-INF/manifest.xml"
    return name in package.names and any(
        get_tag(element) == "encryption-data" for element in package.read_xml(name).iter()
    )


def _write_blocks(parent: Any, composer: Composer, depth: int = 0) -> None:
    for element in parent:
        tag = get_tag(element)
        if tag == "h":
            level = get_attribute(element, "outline-level") or "1"
            composer.add_heading(int(level) if level.isdigit() else 1, read_text(element))
        elif tag == "p":
            composer.add_paragraph(read_text(element))
            for inner in element.iter():
                if get_tag(inner) == "text-box":  # anchored in the paragraph
                    _write_blocks(inner, composer)
        elif tag == "list":
            _write_list(element, composer, depth)
        elif tag == "table":
            _write_table(element, composer)
        elif tag == "page":
            composer.begin_page()
            _write_blocks(element, composer)
        elif tag and tag not in _SKIPPED:
            _write_blocks(element, composer, depth)


def _write_table(element: Any, composer: Composer) -> None:
    rows = [row for row in element.iter() if get_tag(row) == "table-row"]
    heads = sum(get_tag(row.getparent()) == "table-header-rows" for row in rows)
    cells = [
        [
            Cell(read_text(cell), columns=_read_count(cell, "number-columns-spanned"))
            for cell in row
            if get_tag(cell) == "table-cell"
        ]
        for row in rows
    ]
    composer.add_table(*spread_cells(cells), head_rows=heads or None)


def _read_count(element: Any, name: str) -> int:
    value = get_attribute(element, name) or "1"
    return int(value) if value.isdecimal() and len(value) <= 4 else 1


def _write_list(element: Any, composer: Composer, depth: int) -> None:
    for item in element:
        if get_tag(item) not in {"list-item", "list-header"}:
            continue
        for part in item:
            if get_tag(part) == "list":
                _write_list(part, composer, depth + 1)
            elif get_tag(part) in {"p", "h"}:
                composer.add_item(read_text(part), depth=depth)
            else:
                _write_blocks([part], composer, depth)


def read_text(element: Any) -> str:
    pieces: list[str] = []
    _collect_text(element, pieces)
    return "".join(pieces).strip()


def _collect_text(element: Any, pieces: list[str]) -> None:
    pieces.append(element.text or "")
    for child in element:
        tag = get_tag(child)
        if tag == "s":
            count = get_attribute(child, "c") or "1"
            pieces.append(" " * min(int(count) if count.isdigit() else 1, 100))
        elif tag == "tab":
            pieces.append("\t")
        elif tag == "line-break":
            pieces.append("\n")
        elif tag == "annotation":
            pieces.append(" [" + " ".join(read_text(p) for p in child if get_tag(p) == "p") + "] ")
        elif tag and tag not in _SKIPPED and tag != "text-box":
            _collect_text(child, pieces)
            if tag in {"p", "h"}:
                pieces.append("\n")
        pieces.append(child.tail or "")
