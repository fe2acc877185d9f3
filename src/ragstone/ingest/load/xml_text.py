"""XML: its text with the names of the elements that hold it."""

from __future__ import annotations

from typing import Any, ClassVar

from ragstone.ingest.load.compose import Composer, one_line
from ragstone.ingest.load.xml_tree import local, parse
from ragstone.reading import Loaded, LoadOptions

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
