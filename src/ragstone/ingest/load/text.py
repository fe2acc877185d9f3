"""Plain text: the bytes decoded, with headings where lines clearly are some."""

from __future__ import annotations

import codecs
import re
from typing import ClassVar

from ragstone.errors import IngestError
from ragstone.ingest.load.compose import clean
from ragstone.reading import Heading, Loaded, LoadOptions

_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

_GUESSED_FROM = 65_536
# Not tab, line ends, form feed or escape; the code pages of mainframes use the rest.
_CONTROLS = (0, 1, 2, 3, 4, 6, 8, 14, 15, 16, 17, 18, 19, 20, 22, 23, 24, 25, 26, 28, 29, 30, 31)

# A line of its own between blank lines, in capitals (`2. TERM AND NOTICE`) or underlined.
_CAPITALS = re.compile(r"(?:(?<=\n\n)|\A)(?P<title>[^\n]{3,80})\n(?=\n)")
_UNDERLINED = re.compile(
    r"(?:(?<=\n)|\A)(?P<title>\S[^\n]{0,79})\n(?P<rule>={3,}|-{3,})[ \t]*(?=\n|\Z)"
)


class TextLoader:
    """`.txt` and its relatives."""

    media_type: ClassVar[str] = "text/plain"
    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".text", ".log", ".rst")

    def load(self, content: bytes, options: LoadOptions) -> Loaded:
        text = decode(content)
        return Loaded(text, self.media_type, headings=tuple(find_headings(text)))


def decode(content: bytes, *, declared: str | None = None) -> str:
    """Bytes to clean text with line feeds only.

    A byte-order mark decides, then UTF-8 if it fits, then what the file declares, then a guess
    from the frequency of letters.
    """
    return clean(_decoded(content, declared))


def _decoded(content: bytes, declared: str | None) -> str:
    marked = next((name for bom, name in _BOMS.items() if content.startswith(bom)), None)
    for encoding in (marked, "utf-8", declared):
        if encoding:
            try:
                text = content.decode(encoding)
            except (UnicodeDecodeError, LookupError):
                continue
            if "\x00" not in text:
                return text
    if _is_binary(content):
        raise IngestError(
            "The file holds binary data, not text.", hint="Give it the suffix of its real type."
        )
    from charset_normalizer import from_bytes

    # A cut in the middle of a character would spoil the guess; a line's end is a safe place.
    guess = from_bytes(content[:_GUESSED_FROM].rpartition(b"\n")[0] or content).best()
    # Windows-1252 is what most text that nothing else fits turns out to be.
    return content.decode(guess.encoding if guess else "cp1252", errors="replace")


def _is_binary(content: bytes) -> bool:
    """Text in an 8-bit encoding has next to no control characters and never a NUL."""
    head = content[:_GUESSED_FROM]
    controls = sum(head.count(bytes([code])) for code in _CONTROLS)
    return b"\x00" in head or controls > len(head) * 0.02


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
