"""Which loader reads a file: decided by its content first, by its name where content is silent."""

from __future__ import annotations

from pathlib import PurePath

from ragstone.errors import IngestError
from ragstone.plugins import available, find
from ragstone.stages import Loaded, Loader

_PDF_MAGIC = b"%PDF-"


def load(content: bytes, name: str) -> Loaded:
    """Read one file; a failure is an IngestError that says what is wrong with it."""
    if not content.strip():
        raise IngestError("The file is empty.", hint="There is nothing to read in it.")
    return loader_for(content, name).load(content)


def loader_for(content: bytes, name: str) -> Loader:
    suffix = PurePath(name).suffix.lower()
    if _PDF_MAGIC in content[:1024]:
        return _loader("pdf")
    if suffix == ".pdf":
        raise IngestError(
            "The file is no PDF, although its name says so.",
            hint="Open it in a PDF viewer; a download may have been cut off.",
        )
    for key in available("loader"):
        if suffix in _loader(key).suffixes:
            return _loader(key)
    raise IngestError(
        f"Files of the type '{suffix or 'without a suffix'}' cannot be read yet.",
        hint=f"Known types: {', '.join(sorted(known_suffixes()))}.",
    )


def known_suffixes() -> set[str]:
    return {suffix for key in available("loader") for suffix in _loader(key).suffixes}


def _loader(key: str) -> Loader:
    loader: Loader = find("loader", key)()
    return loader
