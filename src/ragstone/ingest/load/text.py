"""Plain text: the bytes decoded, with headings where lines clearly are some."""

from __future__ import annotations

import codecs
import re
from typing import ClassVar

from ragstone.errors import IngestError
from ragstone.stages import Heading, Loaded

_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

# A line of its own between blank lines, in capitals (`2. TERM AND NOTICE`) or underlined.
_CAPITALS = re.compile(r"(?:(?<=\n\n)|\A)(?P<title>[^\n]{3,80})\n(?=\n)")
_UNDERLINED = re.compile(
    r"(?:(?<=\n)|\A)(?P<title>\S[^\n]{0,79})\n(?P<rule>={3,}|-{3,})[ \t]*(?=\n|\Z)"
)


class TextLoader:
    """`.txt` and its relatives."""

    media_type: ClassVar[str] = "text/plain"
    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".text", ".log", ".rst")

    def load(self, content: bytes) -> Loaded:
        text = decode(content)
        return Loaded(text, self.media_type, headings=tuple(find_headings(text)))


def decode(content: bytes) -> str:
    """Bytes to text with line feeds only. UTF-8 unless a byte-order mark or the bytes disagree."""
    encoding = next((name for bom, name in _BOMS.items() if content.startswith(bom)), "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        # Windows-1252 is what most text that is not UTF-8 turns out to be.
        text = content.decode("cp1252", errors="replace")
    if "\x00" in text:
        raise IngestError(
            "The file holds binary data, not text.", hint="Give it the suffix of its real type."
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def find_headings(text: str) -> list[Heading]:
    found = {
        match.start(): Heading(1 if match["rule"][0] == "=" else 2, match["title"].strip(),
                               match.start())
        for match in _UNDERLINED.finditer(text)
    }  # fmt: skip
    for match in _CAPITALS.finditer(text):
        title = match["title"].strip()
        if title.isupper() and not title.endswith((".", ",", ";")):
            level = 1 if match.start() == 0 else 2
            found.setdefault(match.start(), Heading(level, title, match.start()))
    return [found[start] for start in sorted(found)]
