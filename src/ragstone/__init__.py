"""Ragstone answers questions from your own documents, with citations that can be checked."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragstone.engine import Engine
    from ragstone.errors import RagstoneError
    from ragstone.settings import Settings, load_settings
    from ragstone.types import Answer, Chunk, Citation, Claim, Document, Hit, Source

__version__ = "0.1.0"

_HOMES = {
    "Engine": "ragstone.engine",
    "RagstoneError": "ragstone.errors",
    "Settings": "ragstone.settings",
    "load_settings": "ragstone.settings",
    "Answer": "ragstone.types",
    "Chunk": "ragstone.types",
    "Citation": "ragstone.types",
    "Claim": "ragstone.types",
    "Document": "ragstone.types",
    "Hit": "ragstone.types",
    "Source": "ragstone.types",
}

__all__ = [
    "Answer", "Chunk", "Citation", "Claim", "Document", "Engine", "Hit", "RagstoneError",
    "Settings", "Source", "__version__", "load_settings",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Names are looked up at first use: `import ragstone` must not cost a second of imports.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ragstone' has no attribute {name!r}")
