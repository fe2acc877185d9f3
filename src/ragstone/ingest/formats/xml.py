"""XML without its dangers: no entities, no network, no document type; damaged files are mended."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from typing import Any, ClassVar

from lxml import etree

from ragstone.blocks import Loaded, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.compose import Composer, one_line


def parse(content: bytes) -> Any:
    """The root element. Entities stay unexpanded, so that a few bytes cannot become gigabytes."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=True,
        remove_comments=True, remove_pis=True,
    )  # fmt: skip
    try:
        root = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise _damaged(str(error)) from error
    if root is None:
        raise _damaged("nothing in it can be read")
    return root


def local(element: Any) -> str:
    """An element's name without its namespace; empty for what is no element."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Any, name: str) -> str | None:
    """An attribute by its local name, whatever namespace the writer put it in."""
    for key, value in element.attrib.items():
        if key.rpartition("}")[2] == name:
            return str(value)
    return None


def _damaged(reason: str) -> IngestError:
    return IngestError(f"The XML inside is damaged: {reason}.", hint="Save the file anew.")


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
        return parse(self.read(name))

    @property
    def stated_size(self) -> int:
        """What the package says that it unpacks to."""
        return sum(entry.file_size for entry in self._zip.infolist())

    def words(self, name: str, tags: set[str]) -> list[str]:
        """The texts of all elements with one of these names in a part."""
        found = (
            " ".join((element.text or "").split())
            for element in self.xml(name).iter()
            if local(element) in tags
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
        key = names.get(local(element))
        if key and element.text and element.text.strip():
            facts[key] = element.text.strip()
    return facts


_TITLES = {"title", "heading", "head"}


class XmlLoader:
    """Any XML: running text as paragraphs, fields as `name: value`."""

    media_type: ClassVar[str] = "application/xml"
    suffixes: ClassVar[tuple[str, ...]] = (".xml", ".rss", ".atom", ".xsd", ".dita", ".docbook")

    def load(self, content: bytes, options: LoadOptions) -> Loaded:
        composer = Composer()
        _write(parse(content), composer, level=1)
        return composer.loaded(self.media_type)


def _write(element: Any, composer: Composer, *, level: int) -> None:
    """Iterative, because a hostile file may nest deeper than Python's stack."""
    stack: list[tuple[Any, int]] = [(element, level)]
    while stack:
        node, depth = stack.pop()
        name = local(node)
        if not name:
            continue
        children = [child for child in node if local(child)]
        if _is_prose(node, children):
            text = one_line("".join(node.itertext()))
            if name in _TITLES and len(text) <= 200:
                composer.heading(min(depth, 6), text)
            elif children or len(text) > 200:
                composer.paragraph(text)
            elif text:
                composer.item(f"{name}: {text}")
            continue
        facts = ", ".join(f"{k.rpartition('}')[2]}={v}" for k, v in node.attrib.items())
        if facts and not children:
            composer.item(f"{name}: {facts}")
        stack.extend((child, depth + 1) for child in reversed(children))


def _is_prose(node: Any, children: list[Any]) -> bool:
    """Text of its own, or between its children: read as one piece."""
    if (node.text or "").strip():
        return True
    return any((child.tail or "").strip() for child in children)
