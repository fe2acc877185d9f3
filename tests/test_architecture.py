"""The house keeps its shape: imports go one way, modules stay small, public names are pinned."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import ragstone

SOURCE = Path(ragstone.__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py") if "migrations" not in path.parts)

# Each room may import only from rooms to its right in the reading path.
FORBIDDEN = {
    "types": {
        "stages",
        "trace",
        "settings",
        "query",
        "ingest",
        "stores",
        "engine",
        "server",
        "cli",
    },
    "errors": {"types", "stages", "query", "ingest", "stores", "engine", "server", "cli"},
    "stages": {"query", "ingest", "stores", "models", "providers", "engine", "server", "cli"},
    "reading": {"stages", "query", "ingest", "stores", "models", "engine", "server", "cli"},
    "trace": {"query", "ingest", "stores", "engine", "server", "cli"},
    "settings": {"query", "ingest", "stores", "engine", "server", "cli"},
    "query": {"ingest", "providers", "engine", "server", "cli", "evaluate"},
    "ingest": {"query", "providers", "engine", "server", "cli", "evaluate"},
    "stores": {"query", "ingest", "providers", "engine", "server", "cli", "evaluate"},
    "models": {"query", "ingest", "providers", "engine", "server", "cli", "evaluate"},
    "providers": {"ingest", "engine", "server", "cli", "evaluate"},
    "engine": {"server", "cli", "evaluate"},
    "history": {"engine", "server", "cli", "evaluate"},
    "intake": {"engine", "server", "cli", "evaluate"},
    "evaluate": {"server", "cli"},
    "server": {"cli"},
}
NAMES_TO_AVOID = {"utils", "helpers", "manager", "base", "common", "misc"}


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def test_imports_go_one_way() -> None:
    against = {
        f"{name_of(path)} imports {name}"
        for path in MODULES
        for name in imports_of(path)
        if name.startswith("ragstone.") and name.split(".")[1] in FORBIDDEN.get(room(path), set())
    }
    assert not against


def test_a_module_is_a_page_or_two() -> None:
    lengths = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert not {name: length for name, length in lengths.items() if length > 400}


def test_a_module_says_what_it_is_for() -> None:
    silent = [path for path in MODULES if not ast.get_docstring(ast.parse(path.read_text("utf-8")))]
    assert not [name_of(path) for path in silent]


def test_names_say_what_is_inside() -> None:
    assert not {path.stem for path in MODULES} & NAMES_TO_AVOID


def test_only_the_settings_read_the_environment() -> None:
    readers = [
        path.name
        for path in MODULES
        if "os.environ" in path.read_text("utf-8") or "getenv" in path.read_text("utf-8")
    ]
    assert readers == ["layers.py"]


def test_the_public_names_are_pinned() -> None:
    assert sorted(ragstone.__all__) == [
        "Answer", "Chunk", "Citation", "Claim", "Comparison", "DeadlineError", "Document", "Engine",
        "Event", "Finished", "ForbiddenError", "Grounding", "Hit", "IngestError", "IngestOptions",
        "IngestReport", "IngestedFile", "InputError", "LimitError", "LoadedSettings", "Message",
        "NotFoundError", "OverloadedError", "ProviderError", "QueryOptions", "RagstoneError",
        "RefusedError", "Scores", "Settings", "SettingsError", "Source", "SourcesFound",
        "StoreBusyError", "StoreError", "Token", "TooManyRequestsError", "UnauthorizedError",
        "UnusableReplyError", "__version__", "load_settings",
    ]  # fmt: skip
    for name in ragstone.__all__:
        assert getattr(ragstone, name) is not None


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_here"):
        ragstone.nothing_here  # noqa: B018  the access is the test
