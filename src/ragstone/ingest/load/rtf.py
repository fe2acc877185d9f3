"""RTF: its text, paragraph by paragraph, tables as lines."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from ragstone.errors import IngestError
from ragstone.ingest.load.compose import Composer
from ragstone.reading import Loaded, LoadOptions

_TITLE = re.compile(r"\{\\title ([^{}\\]{1,300})\}")
# "Skip this group if you do not know it" where no group begins: striprtf would skip the text.
_STRAY_MARK = re.compile(r"(?<!\{)\\\*")
_AUTHOR = re.compile(r"\{\\author ([^{}\\]{1,300})\}")


class RtfLoader:
    """Read with striprtf, which knows the code pages that RTF is written in."""

    media_type: ClassVar[str] = "application/rtf"
    suffixes: ClassVar[tuple[str, ...]] = (".rtf",)

    def load(self, content: bytes, options: LoadOptions) -> Loaded:
        source = content.decode("latin-1")
        try:
            text = str(_to_text(_STRAY_MARK.sub("", source)))
        except (ValueError, LookupError, IndexError, KeyError, TypeError) as error:
            raise IngestError(
                f"The RTF file is damaged: {error}.", hint="Save it anew, as RTF or DOCX."
            ) from error
        composer = Composer()
        table: list[list[str]] = []
        for line in text.split("\n"):
            # striprtf ends the cells of a table's row with a bar.
            if line.count("|") >= 1 and line.rstrip().endswith("|"):
                table.append(line.rstrip().removesuffix("|").split("|"))
                continue
            composer.table(table)
            table = []
            composer.paragraph(line)
        composer.table(table)
        return composer.loaded(self.media_type, _facts(source))


def _to_text(source: str) -> Any:
    from striprtf import striprtf

    converter: Any = striprtf.rtf_to_text  # it has no types
    return converter(source, errors="replace")


def _facts(source: str) -> dict[str, Any]:
    found = {"title": _TITLE.search(source), "author": _AUTHOR.search(source)}
    return {key: match[1].strip() for key, match in found.items() if match}
