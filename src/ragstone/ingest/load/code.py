"""Source code: the file as it is, with its definitions as headings."""

from __future__ import annotations

import re
from typing import ClassVar

from ragstone.ingest.load.compose import clean
from ragstone.ingest.load.text import decode
from ragstone.reading import Block, Heading, Loaded, LoadOptions

# A definition in most languages people write: keywords first, then a name.
_DEFINITION = re.compile(
    r"^(?P<indent>[ \t]{0,12})"
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|pub"
    r"(?:\([\w:]+\))?|unsafe|const|override|virtual|inline|extern|open|sealed|data)\s+)*"
    r"(?P<kind>def|class|function|func|fn|interface|trait|struct|enum|impl|type|module|namespace"
    r"|object|record|sub|procedure|package|protocol|extension)\b[ \t]*(?P<name>[^\n{;]{1,120})",
    re.MULTILINE,
)
_NAME = re.compile(r"[\w$.:<>~*&, ]*[\w$>]")


class CodeLoader:
    """The text is untouched, so that a citation shows the code itself."""

    media_type: ClassVar[str] = "text/x-source"
    suffixes: ClassVar[tuple[str, ...]] = (
        ".py", ".pyi", ".js", ".mjs", ".jsx", ".ts", ".tsx", ".java", ".kt", ".scala", ".go",
        ".rs", ".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".rb", ".php", ".swift", ".m", ".r",
        ".pl", ".lua", ".sh", ".bash", ".ps1", ".sql", ".proto", ".tf", ".css", ".scss", ".vue",
        ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".properties", ".gradle", ".cmake",
        ".ex", ".exs", ".erl", ".hs", ".ml", ".clj", ".dart", ".jl", ".zig", ".nim",
    )  # fmt: skip

    def load(self, content: bytes, options: LoadOptions) -> Loaded:
        text = clean(decode(content))
        headings = definitions(text)
        return Loaded(
            text,
            self.media_type,
            headings=tuple(headings),
            blocks=tuple(_pieces(text, [heading.start for heading in headings])),
        )


def definitions(text: str) -> list[Heading]:
    """Functions and types as headings, deeper the further they are indented."""
    found: list[Heading] = []
    for match in _DEFINITION.finditer(text):
        name = _NAME.match(match["name"].strip())
        if name is None:
            continue
        indent = len(match["indent"].expandtabs(4))
        title = f"{match['kind']} {name[0].split('(')[0].strip()}"
        found.append(Heading(1 + indent // 2, title[:100], match.start()))
    return found


def _pieces(text: str, cuts: list[int]) -> list[Block]:
    """Everything between two definitions, as code that is cut at lines if it must be."""
    ends = [*cuts, len(text)]
    starts = [0, *cuts]
    return [
        Block("code", start, end)
        for start, end in zip(starts, ends, strict=True)
        if text[start:end].strip()
    ]
