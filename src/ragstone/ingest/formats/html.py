"""Load HTML pages and EPUB books as Markdown-like text: headings, lists, tables and code."""

from __future__ import annotations

import posixpath
import re
from itertools import takewhile
from typing import Any, ClassVar
from urllib.parse import unquote

from lxml import etree, html

from ragstone.blocks import LoadedDocument, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.archive import Package
from ragstone.ingest.formats.compose import Cell, Composer, join_lines, spread_cells
from ragstone.ingest.formats.text import decode
from ragstone.ingest.formats.xml import collect_metadata, get_tag

_SKIPPED = {
    "script", "style", "noscript", "template", "svg", "head", "iframe", "object", "select",
    "button", "input", "textarea",
}  # fmt: skip
# Parts around the text of a page; skipped only if the page marks its main part.
_PAGE_FRAME = {"nav", "footer", "aside", "header"}
_BLOCKS = {
    "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "dialog",
    "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "frameset", "header",
    "hgroup", "hr", "html", "main", "nav", "p", "section", "summary", "noframes",
}  # fmt: skip
_BREAK = "\ue000"
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{2,40})""", re.IGNORECASE)
_XML_HEAD = re.compile(r"\A\s*<\?xml[^>]*\?>")
_METADATA = {
    "author": "author", "description": "description", "keywords": "keywords",
    "dc.creator": "author", "dc.date": "created", "article:published_time": "created",
    "article:modified_time": "modified", "date": "created",
}  # fmt: skip
_EPUB_METADATA = {"title": "title", "creator": "author", "language": "language", "date": "created"}


class HtmlLoader:
    """Load `.html` and `.htm`, repaired as browsers do."""

    media_type: ClassVar[str] = "text/html"
    suffixes: ClassVar[tuple[str, ...]] = (".html", ".htm", ".xhtml")

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument:
        root = parse_html(content)
        composer = Composer()
        write_html(root, composer)
        return composer.finish(self.media_type, _read_metadata(root))


def parse_html(content: bytes) -> Any:
    declared = _CHARSET.search(content[:4096])
    text = decode(content, declared=declared[1].decode("ascii") if declared else None)
    text = _XML_HEAD.sub("", text)
    if not text.strip():
        raise IngestError("The file is empty.", hint="Check that it was saved completely.")
    parser = html.HTMLParser(no_network=True, remove_comments=True, remove_pis=True)
    try:
        return html.document_fromstring(text, parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError) as error:
        raise IngestError(
            f"The HTML cannot be read: {error}.", hint="Save the page again from a browser."
        ) from error


def write_html(root: Any, composer: Composer, *, shift: int = 0) -> None:
    """Write the visible text of an HTML tree; move headings down by `shift` levels."""
    has_main = any(get_tag(element) in {"main", "article"} for element in root.iter())
    _HtmlWriter(composer, shift, skip_page_frame=has_main).write_block(root)


class _HtmlWriter:
    """Walk the tree; inline text is collected until a block ends it."""

    def __init__(self, composer: Composer, shift: int, *, skip_page_frame: bool) -> None:
        self._composer = composer
        self._shift = shift
        self._skipped = _SKIPPED | _PAGE_FRAME if skip_page_frame else _SKIPPED
        self._inline: list[str] = []

    def write_block(self, element: Any, depth: int = 0) -> None:
        self._inline.append(element.text or "")
        for child in element:
            self._write_child(child, depth)
            self._inline.append(child.tail or "")
        if get_tag(element) in _BLOCKS:
            self._flush()

    def _flush(self) -> None:
        # Line ends of the source are white space; only `<br>` ends a line.
        lines = "".join(self._inline).split(_BREAK)
        self._inline.clear()
        self._composer.add_paragraph("\n".join(map(join_lines, lines)))

    def _write_child(self, child: Any, depth: int) -> None:
        tag = get_tag(child).lower()
        if not tag or tag in self._skipped:
            return
        if tag == "br":
            self._inline.append(_BREAK)
            return
        is_heading = re.fullmatch("h[1-6]", tag)
        if is_heading or tag in _BLOCKS or tag in {"ul", "ol", "menu", "table", "pre"}:
            self._flush()
        if is_heading:
            self._composer.add_heading(int(tag[1]) + self._shift, _read_line(child))
        elif tag in {"ul", "ol", "menu"}:
            self._write_list(child, depth, is_numbered=tag == "ol")
        elif tag == "table":
            self._write_table(child)
        elif tag == "pre":
            self._composer.add_code("".join(child.itertext()))
        else:
            self.write_block(child, depth)

    def _write_list(self, element: Any, depth: int, *, is_numbered: bool) -> None:
        for number, item in enumerate((e for e in element if get_tag(e) == "li"), 1):
            inner = [e for e in item if get_tag(e) in {"ul", "ol", "menu"}]
            marker = f"{number}." if is_numbered else "-"
            self._composer.add_item(_read_line(item, without=inner), depth=depth, marker=marker)
            for nested in inner:
                self._write_list(nested, depth + 1, is_numbered=get_tag(nested) == "ol")

    def _write_table(self, element: Any) -> None:
        rows = [row for row in element.iter() if get_tag(row) == "tr"]
        cells = [[c for c in row if get_tag(c) in {"td", "th"}] for row in rows]
        holds_tables = any(get_tag(e) == "table" for e in element.iterdescendants())
        if not holds_tables and max((len(row) for row in cells), default=0) >= 2:
            for caption in element.iterchildren("caption"):
                self._composer.add_paragraph(_read_line(caption))
            grid = [[_read_cell(c) for c in row] for row in cells]
            self._composer.add_table(*spread_cells(grid), head_rows=_count_heads(rows, cells))
            return
        # A table that only lays out the page: its cells are read one after the other.
        for cell in element.iter():
            if get_tag(cell) in {"td", "th", "caption"}:
                self.write_block(cell)
                self._flush()


def _read_cell(cell: Any) -> Cell:
    spans = [(cell.get(name) or "").strip() for name in ("colspan", "rowspan")]
    counts = [int(span) if span.isdecimal() and len(span) <= 4 else 1 for span in spans]
    return Cell(_read_line(cell), *counts)


def _count_heads(rows: list[Any], cells: list[list[Any]]) -> int | None:
    """Count the rows of heads as the page marks them; None where it does not."""
    in_head = sum(get_tag(row.getparent()) == "thead" for row in rows)
    if in_head:
        return in_head
    marked = takewhile(lambda row: all(get_tag(c) == "th" for c in row), cells)
    return sum(1 for _ in marked) or None


def _read_line(element: Any, without: list[Any] | None = None) -> str:
    pieces: list[str] = []
    _collect_text(element, pieces, without or [])
    return join_lines("".join(pieces))


def _collect_text(element: Any, pieces: list[str], without: list[Any]) -> None:
    pieces.append(element.text or "")
    for child in element:
        tag = get_tag(child)
        if tag and tag not in _SKIPPED and child not in without:
            gap = " " if tag in _BLOCKS or tag in {"br", "li", "td", "th", "tr"} else ""
            pieces.append(gap)
            _collect_text(child, pieces, without)
            pieces.append(gap)
        pieces.append(child.tail or "")


def _read_metadata(root: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    title = root.find(".//title")
    if title is not None:
        metadata["title"] = join_lines(title.text_content())
    for element in root.iter("meta"):
        name = (element.get("name") or element.get("property") or "").lower()
        if name in _METADATA and element.get("content"):
            metadata.setdefault(_METADATA[name], join_lines(element.get("content")))
    return metadata


class EpubLoader:
    """Load `.epub` without a library: the known one is under the AGPL."""

    media_type: ClassVar[str] = "application/epub+zip"
    suffixes: ClassVar[tuple[str, ...]] = (".epub",)

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument:
        package = Package(content, options)
        if "META-INF/encryption.xml" in package.names and any(
            "content.xml" in name for name in package.names
        ):
            raise IngestError(
                "The book is encrypted (DRM).", hint="Use a copy without copy protection."
            )
        outline = _find_outline(package)
        root = package.read_xml(outline)
        composer = Composer()
        for chapter in _list_chapters(root, posixpath.dirname(outline)):
            markup = package.read(chapter) if chapter in package.names else b""
            if markup.strip():
                write_html(parse_html(markup), composer)
        return composer.finish(self.media_type, collect_metadata(root.iter(), _EPUB_METADATA))


def _find_outline(package: Package) -> str:
    """Find the OPF file, which lists the parts of the book."""
    if "META-INF/container.xml" in package.names:
        for element in package.read_xml("META-INF/container.xml").iter():
            path = element.get("full-path") if get_tag(element) == "rootfile" else None
            if path in package.names:
                return str(path)
    for name in sorted(package.names):
        if name.endswith(".opf"):
            return name
    raise IngestError(
        "The book is damaged: its list of parts (.opf) is missing.", hint="Download it again."
    )


def _list_chapters(root: Any, folder: str) -> list[str]:
    files = {
        element.get("id"): posixpath.normpath(posixpath.join(folder, unquote(element.get("href"))))
        for element in root.iter()
        if get_tag(element) == "item" and element.get("href")
    }
    order = [element.get("idref") for element in root.iter() if get_tag(element) == "itemref"]
    return [files[item_id] for item_id in order if item_id in files]
