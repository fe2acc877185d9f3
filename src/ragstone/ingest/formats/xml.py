"""Parse XML safely: no entities, no network, no document type; repair damaged files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from lxml import etree

from ragstone.blocks import LoadedDocument, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.compose import Composer, join_lines

_TITLES = {"title", "heading", "head"}


def parse_xml(content: bytes) -> Any:
    """Return the root. Entities stay unexpanded: a few bytes could become gigabytes."""
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        recover=True,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise _make_damaged_error(str(error)) from error
    if root is None:
        raise _make_damaged_error("it has no readable element")
    return root


def _make_damaged_error(reason: str) -> IngestError:
    return IngestError(f"The XML inside is damaged: {reason}.", hint="Save the file again.")


def get_tag(element: Any) -> str:
    """Return the name of an element without its namespace; empty for comments and the like."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def get_attribute(element: Any, name: str) -> str | None:
    """Return an attribute by its local name, in any namespace."""
    for key, value in element.attrib.items():
        if key.rpartition("}")[2] == name:
            return str(value)
    return None


def collect_metadata(elements: Iterable[Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the text of the first element of each tag in `keys`, under the key it maps to."""
    metadata: dict[str, Any] = {}
    for element in elements:
        key = keys.get(get_tag(element))
        if key and element.text and element.text.strip():
            metadata.setdefault(key, element.text.strip())
    return metadata


class XmlLoader:
    """Load any XML: running text as paragraphs, fields as `name: value`."""

    media_type: ClassVar[str] = "application/xml"
    suffixes: ClassVar[tuple[str, ...]] = (".xml", ".rss", ".atom", ".xsd", ".dita", ".docbook")

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument:
        composer = Composer()
        # A stack and no recursion: a hostile file may nest deeper than Python's stack.
        stack: list[tuple[Any, int]] = [(parse_xml(content), 1)]
        while stack:
            element, level = stack.pop()
            children = [child for child in element if get_tag(child)]
            if _has_own_text(element, children):
                _write_text(element, composer, level, is_mixed=bool(children))
                continue
            if element.attrib and not children:
                fields = (f"{k.rpartition('}')[2]}={v}" for k, v in element.attrib.items())
                composer.add_item(f"{get_tag(element)}: {', '.join(fields)}")
            stack.extend((child, level + 1) for child in reversed(children))
        return composer.finish(self.media_type)


def _has_own_text(element: Any, children: list[Any]) -> bool:
    """Tell whether text stands in an element or between its children: it is read as one piece."""
    return any((text or "").strip() for text in [element.text, *(c.tail for c in children)])


def _write_text(element: Any, composer: Composer, level: int, *, is_mixed: bool) -> None:
    name, text = get_tag(element), join_lines("".join(element.itertext()))
    if name in _TITLES and len(text) <= 200:
        composer.add_heading(min(level, 6), text)
    elif is_mixed or len(text) > 200:
        composer.add_paragraph(text)
    elif text:
        composer.add_item(f"{name}: {text}")
