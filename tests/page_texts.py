"""Read the texts of the page from its JavaScript and HTML: what `t()` gets, and what else is there.

A small scanner is enough: the page's files have no build step, and only strings, templates, calls
and the names of properties matter here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from ragstone.server.routes import page

FOLDER = Path(page.__file__).parents[1] / "ui"
SCRIPTS = sorted(FOLDER.glob("*.js"))
_NAME = re.compile(r"([\w$.?]+)\s*$")
_PROPERTY = re.compile(r"""^\s*"?([\w$-]+)"?:""")
# What a person reads: two words, or one with a capital letter.
_WORDS = re.compile(r"[A-Za-z]{2,}[,.:;!?)]?\s+\(?[A-Za-z]{2,}|^\W*[A-Z][a-z]+")


@dataclass(frozen=True, slots=True)
class Literal:
    """A string, or a template with `{}` for its values, and where it stands."""

    text: str
    line: int
    call: str
    """The function that gets it, or the empty string."""
    argument: int
    name: str
    """The property it is the value of, or the empty string."""

    @property
    def is_translated(self) -> bool:
        return self.call == "t" and self.argument == 0

    @property
    def looks_visible(self) -> bool:
        return bool(_WORDS.search(self.text))


@dataclass(slots=True)
class _Frame:
    """An open bracket: the call it belongs to, and the text of the argument read so far."""

    call: str = ""
    argument: int = 0
    read: str = ""


@dataclass(slots=True)
class _Scanner:
    source: str
    at: int = 0
    found: list[Literal] = field(default_factory=list)

    def scan(self, frames: list[_Frame], end: str = "") -> None:
        """Read code up to `end`; the text of each literal goes to `found`."""
        floor = len(frames)
        while self.at < len(self.source):
            here = self.source[self.at]
            if here == end and len(frames) == floor:
                self.at += 1
                return
            if self.source.startswith(("//", "/*"), self.at):
                self._skip_comment()
            elif here in "\"'`":
                self._read_literal(here, frames)
            elif here == "/" and self._is_pattern(frames[-1].read):
                self._skip_pattern(frames[-1])
            else:
                self._read_sign(here, frames)

    def _read_sign(self, here: str, frames: list[_Frame]) -> None:
        if here in "([{":
            name = _NAME.search(frames[-1].read) if here == "(" else None
            # The value of a property of an object that is an argument belongs to that call too.
            frames[-1].read += here
            frames.append(_Frame(call=name[1] if name else ""))
        elif here in ")]}":
            if len(frames) > 1:
                frames.pop()
            frames[-1].read += here
        elif here == ",":
            frames[-1].argument += 1
            frames[-1].read = ""
        else:
            frames[-1].read = ("" if here == ";" else frames[-1].read) + here
        self.at += 1

    def _read_literal(self, quote: str, frames: list[_Frame]) -> None:
        line = self.source.count("\n", 0, self.at) + 1
        self.at += 1
        text = ""
        while (here := self.source[self.at]) != quote:
            if here == "\\":
                text += {"n": "\n", "u": ""}.get(self.source[self.at + 1], self.source[self.at + 1])
                self.at += 2
            elif quote == "`" and self.source.startswith("${", self.at):
                self.at += 2
                self.scan([*frames, _Frame()], "}")
                text += "{}"
            else:
                text += here
                self.at += 1
        self.at += 1
        frame = frames[-1]
        name = _PROPERTY.search(frame.read)
        self.found.append(Literal(text, line, frame.call, frame.argument, name[1] if name else ""))
        frame.read += f'"{text}"'

    def _skip_comment(self) -> None:
        end = "\n" if self.source[self.at + 1] == "/" else "*/"
        found = self.source.find(end, self.at)
        self.at = len(self.source) if found < 0 else found + len(end)

    def _is_pattern(self, before: str) -> bool:
        return (
            not before.strip()
            or before.rstrip()[-1] in "(,=:[!&|?{};>"
            or before.rstrip().endswith("return")
        )

    def _skip_pattern(self, frame: _Frame) -> None:
        inside = False
        self.at += 1
        while inside or self.source[self.at] != "/":
            if self.source[self.at] == "\\":
                self.at += 1
            elif self.source[self.at] in "[]":
                inside = self.source[self.at] == "["
            self.at += 1
        self.at += 1
        frame.read += "0"


def read_literals(path: Path) -> list[Literal]:
    scanner = _Scanner(path.read_text("utf-8"))
    scanner.scan([_Frame()])
    return scanner.found


def list_keys(path: Path) -> Iterator[str]:
    """Yield what a catalogue must have for a script: what `t()` gets, both forms of a plural."""
    literals = read_literals(path)
    for at, one in enumerate(literals):
        if one.is_translated and re.search("[A-Za-z]", one.text):
            yield one.text
        elif one.call == "plural" and one.argument == 1:
            after = literals[at + 1] if at + 1 < len(literals) else one
            is_given = after.call == "plural" and after.argument == 2
            yield f"{{}} {one.text}"
            yield f"{{}} {after.text if is_given else one.text + 's'}"


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "link", "img", "input"}:
            self._inside.append(tag)
        self.texts += [value for name, value in attrs if value and name in {"aria-label", "title"}]

    def handle_endtag(self, tag: str) -> None:
        self._inside.pop()

    def handle_data(self, data: str) -> None:
        # Who has no JavaScript has no catalogue either.
        if data.strip() and "body" in self._inside and not {"noscript", "option"} & {*self._inside}:
            self.texts.append(data)


def list_html_texts() -> list[str]:
    """Return what index.html shows; a name is the same in every language."""
    reader = _Reader()
    reader.feed((FOLDER / "index.html").read_text("utf-8"))
    return [text for text in reader.texts if text != "Ragstone"]


def read_catalogue(code: str) -> dict[str, str]:
    source = (FOLDER / "texts" / f"{code}.js").read_text("utf-8")
    body = source.partition("export default ")[2].strip().removesuffix(";")
    catalogue: dict[str, str] = json.loads(re.sub(r",\s*}$", "}", body))
    return catalogue
