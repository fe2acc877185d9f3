"""Load the formats that are text: plain text, Markdown, source code, RTF and JSON."""

from __future__ import annotations

import codecs
import json
import re
from itertools import accumulate, pairwise, zip_longest
from typing import Any, ClassVar

import yaml
from markdown_it import MarkdownIt

from ragstone.blocks import Block, Heading, LoadedDocument, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.compose import Composer, clean_text
from ragstone.ingest.metadata import to_json_value
from ragstone.text import remove_markup

_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

_SAMPLE_BYTES = 65_536
# Not tab, line ends, form feed or escape; the code pages of mainframes use the rest.
_CONTROLS = (0, 1, 2, 3, 4, 6, 8, 14, 15, 16, 17, 18, 19, 20, 22, 23, 24, 25, 26, 28, 29, 30, 31)

# A line of its own between blank lines, in capitals (`2. TERM AND NOTICE`) or underlined.
_CAPITALS = re.compile(r"(?:(?<=\n\n)|\A)(?P<title>[^\n]{3,80})\n(?=\n)")
_UNDERLINED = re.compile(
    r"(?:(?<=\n)|\A)(?P<title>\S[^\n]{0,79})\n(?P<rule>={3,}|-{3,})[ \t]*(?=\n|\Z)"
)


class TextLoader:
    """Load plain text; find headings in capitals or underlined."""

    media_type: ClassVar[str] = "text/plain"
    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".text", ".log", ".rst")

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument:
        text = decode(content)
        return LoadedDocument(text, self.media_type, headings=tuple(find_headings(text)))


def decode(content: bytes, *, declared: str | None = None) -> str:
    """Decode bytes to clean text with line feeds only.

    A byte-order mark decides, then UTF-8 if it fits, then what the file declares, then a guess
    from the frequency of letters.
    """
    return clean_text(_decode(content, declared))


def _decode(content: bytes, declared: str | None) -> str:
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
    guess = from_bytes(content[:_SAMPLE_BYTES].rpartition(b"\n")[0] or content).best()
    # Windows-1252 is what most text that nothing else fits turns out to be.
    return content.decode(guess.encoding if guess else "cp1252", errors="replace")


def _is_binary(content: bytes) -> bool:
    """Look for a NUL or many control characters, which 8-bit text does not have."""
    head = content[:_SAMPLE_BYTES]
    controls = sum(head.count(bytes([code])) for code in _CONTROLS)
    return b"\x00" in head or controls > len(head) * 0.02


def find_headings(text: str) -> list[Heading]:
    found: dict[int, Heading] = {}
    for match in _UNDERLINED.finditer(text):
        level = 1 if match["rule"][0] == "=" else 2
        found[match.start()] = Heading(level, match["title"].strip(), match.start())
    for match in _CAPITALS.finditer(text):
        title = match["title"].strip()
        if title.isupper() and not title.endswith((".", ",", ";")):
            level = 1 if match.start() == 0 else 2
            found.setdefault(match.start(), Heading(level, title, match.start()))
    return [found[start] for start in sorted(found)]


_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?P<yaml>.*?\n)---[ \t]*(?:\n|\Z)", re.DOTALL)
_BLOCKS = {"fence": "code", "code_block": "code", "table_open": "table"}


class MarkdownLoader:
    """Load Markdown. Offsets point into the source, so a citation shows what the author wrote."""

    media_type: ClassVar[str] = "text/markdown"
    suffixes: ClassVar[tuple[str, ...]] = (".md", ".markdown", ".mdx")

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument:
        text, metadata = split_front_matter(decode(content))
        line_starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        headings: list[Heading] = []
        blocks: list[Block] = []
        tokens = MarkdownIt("commonmark").enable("table").parse(text)
        for token, following in zip_longest(tokens, tokens[1:]):
            if token.map is None:
                continue
            start, end = line_starts[token.map[0]], min(line_starts[token.map[1]], len(text))
            if token.type == "heading_open" and following is not None and token.level == 0:
                headings.append(Heading(int(token.tag[1]), following.content, start))
            elif token.type in _BLOCKS:
                blocks.append(Block(_BLOCKS[token.type], start, end))
            elif token.type == "html_block" and not remove_markup(token.content).strip():
                blocks.append(Block("comment", start, end))
        title = str(metadata.get("title") or "").strip()
        if title and title not in {heading.title for heading in headings[:1]}:
            headings.insert(0, Heading(0, title, -1))
        return LoadedDocument(
            text,
            self.media_type,
            headings=tuple(headings),
            blocks=tuple(blocks),
            metadata=metadata,
        )


def split_front_matter(text: str) -> tuple[str, dict[str, Any]]:
    """Split the YAML head off a text; a head that is not a YAML mapping stays in the text."""
    match = _FRONT_MATTER.match(text)
    if match is None:
        return text, {}
    try:
        head = yaml.safe_load(match["yaml"])
    except yaml.YAMLError:
        return text, {}
    if not isinstance(head, dict):
        return text, {}
    return text[match.end() :], to_json_value(head)


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
    """Load source code unchanged, so that a citation shows the code itself."""

    media_type: ClassVar[str] = "text/x-source"
    suffixes: ClassVar[tuple[str, ...]] = (
        ".py", ".pyi", ".js", ".mjs", ".jsx", ".ts", ".tsx", ".java", ".kt", ".scala", ".go",
        ".rs", ".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".rb", ".php", ".swift", ".m", ".r",
        ".pl", ".lua", ".sh", ".bash", ".ps1", ".sql", ".proto", ".tf", ".css", ".scss", ".vue",
        ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".properties", ".gradle", ".cmake",
        ".ex", ".exs", ".erl", ".hs", ".ml", ".clj", ".dart", ".jl", ".zig", ".nim",
    )  # fmt: skip

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument:
        text = clean_text(decode(content))
        headings = find_definitions(text)
        return LoadedDocument(
            text,
            self.media_type,
            headings=tuple(headings),
            blocks=tuple(_split_at(text, [heading.start for heading in headings])),
        )


def find_definitions(text: str) -> list[Heading]:
    """Find functions and types as headings, deeper the further they are indented."""
    found: list[Heading] = []
    for match in _DEFINITION.finditer(text):
        name = _NAME.match(match["name"].strip())
        if name is None:
            continue
        indent = len(match["indent"].expandtabs(4))
        title = f"{match['kind']} {name[0].split('(')[0].strip()}"
        found.append(Heading(1 + indent // 2, title[:100], match.start()))
    return found


def _split_at(text: str, cuts: list[int]) -> list[Block]:
    """Return the text between two definitions as one block of code each."""
    return [
        Block("code", start, end)
        for start, end in pairwise([0, *cuts, len(text)])
        if text[start:end].strip()
    ]


_TITLE = re.compile(r"\{\\title ([^{}\\]{1,300})\}")
# "Skip this group if you do not know it" where no group begins: striprtf would skip the text.
_STRAY_MARK = re.compile(r"(?<!\{)\\\*")
_AUTHOR = re.compile(r"\{\\author ([^{}\\]{1,300})\}")


class RtfLoader:
    """Load RTF with striprtf, which knows the code pages that RTF is written in."""

    media_type: ClassVar[str] = "application/rtf"
    suffixes: ClassVar[tuple[str, ...]] = (".rtf",)

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument:
        source = content.decode("latin-1")
        try:
            text = _convert_rtf(_STRAY_MARK.sub("", source))
        except (ValueError, LookupError, IndexError, KeyError, TypeError) as error:
            raise IngestError(
                f"The RTF file is damaged: {error}.", hint="Save it again, as RTF or DOCX."
            ) from error
        composer = Composer()
        table: list[list[str]] = []
        for line in text.split("\n"):
            # striprtf ends the cells of a table's row with a bar.
            if line.count("|") >= 1 and line.rstrip().endswith("|"):
                table.append(line.rstrip().removesuffix("|").split("|"))
                continue
            composer.add_table(table)
            table = []
            composer.add_paragraph(line)
        composer.add_table(table)
        found = {"title": _TITLE.search(source), "author": _AUTHOR.search(source)}
        metadata = {key: match[1].strip() for key, match in found.items() if match}
        return composer.finish(self.media_type, metadata)


def _convert_rtf(source: str) -> str:
    from striprtf import striprtf

    converter: Any = striprtf.rtf_to_text  # it has no types
    return str(converter(source, errors="replace"))


class JsonLoader:
    """Load JSON (one value, or one per line) and notebooks."""

    media_type: ClassVar[str] = "application/json"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".ndjson", ".geojson", ".ipynb")

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument:
        text = decode(content)
        composer = Composer()
        for record in _parse_records(text):
            if _is_notebook(record):
                _write_notebook(record, composer)
            elif isinstance(record, dict) and "text" not in record and len(record) <= 200:
                # The members one by one, so that none is cut that fits into a chunk.
                for key, value in record.items():
                    name = json.dumps(key, ensure_ascii=False)
                    composer.add_code(f"{name}: {_format_json(value)}")
            else:
                composer.add_code(_format_json(record))
        return composer.finish(self.media_type)


def _parse_records(text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise IngestError(
            "The JSON is nested too deeply to be read.", hint="Flatten it first."
        ) from error
    except json.JSONDecodeError as error:
        lines = [line for line in text.split("\n") if line.strip()]
        try:
            return [json.loads(line) for line in lines]
        except (json.JSONDecodeError, RecursionError):
            raise IngestError(
                f"The JSON is damaged: {error}.", hint="Check it with a JSON validator."
            ) from error
    return list(value) if isinstance(value, list) else [value]


def _format_json(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=1)


def _is_notebook(record: Any) -> bool:
    return (
        isinstance(record, dict) and isinstance(record.get("cells"), list) and "nbformat" in record
    )


def _write_notebook(record: dict[str, Any], composer: Composer) -> None:
    for cell in record["cells"]:
        if not isinstance(cell, dict):
            continue
        source = cell.get("source", "")
        text = "".join(map(str, source)) if isinstance(source, list) else str(source)
        if cell.get("cell_type") == "code":
            composer.add_code(text)
        else:
            for line in text.split("\n\n"):
                marks = len(line) - len(line.lstrip("#"))
                if 1 <= marks <= 6 and line[marks : marks + 1] == " ":
                    composer.add_heading(marks, line[marks:].split("\n")[0])
                    composer.add_paragraph(line.partition("\n")[2])
                else:
                    composer.add_paragraph(line)
