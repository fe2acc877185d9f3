"""The house keeps its shape: imports go one way, and public names are pinned."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import ragstone

SOURCE = Path(ragstone.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

# The rooms in the order of their layers: a room may import from rooms above it, never below.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "messages", "system", "prompts", "samples", "text", "calls"),
    ("admission",),
    ("threads", "processes", "files", "filters", "outline"),
    ("reports", "types"),
    ("blocks", "events", "evidence", "trace", "settings"),
    ("protocols", "fallback", "observe"),
    ("derived",),
    ("models", "catalog"),
    ("plugins",),
    ("index", "providers", "testing"),
    ("reading",),
    ("query.understand",),
    ("query.retrieve",),
    ("query.refine",),
    ("query.ground",),
    ("query.check",),
    ("query", "ingest"),
    ("parts",),
    ("engine",),
    ("evaluate",),
    ("server",),
    ("integrations",),
    ("cli",),
    ("__main__", "ragstone"),
)
LAYER_OF = {room: layer for layer, rooms in enumerate(LAYERS) for room in rooms}


def imports_of(path: Path) -> Iterator[str]:
    """Yield the rooms that a module imports from, those for type checkers included."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        if node.module == "ragstone":  # `__version__`, or a top-level module
            yield from (one.name for one in node.names if (SOURCE / f"{one.name}.py").exists())
        elif node.module.startswith("ragstone."):
            parts = node.module.split(".")[1:]
            names = [*parts, node.names[0].name]
            yield room_of(names if (SOURCE / Path(*names)).is_dir() else parts)


def room_of(parts: Sequence[str]) -> str:
    """Return the folder of a module; the stages of the query pipeline are rooms of their own."""
    is_stage = parts[0] == "query" and len(parts) > 1 and (SOURCE / "query" / parts[1]).is_dir()
    return ".".join(parts[:2]) if is_stage else parts[0]


def room(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return "ragstone" if parts == ("__init__",) else room_of(parts)


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def test_every_room_has_its_layer() -> None:
    assert {room(path) for path in MODULES} <= LAYER_OF.keys()


def test_imports_go_one_way() -> None:
    against = {
        f"{name_of(path)} imports from {other}"
        for path in MODULES
        for other in imports_of(path)
        if other != room(path) and LAYER_OF[other] >= LAYER_OF[room(path)]
    }
    assert not against


def test_the_page_lists_every_room_in_the_order_of_the_layers() -> None:
    page = (SOURCE.parents[1] / "ARCHITECTURE.md").read_text("utf-8")
    table = page.partition("| room |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    listed = [name for cell in cells for name in re.findall(r"`(\w+)(?:\.py|/)`", cell)]
    expected = {room for room in LAYER_OF if "." not in room} - {"__main__", "ragstone"}
    assert set(listed) == expected, set(listed) ^ expected
    layers = [LAYER_OF[name] for name in listed]
    assert layers == sorted(layers), listed


def test_only_the_settings_read_the_environment() -> None:
    readers = [
        path.name
        for path in MODULES
        if "os.environ" in path.read_text("utf-8") or "getenv" in path.read_text("utf-8")
    ]
    assert readers == ["sources.py"]


def test_the_public_names_are_pinned() -> None:
    assert sorted(ragstone.__all__) == [
        "Answer", "BatchItem", "Chunk", "Citation", "Claim", "ClaimsChecked", "CollectionInfo",
        "Comparison", "DeadlineError", "Document", "Engine", "Event", "Explanation", "Feedback",
        "Finished", "ForbiddenError", "Grounding", "Hit", "IngestError", "IngestOptions",
        "IngestReport", "IngestedFile", "InputError", "LimitError", "LoadedSettings", "Message",
        "NotFoundError", "OriginalMissingError", "OverloadedError", "ProviderError", "QueryOptions",
        "QueryRun", "QuestionContext", "RagstoneError", "RefusedError", "Scores", "Settings",
        "SettingsError", "SideEvent", "Source", "SourcesFound", "StoreBusyError",
        "StoreDamagedError", "StoreError", "StoreUnavailableError", "Token",
        "TooManyRequestsError", "UnauthorizedError",
        "UnusableReplyError", "UploadOptions", "__version__", "load_settings",
    ]  # fmt: skip
    for name in ragstone.__all__:
        assert getattr(ragstone, name) is not None


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_here"):
        ragstone.nothing_here  # noqa: B018  the access is the test


def test_no_work_uses_the_thread_pool_that_everything_else_uses() -> None:
    shared = re.compile(r"asyncio\.to_thread\(|run_in_executor\(\s*None")
    assert not [name_of(path) for path in MODULES if shared.search(path.read_text("utf-8"))]
