"""Ragstone answers questions from your own documents, with citations that can be checked."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragstone.catalog.collections import CollectionInfo
    from ragstone.catalog.feedback import Feedback
    from ragstone.engine import Engine
    from ragstone.errors import (
        DeadlineError,
        ForbiddenError,
        IngestError,
        InputError,
        LimitError,
        NotFoundError,
        OriginalMissingError,
        OverloadedError,
        ProviderError,
        RagstoneError,
        RefusedError,
        SettingsError,
        StoreBusyError,
        StoreDamagedError,
        StoreError,
        StoreUnavailableError,
        TooManyRequestsError,
        UnauthorizedError,
        UnusableReplyError,
    )
    from ragstone.events import (
        ClaimsChecked,
        Comparison,
        Event,
        Finished,
        SideEvent,
        SourcesFound,
        Token,
    )
    from ragstone.ingest.intake import IngestOptions, UploadOptions
    from ragstone.query.batch import BatchItem, QuestionContext
    from ragstone.query.explain import Explanation
    from ragstone.query.request import QueryOptions
    from ragstone.reports import IngestedFile, IngestReport
    from ragstone.settings import LoadedSettings, Settings, load_settings
    from ragstone.trace import QueryRun
    from ragstone.types import (
        Answer,
        Chunk,
        Citation,
        Claim,
        Document,
        Grounding,
        Hit,
        Message,
        Scores,
        Source,
    )

__version__ = "0.1.0"

_NAMES = {
    "ragstone.catalog.collections": ("CollectionInfo",),
    "ragstone.catalog.feedback": ("Feedback",),
    "ragstone.engine": ("Engine",),
    "ragstone.errors": (
        "DeadlineError", "ForbiddenError", "IngestError", "InputError", "LimitError",
        "NotFoundError", "OriginalMissingError", "OverloadedError", "ProviderError",
        "RagstoneError", "RefusedError", "SettingsError", "StoreBusyError", "StoreDamagedError",
        "StoreError", "StoreUnavailableError", "TooManyRequestsError", "UnauthorizedError",
        "UnusableReplyError",
    ),
    "ragstone.events": (
        "ClaimsChecked", "Comparison", "Event", "Finished", "SideEvent", "SourcesFound", "Token",
    ),
    "ragstone.ingest.intake": ("IngestOptions", "UploadOptions"),
    "ragstone.query.batch": ("BatchItem", "QuestionContext"),
    "ragstone.query.explain": ("Explanation",),
    "ragstone.query.request": ("QueryOptions",),
    "ragstone.settings": ("LoadedSettings", "Settings", "load_settings"),
    "ragstone.reports": ("IngestReport", "IngestedFile"),
    "ragstone.trace": ("QueryRun",),
    "ragstone.types": (
        "Answer", "Chunk", "Citation", "Claim", "Document", "Grounding",
        "Hit", "Message", "Scores", "Source",
    ),
}  # fmt: skip
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [
    "Answer", "BatchItem", "Chunk", "Citation", "Claim", "ClaimsChecked", "CollectionInfo",
    "Comparison", "DeadlineError", "Document", "Engine", "Event", "Explanation", "Feedback",
    "Finished", "ForbiddenError", "Grounding", "Hit", "IngestError", "IngestOptions",
    "IngestReport", "IngestedFile", "InputError", "LimitError", "LoadedSettings", "Message",
    "NotFoundError", "OriginalMissingError", "OverloadedError", "ProviderError", "QueryOptions",
    "QueryRun", "QuestionContext", "RagstoneError", "RefusedError", "Scores", "Settings",
    "SettingsError", "SideEvent", "Source", "SourcesFound", "StoreBusyError", "StoreDamagedError",
    "StoreError", "StoreUnavailableError", "Token", "TooManyRequestsError", "UnauthorizedError",
    "UnusableReplyError", "UploadOptions", "__version__", "load_settings",
]  # fmt: skip


if not TYPE_CHECKING:
    # A type checker that sees `__getattr__` accepts every name, also a mistyped one.

    def __getattr__(name: str) -> Any:
        # Names are looked up at first use: `import ragstone` must not cost a second of imports.
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'ragstone' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
