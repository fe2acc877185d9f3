"""PPTX: slide by slide as pages, with titles, lists, tables, charts and speaker notes."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from ragstone.blocks import Loaded, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.compose import Composer, one_line
from ragstone.ingest.formats.xml import Package, attribute, local, office_facts

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
                     for t in _notes(shape)]  # fmt: skip
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


def _notes(shape: Any) -> list[str]:
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
