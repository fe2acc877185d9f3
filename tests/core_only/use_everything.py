"""Use Ragstone as `pip install ragstone` alone leaves it; print a sentence where that fails.

Arguments: a folder to work in. Run with `sitecustomize.py` beside it on PYTHONPATH.
"""

from __future__ import annotations

import asyncio
import json
import pkgutil
import subprocess
import sys
import urllib.request
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path

# How the names of the modules begin that may need more than the core at their import.
NEED_MORE = (
    "ragstone.integrations.langchain",
    "ragstone.integrations.llamaindex",
    "ragstone.providers.fastembed",
    "ragstone.providers.sentence_transformers",
    "ragstone.server.mcp",
    "ragstone.index.qdrant",
    # Suites for plug-ins: who runs them has pytest.
    "ragstone.testing.catalogs",
    "ragstone.testing.conformance",
    "ragstone.testing.conformance",
)


def load_entry_points() -> int:
    """Load every part that no extra is named after."""
    ragstone = distribution("ragstone")
    extras = set(ragstone.metadata.get_all("Provides-Extra") or ())
    loaded = [point.load() for point in ragstone.entry_points if point.name not in extras]
    return len(loaded)


def import_modules() -> int:
    """Import every module, but for those that need more than the core."""
    import ragstone

    found = pkgutil.walk_packages(ragstone.__path__, "ragstone.")
    names = [one.name for one in found if not one.name.endswith("__main__")]
    for start in NEED_MORE:
        if not any(name.startswith(start) for name in names):
            raise LookupError(f"No module is called {start}: correct NEED_MORE.")
    names = [name for name in names if not name.startswith(NEED_MORE)]
    for name in names:
        import_module(name)
    return len(names)


async def ingest_and_ask(folder: Path) -> str:
    from ragstone import Engine, load_settings

    documents = folder / "documents"
    documents.mkdir()
    (documents / "gate.txt").write_text("The gate of the observatory is painted green.")
    (documents / "hours.md").write_text("# Hours\n\nThe dome opens at nine in the evening.")
    (documents / "shop.html").write_text("<h1>Shop</h1><p>A map of the stars costs 7 euros.</p>")
    (documents / "prices.csv").write_text("item,price\nsoup,6 euros\nbread,2 euros\n")
    settings = load_settings(flags={"data.directory": folder / "data"}, environ={}).settings
    async with Engine(settings) as engine:
        report = await engine.ingest([documents])
        outcomes = [str(file.outcome) for file in report.files]
        if outcomes != ["added"] * 4:
            raise RuntimeError(f"Not every file was added: {report}")
        return (await engine.ask("Which colour is the gate?")).text


def serve_one_request(folder: Path) -> str:
    command = [sys.executable, "-m", "ragstone", "serve", "--port", "0", "-d", folder / "data"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        first = server.stderr.readline()
        address = next((word for word in first.split() if word.startswith("http://")), None)
        if address is None:
            raise RuntimeError("The server did not start.\n" + first + server.stderr.read())
        asked = urllib.request.Request(
            f"{address}/v1/query",
            json.dumps({"query": "Which colour is the gate?"}).encode(),
            {"content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(asked) as reply:
                return str(json.load(reply)["answer"])
        finally:
            server.terminate()


def find_refusal(error: BaseException | None) -> str:
    """Find the refused import behind an error, however often it was wrapped."""
    while error is not None:
        if type(error).__name__ == "RefusedImportError":
            return str(error)
        error = error.__cause__ or error.__context__
    return ""


def main() -> None:
    folder = Path(sys.argv[1])
    try:
        print(f"{load_entry_points()} entry points")
        print(f"{import_modules()} modules")
        print("asked:", asyncio.run(ingest_and_ask(folder)))
        print("served:", serve_one_request(folder))
    except Exception as error:
        refusal = find_refusal(error)
        if not refusal:
            raise
        sys.exit(f"The core does not stand alone: {refusal}")


if __name__ == "__main__":
    main()
