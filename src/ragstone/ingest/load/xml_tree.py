"""XML without its dangers: no entities, no network, no document type; damaged files are mended."""

from __future__ import annotations

from typing import Any

from lxml import etree

from ragstone.errors import IngestError


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
