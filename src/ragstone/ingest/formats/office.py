"""Load Word documents (DOCX) and presentations (PPTX).

The XML is read directly: it keeps text boxes, content controls and tracked insertions, which
python-docx leaves out, and files that break a rule of the format are still read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from ragstone.blocks import LoadedDocument, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.archive import Package
from ragstone.ingest.formats.compose import Composer, join_lines
from ragstone.ingest.formats.xml import collect_metadata, get_attribute, get_tag

_METADATA = {
    "title": "title", "creator": "author", "subject": "subject", "keywords": "keywords",
    "created": "created", "modified": "modified", "language": "language",
}  # fmt: skip
_HEADING_STYLE = re.compile(r"heading\s*([1-9])|^title$", re.IGNORECASE)
# Text that was deleted under change tracking, instructions of fields, and drawings' fall-backs,
# which repeat what the drawing says.
_SKIPPED = {"del", "moveFrom", "instrText", "delText", "Fallback", "pPr", "rPr"}
# Elements around rows and cells that change nothing in what is shown.
_WRAPPERS = {"sdt", "sdtContent", "ins"}
_NOTES = {
    "word/footnotes.xml": "Footnotes",
    "word/endnotes.xml": "Endnotes",
    "word/comments.xml": "Comments",
}


def read_office_metadata(package: Package) -> dict[str, Any]:
    """Read title, author and dates from `docProps/core.xml`."""
    if "docProps/core.xml" not in package.names:
        return {}
    return collect_metadata(package.read_xml("docProps/core.xml"), _METADATA)


class DocxLoader:
    """Load `.docx`, also with macros or as a template."""

    media_type: ClassVar[str] = (
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    )
    suffixes: ClassVar[tuple[str, ...]] = (".docx", ".docm", ".dotx", ".dotm")

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument:
        package = Package(content, options)
        main = _find_main_part(package)
        composer = Composer()
        styles = _read_heading_styles(package)
        body = next((e for e in package.read_xml(main) if get_tag(e) == "body"), None)
        if body is not None:
            _write_blocks(body, composer, styles)
        for part, title in _NOTES.items():
            _write_notes(package, part, title, composer)
        return composer.finish(self.media_type, read_office_metadata(package))


def _find_main_part(package: Package) -> str:
    if "word/document.xml" in package.names:
        return "word/document.xml"
    for target in package.read_relations("").values():
        if target.startswith("word/") and target in package.names:
            return target
    raise IngestError(
        "The Word document is damaged: its part 'word/document.xml' is missing.",
        hint="Save it again in Word.",
    )


def _read_heading_styles(package: Package) -> dict[str, int]:
    """Map style ids to levels, for the styles that are headings by name or outline level."""
    if "word/styles.xml" not in package.names:
        return {}
    levels: dict[str, int] = {}
    for style in package.read_xml("word/styles.xml"):
        style_id = get_attribute(style, "styleId")
        if get_tag(style) != "style" or not style_id or get_attribute(style, "type") != "paragraph":
            continue
        for element in style.iter():
            value = get_attribute(element, "val") or ""
            if get_tag(element) == "name" and (match := _HEADING_STYLE.search(value)):
                levels[style_id] = int(match[1]) if match[1] else 0
            elif get_tag(element) == "outlineLvl" and value.isdigit() and int(value) < 9:
                levels.setdefault(style_id, int(value) + 1)
    return levels


def _write_blocks(parent: Any, composer: Composer, styles: dict[str, int]) -> None:
    for element in parent:
        tag = get_tag(element)
        if tag == "p":
            _write_paragraph(element, composer, styles)
        elif tag == "tbl":
            _write_table(element, composer)
        elif tag in _WRAPPERS | {"moveTo", "customXml", "smartTag"}:
            _write_blocks(element, composer, styles)


def _write_paragraph(element: Any, composer: Composer, styles: dict[str, int]) -> None:
    style, depth = None, None
    properties = next((e for e in element if get_tag(e) == "pPr"), ())
    for part in properties:
        if get_tag(part) == "pStyle":
            style = get_attribute(part, "val")
        elif get_tag(part) == "numPr":
            level = next((get_attribute(e, "val") for e in part if get_tag(e) == "ilvl"), "0")
            depth = int(level) if level and level.isdigit() else 0
    text = read_text(element)
    if style in styles and len(text) <= 300:
        composer.add_heading(styles[style or ""], text)
    elif depth is not None:
        composer.add_item(text, depth=min(depth, 8))
    else:
        composer.add_paragraph(text)


def _write_table(element: Any, composer: Composer) -> None:
    cells: list[list[str]] = []
    spans: list[dict[int, int]] = []
    head_rows = 0
    for row in _find_children(element, "tr"):
        line: list[str] = []
        covered: dict[int, int] = {}
        for cell in _find_children(row, "tc"):
            settings = _read_settings(cell, "tcPr")
            width = settings.get("gridSpan", "")
            count = min(int(width), 200) if width.isdecimal() else 1
            text = read_text(cell)
            if settings.get("vMerge", "restart") != "restart" and cells:
                # The rest of a cell over several rows: it belongs to every one of them.
                text = text or dict(enumerate(cells[-1])).get(len(line), "")
            if count > 1:
                covered[len(line)] = count
            line += [text, *[""] * (count - 1)]
        if "tblHeader" in _read_settings(row, "trPr") and head_rows == len(cells):
            head_rows += 1
        cells.append(line)
        spans.append(covered)
    composer.add_table(cells, spans, head_rows=head_rows or None)


def _read_settings(element: Any, tag: str) -> dict[str, str]:
    """Return the properties of a row or a cell by name; "" for one without a value."""
    properties = next((child for child in element if get_tag(child) == tag), ())
    return {get_tag(one): get_attribute(one, "val") or "" for one in properties}


def _find_children(parent: Any, tag: str) -> Iterator[Any]:
    """Yield the rows of a table or the cells of a row, also those inside a wrapper."""
    for element in parent:
        if get_tag(element) == tag:
            yield element
        elif get_tag(element) in _WRAPPERS:
            yield from _find_children(element, tag)


def read_text(element: Any) -> str:
    """Read the text below an element, with tabs, breaks and paragraph ends as white space."""
    pieces: list[str] = []
    _collect_text(element, pieces)
    return "".join(pieces).strip()


def _collect_text(element: Any, pieces: list[str]) -> None:
    for child in element:
        tag = get_tag(child)
        if tag in _SKIPPED or not tag:
            continue
        if tag == "t":
            pieces.append(child.text or "")
        elif tag == "tab":
            pieces.append("\t")
        elif tag in {"br", "cr"}:
            pieces.append("\n")
        elif tag == "noBreakHyphen":
            pieces.append("-")
        else:
            _collect_text(child, pieces)
            if tag == "p":
                pieces.append("\n")


def _write_notes(package: Package, part: str, title: str, composer: Composer) -> None:
    if part not in package.names:
        return
    texts = [
        read_text(note)
        for note in package.read_xml(part)
        if get_attribute(note, "type") not in {"separator", "continuationSeparator"}
    ]
    if any(texts):
        composer.add_heading(1, title)
        for text in texts:
            composer.add_item(text)


_TITLE_ROLES = {"title", "ctrTitle"}
# Placeholders that hold the slide's number, date and footer, the same on every slide.
_REPEATED_ROLES = {"sldNum", "dt", "ftr", "hdr"}
_SLIDE = re.compile(r"ppt/slides/slide(\d+)\.xml")


class PptxLoader:
    """Load `.pptx`; a slide is a page and its title a heading."""

    media_type: ClassVar[str] = (
        "application/vnd.openxmlformats-officedocument.presentationml.presentation"
    )
    suffixes: ClassVar[tuple[str, ...]] = (".pptx", ".pptm", ".ppsx", ".potx")

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument:
        package = Package(content, options)
        slides = _list_slides(package)
        if len(slides) > options.max_pages:
            raise IngestError(
                f"The presentation has {len(slides)} slides, more than the {options.max_pages} "
                "allowed.",
                hint="Raise RAGSTONE_INGEST_MAX_PAGES or split it.",
            )
        composer = Composer()
        for name in slides:
            composer.begin_page()
            _write_shapes(package.read_xml(name), composer)
            for target in package.read_relations(name).values():
                if target in package.names:
                    _write_related_part(package, target, composer)
        metadata = read_office_metadata(package) | {"pages": len(slides)}
        return composer.finish(self.media_type, metadata)


def _list_slides(package: Package) -> list[str]:
    """List the slides in the order in which they are shown."""
    main = "ppt/presentation.xml"
    if main in package.names:
        relations = package.read_relations(main)
        # The relation of an entry is one of its two `id` attributes; only the namespace differs.
        shown = [
            relations[value]
            for element in package.read_xml(main)
            if get_tag(element) == "sldIdLst"
            for entry in element
            for value in entry.attrib.values()
            if relations.get(value) in package.names
        ]
        if shown:
            return shown
    numbered = [(int(m[1]), name) for name in package.names if (m := _SLIDE.fullmatch(name))]
    return [name for _, name in sorted(numbered)]


def _write_related_part(package: Package, name: str, composer: Composer) -> None:
    """Write the notes, comments, charts and diagrams of a slide."""
    if name.startswith("ppt/notesSlides/"):
        notes = [
            text
            for shape in package.read_xml(name).iter()
            if get_tag(shape) == "sp" and _get_role(shape) not in _REPEATED_ROLES | {"sldImg"}
            for _, text in _read_paragraphs(shape)
        ]
        if notes:
            composer.add_paragraph("Notes: " + "\n".join(notes))
    elif name.startswith("ppt/comments/"):
        for element in package.read_xml(name).iter():
            if get_tag(element) == "text" and element.text:
                composer.add_paragraph(f"Comment: {element.text}")
    elif name.startswith(("ppt/charts/chart", "ppt/diagrams/data")):
        elements = (e for e in package.read_xml(name).iter() if get_tag(e) in {"t", "v"})
        labels = [join_lines(e.text) for e in elements if e.text and e.text.strip()]
        composer.add_paragraph(" · ".join(dict.fromkeys(labels)))


def _write_shapes(root: Any, composer: Composer) -> None:
    for element in root.iter():
        tag = get_tag(element)
        if tag == "sp":
            role = _get_role(element)
            if role in _TITLE_ROLES:
                composer.add_heading(1, _read_line(element))
            elif role not in _REPEATED_ROLES:
                _write_body(element, composer, is_list=role in {"body", "subTitle"})
        elif tag == "tbl":
            rows = [row for row in element if get_tag(row) == "tr"]
            cells = [[cell for cell in row if get_tag(cell) == "tc"] for row in rows]
            composer.add_table(
                [[_read_line(cell) for cell in row] for row in cells],
                [
                    {at: int(c.get("gridSpan")) for at, c in enumerate(row) if c.get("gridSpan")}
                    for row in cells
                ],
            )


def _write_body(shape: Any, composer: Composer, *, is_list: bool) -> None:
    paragraphs = _read_paragraphs(shape)
    for depth, text in paragraphs:
        if (is_list and len(paragraphs) > 1) or depth:
            composer.add_item(text, depth=depth)
        else:
            composer.add_paragraph(text)


def _get_role(shape: Any) -> str:
    for element in shape.iter():
        if get_tag(element) == "ph":
            return get_attribute(element, "type") or "body"
    return ""


def _read_line(shape: Any) -> str:
    return " ".join(text for _, text in _read_paragraphs(shape))


def _read_paragraphs(shape: Any) -> list[tuple[int, str]]:
    """Return the paragraphs of a shape with their depth in the list."""
    paragraphs: list[tuple[int, str]] = []
    for paragraph in shape.iter():
        if get_tag(paragraph) != "p":
            continue
        pieces, depth = [], 0
        for element in paragraph.iter():
            tag = get_tag(element)
            if tag == "t":
                pieces.append(element.text or "")
            elif tag in {"br", "tab"}:
                pieces.append(" ")
            elif tag == "pPr":
                level = get_attribute(element, "lvl") or "0"
                depth = int(level) if level.isdigit() else 0
        text = join_lines("".join(pieces))
        if text:
            paragraphs.append((depth, text))
    return paragraphs
