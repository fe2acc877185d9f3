"""HTML: what a reader sees, as Markdown-like text with headings, lists, tables and code."""

from __future__ import annotations

import posixpath
import re
from typing import Any, ClassVar
from urllib.parse import unquote

from lxml import etree, html

from ragstone.blocks import Loaded, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.compose import Composer, one_line
from ragstone.ingest.formats.text import decode
from ragstone.ingest.formats.xml import Package, local

_UNREAD = {
    "script", "style", "noscript", "template", "svg", "head", "iframe", "object", "select",
    "button", "input", "textarea",
}  # fmt: skip
# Furniture around the text of a page; only left out where the page says what its main part is.
_FURNITURE = {"nav", "footer", "aside", "header"}
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


class HtmlLoader:
    """`.html` and `.htm`, mended the way browsers do."""

    media_type: ClassVar[str] = "text/html"
    suffixes: ClassVar[tuple[str, ...]] = (".html", ".htm", ".xhtml")

    def load(self, content: bytes, options: LoadOptions) -> Loaded:
        root = parse_html(content)
        composer = Composer()
        write_html(root, composer)
        return composer.loaded(self.media_type, _facts(root))


def parse_html(content: bytes) -> Any:
    declared = _CHARSET.search(content[:4096])
    text = decode(content, declared=declared[1].decode("ascii") if declared else None)
    text = _XML_HEAD.sub("", text)
    if not text.strip():
        raise IngestError("The file is empty.", hint="There is nothing to read in it.")
    parser = html.HTMLParser(no_network=True, remove_comments=True, remove_pis=True)
    try:
        return html.document_fromstring(text, parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError) as error:
        raise IngestError(
            f"The HTML cannot be read: {error}.", hint="Save the page anew from a browser."
        ) from error


def write_html(root: Any, composer: Composer, *, shift: int = 0) -> None:
    """Write what an HTML tree shows; headings move down by `shift` levels."""
    mains = [element for element in root.iter() if local(element) in {"main", "article"}]
    _Writer(composer, shift, skip_furniture=bool(mains)).block(root)


class _Writer:
    """Walks the tree: inline text gathers until a block ends it."""

    def __init__(self, composer: Composer, shift: int, *, skip_furniture: bool) -> None:
        self._composer = composer
        self._shift = shift
        self._unread = _UNREAD | _FURNITURE if skip_furniture else _UNREAD
        self._inline: list[str] = []

    def block(self, element: Any, depth: int = 0) -> None:
        self._inline.append(element.text or "")
        for child in element:
            self._child(child, depth)
            self._inline.append(child.tail or "")
        if local(element) in _BLOCKS:
            self.flush()

    def flush(self) -> None:
        text = _folded("".join(self._inline))
        self._inline.clear()
        self._composer.paragraph(text)

    def _child(self, child: Any, depth: int) -> None:
        kind = local(child).lower()
        if not kind or kind in self._unread:
            return
        if re.fullmatch("h[1-6]", kind):
            self.flush()
            self._composer.heading(int(kind[1]) + self._shift, _text(child))
        elif kind in {"ul", "ol", "menu"}:
            self.flush()
            self._list(child, depth, numbered=kind == "ol")
        elif kind == "table":
            self.flush()
            self._table(child)
        elif kind == "pre":
            self.flush()
            self._composer.code("".join(child.itertext()))
        elif kind == "br":
            self._inline.append(_BREAK)
        elif kind in _BLOCKS:
            self.flush()
            self.block(child, depth)
        else:
            self.block(child, depth)

    def _list(self, element: Any, depth: int, *, numbered: bool) -> None:
        for number, item in enumerate((e for e in element if local(e) == "li"), 1):
            inner = [e for e in item if local(e) in {"ul", "ol", "menu"}]
            text = _text(item, without=inner)
            self._composer.item(text, depth=depth, marker=f"{number}." if numbered else "-")
            for nested in inner:
                self._list(nested, depth + 1, numbered=local(nested) == "ol")

    def _table(self, element: Any) -> None:
        rows = [
            [_text(cell) for cell in row if local(cell) in {"td", "th"}]
            for row in element.iter()
            if local(row) == "tr"
        ]
        if (
            any(local(e) == "table" for e in element.iterdescendants())
            or max((len(row) for row in rows), default=0) < 2
        ):
            # A table that only lays out the page: its cells are read one after the other.
            for row in element.iter():
                if local(row) in {"td", "th", "caption"}:
                    self.block(row)
                    self.flush()
            return
        self._composer.table(rows)


def _text(element: Any, without: list[Any] | None = None) -> str:
    pieces: list[str] = []
    _gather(element, pieces, without or [])
    return one_line("".join(pieces))


def _gather(element: Any, pieces: list[str], without: list[Any]) -> None:
    pieces.append(element.text or "")
    for child in element:
        kind = local(child)
        if kind and kind not in _UNREAD and child not in without:
            spaced = kind in _BLOCKS or kind in {"br", "li", "td", "th", "tr"}
            pieces.append(" " if spaced else "")
            _gather(child, pieces, without)
            pieces.append(" " if spaced else "")
        pieces.append(child.tail or "")


def _folded(text: str) -> str:
    """Line ends of the source are white space; only `<br>` ends a line."""
    return "\n".join(one_line(line) for line in text.split(_BREAK))


def _facts(root: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    title = root.find(".//title")
    if title is not None:
        facts["title"] = one_line(title.text_content())
    for element in root.iter("meta"):
        name = (element.get("name") or element.get("property") or "").lower()
        if name in _METADATA and element.get("content"):
            facts.setdefault(_METADATA[name], one_line(element.get("content")))
    return facts


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
        return composer.loaded(self.media_type, _epub_facts(root))


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


def _epub_facts(root: Any) -> dict[str, Any]:
    names = {"title": "title", "creator": "author", "language": "language", "date": "created"}
    facts: dict[str, Any] = {}
    for element in root.iter():
        key = names.get(local(element))
        if key and element.text and element.text.strip():
            facts.setdefault(key, element.text.strip())
    return facts
