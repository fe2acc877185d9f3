"""DOCX: paragraphs, headings, lists, tables, footnotes and comments of a Word document.

The XML is read directly: it keeps text boxes, content controls and tracked insertions, which
python-docx leaves out, and files that break a rule of the format are still read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from ragstone.blocks import Loaded, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.compose import Composer, one_line
from ragstone.ingest.formats.xml import Package, attribute, local, office_facts

_HEADING_STYLE = re.compile(r"heading\s*([1-9])|^title$", re.IGNORECASE)
# Text that was deleted under change tracking, instructions of fields, and drawings' fall-backs,
# which repeat what the drawing says.
_UNREAD = {"del", "moveFrom", "instrText", "delText", "Fallback", "pPr", "rPr"}


class DocxLoader:
    """`.docx` and its relatives with macros or as templates."""

    media_type: ClassVar[str] = (
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    )
    suffixes: ClassVar[tuple[str, ...]] = (".docx", ".docm", ".dotx", ".dotm")

    def load(self, content: bytes, options: LoadOptions) -> Loaded:
        package = Package(content, options)
        main = _main_part(package)
        composer = Composer()
        styles = _heading_styles(package)
        body = next((e for e in package.xml(main) if local(e) == "body"), None)
        if body is not None:
            _blocks(body, composer, styles)
        for part, title in (
            ("word/footnotes.xml", "Footnotes"),
            ("word/endnotes.xml", "Endnotes"),
            ("word/comments.xml", "Comments"),
        ):
            _notes(package, part, title, composer)
        return composer.loaded(self.media_type, office_facts(package))


def _main_part(package: Package) -> str:
    if "word/document.xml" in package.names:
        return "word/document.xml"
    for target in package.relations("").values():
        if target.startswith("word/") and target in package.names:
            return target
    raise IngestError(
        "The Word document is damaged: its text is missing.", hint="Save it anew in Word."
    )


def _heading_styles(package: Package) -> dict[str, int]:
    """Style id → heading level, for the styles that are headings by name or outline level."""
    if "word/styles.xml" not in package.names:
        return {}
    levels: dict[str, int] = {}
    for style in package.xml("word/styles.xml"):
        identity = attribute(style, "styleId")
        if local(style) != "style" or not identity or attribute(style, "type") != "paragraph":
            continue
        for element in style.iter():
            if local(element) == "name":
                match = _HEADING_STYLE.search(attribute(element, "val") or "")
                if match:
                    levels[identity] = int(match[1]) if match[1] else 1
            elif local(element) == "outlineLvl":
                outline = attribute(element, "val") or ""
                if outline.isdigit() and int(outline) < 9:
                    levels.setdefault(identity, int(outline) + 1)
    return levels


def _blocks(parent: Any, composer: Composer, styles: dict[str, int]) -> None:
    for element in parent:
        kind = local(element)
        if kind == "p":
            _paragraph(element, composer, styles)
        elif kind == "tbl":
            composer.table([[text_of(cell) for cell in _cells(row)] for row in _rows(element)])
        elif kind in {"sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag"}:
            _blocks(element, composer, styles)


def _paragraph(element: Any, composer: Composer, styles: dict[str, int]) -> None:
    style, depth = None, None
    properties = next((e for e in element if local(e) == "pPr"), ())
    for part in properties:
        if local(part) == "pStyle":
            style = attribute(part, "val")
        elif local(part) == "numPr":
            level = next((attribute(e, "val") for e in part if local(e) == "ilvl"), "0")
            depth = int(level) if level and level.isdigit() else 0
    text = text_of(element)
    if style in styles and len(text) <= 300:
        composer.heading(styles[style or ""], text)
    elif depth is not None:
        composer.item(text, depth=min(depth, 8))
    else:
        composer.paragraph(text)


def _rows(table: Any) -> Iterator[Any]:
    for element in table:
        if local(element) == "tr":
            yield element
        elif local(element) in {"sdt", "sdtContent", "ins"}:
            yield from _rows(element)


def _cells(row: Any) -> Iterator[Any]:
    for element in row:
        if local(element) == "tc":
            yield element
        elif local(element) in {"sdt", "sdtContent", "ins"}:
            yield from _cells(element)


def text_of(element: Any) -> str:
    """The text below an element, with tabs, breaks and paragraph ends as white space."""
    pieces: list[str] = []
    _collect(element, pieces)
    return "".join(pieces).strip()


def _collect(element: Any, pieces: list[str]) -> None:
    for child in element:
        kind = local(child)
        if kind in _UNREAD or not kind:
            continue
        if kind == "t":
            pieces.append(child.text or "")
        elif kind == "tab":
            pieces.append("\t")
        elif kind in {"br", "cr"}:
            pieces.append("\n")
        elif kind == "noBreakHyphen":
            pieces.append("-")
        else:
            _collect(child, pieces)
            if kind == "p":
                pieces.append("\n")


def _notes(package: Package, part: str, title: str, composer: Composer) -> None:
    if part not in package.names:
        return
    texts = [
        text_of(note)
        for note in package.xml(part)
        if attribute(note, "type") not in {"separator", "continuationSeparator"}
    ]
    if any(texts):
        composer.heading(1, title)
        for text in texts:
            composer.item(text)


_TITLES = {"title", "ctrTitle"}
# Placeholders that hold the slide's number, date and footer, the same on every slide.
_FURNITURE = {"sldNum", "dt", "ftr", "hdr"}
_SLIDE = re.compile(r"ppt/slides/slide(\d+)\.xml")


class PptxLoader:
    """`.pptx`; a slide is a page and its title a heading."""

    media_type: ClassVar[str] = (
        "application/vnd.openxmlformats-officedocument.presentationml.presentation"
    )
    suffixes: ClassVar[tuple[str, ...]] = (".pptx", ".pptm", ".ppsx", ".potx")

    def load(self, content: bytes, options: LoadOptions) -> Loaded:
        package = Package(content, options)
        slides = _slides(package)
        if len(slides) > options.max_pages:
            raise IngestError(
                f"The presentation has {len(slides)} slides, more than the {options.max_pages} "
                "allowed.",
                hint="Raise RAGSTONE_INGEST_MAX_PAGES or split it.",
            )
        composer = Composer()
        for name in slides:
            composer.page()
            _slide(package, name, composer)
        facts = office_facts(package) | {"pages": len(slides)}
        return composer.loaded(self.media_type, facts)


def _slides(package: Package) -> list[str]:
    """The slides in the order in which they are shown."""
    main = "ppt/presentation.xml"
    if main in package.names:
        relations = package.relations(main)
        # The entry's relation is one of its two `id` attributes, told apart by namespace only.
        shown = [
            relations[value]
            for element in package.xml(main)
            if local(element) == "sldIdLst"
            for entry in element
            for value in entry.attrib.values()
            if relations.get(value) in package.names
        ]
        if shown:
            return shown
    numbered = [(int(m[1]), name) for name in package.names if (m := _SLIDE.fullmatch(name))]
    return [name for _, name in sorted(numbered)]


def _slide(package: Package, name: str, composer: Composer) -> None:
    _shapes(package.xml(name), composer)
    for target in package.relations(name).values():
        if target not in package.names:
            continue
        if target.startswith("ppt/notesSlides/"):
            notes = [t for shape in package.xml(target).iter() if local(shape) == "sp"
                     for t in _pptx_notes(shape)]  # fmt: skip
            if notes:
                composer.paragraph("Notes: " + "\n".join(notes))
        elif target.startswith("ppt/comments/"):
            for element in package.xml(target).iter():
                if local(element) == "text" and element.text:
                    composer.paragraph(f"Comment: {element.text}")
        elif target.startswith(("ppt/charts/chart", "ppt/diagrams/data")):
            words = [one_line(e.text) for e in package.xml(target).iter()
                     if local(e) in {"t", "v"} and e.text and e.text.strip()]  # fmt: skip
            composer.paragraph(" · ".join(dict.fromkeys(words)))


def _shapes(root: Any, composer: Composer) -> None:
    for element in root.iter():
        kind = local(element)
        if kind == "sp":
            role = _role(element)
            if role in _TITLES:
                composer.heading(1, " ".join(text for _, text in _paragraphs(element)))
            elif role not in _FURNITURE:
                _body(element, composer, listed=role in {"body", "subTitle"})
        elif kind == "tbl":
            rows = [
                [
                    " ".join(text for _, text in _paragraphs(cell))
                    for cell in row
                    if local(cell) == "tc"
                ]
                for row in element
                if local(row) == "tr"
            ]
            composer.table(rows)


def _body(shape: Any, composer: Composer, *, listed: bool) -> None:
    paragraphs = _paragraphs(shape)
    for depth, text in paragraphs:
        if (listed and len(paragraphs) > 1) or depth:
            composer.item(text, depth=depth)
        else:
            composer.paragraph(text)


def _role(shape: Any) -> str:
    for element in shape.iter():
        if local(element) == "ph":
            return attribute(element, "type") or "body"
    return ""


def _pptx_notes(shape: Any) -> list[str]:
    if _role(shape) in _FURNITURE | {"sldImg"}:
        return []
    return [text for _, text in _paragraphs(shape)]


def _paragraphs(shape: Any) -> list[tuple[int, str]]:
    """The paragraphs of a shape with their depth in the list."""
    found: list[tuple[int, str]] = []
    for paragraph in shape.iter():
        if local(paragraph) != "p":
            continue
        pieces, depth = [], 0
        for element in paragraph.iter():
            kind = local(element)
            if kind == "t":
                pieces.append(element.text or "")
            elif kind in {"br", "tab"}:
                pieces.append(" ")
            elif kind == "pPr":
                level = attribute(element, "lvl") or "0"
                depth = int(level) if level.isdigit() else 0
        text = one_line("".join(pieces))
        if text:
            found.append((depth, text))
    return found
