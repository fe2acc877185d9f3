"""Rewrite the relative links of README.md for the package index, where they would lead nowhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# `](docs/faq.md)` and `![…](docs/page.png)`, but not `](https://…)` and `](#part-of-this-page)`.
LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!\w+:|#)([^)]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Give the package's metadata README.md with links to the files of `Source`."""

    def update(self, metadata: dict[str, Any]) -> None:
        source = metadata["urls"]["Source"]

        def make_absolute(link: re.Match[str]) -> str:
            mark, text, path = link.groups()
            # `blob` is a page that shows the file, `raw` the file itself, as an image needs it.
            return f"{mark}{text}({source}/{'raw' if mark else 'blob'}/main/{path})"

        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": LINK.sub(make_absolute, text),
        }
