"""Use Ragstone as `pip install ragstone` alone leaves it; print a sentence where that fails.

Arguments: a folder to work in, with a folder `documents`, one document per format. Run with
`sitecustomize.py` beside it on PYTHONPATH.
"""

from __future__ import annotations

import asyncio
import json
import pkgutil
import subprocess
import sys
import threading
import urllib.request
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path

# A limit that only a server which hangs can reach.
LONG_S = 300.0

# The modules that need more than the core at their import.
NEED_MORE = (
    "ragstone.integrations.langchain",
    "ragstone.integrations.llamaindex",
    "ragstone.providers.fastembed",
    "ragstone.providers.sentence_transformers",
    "ragstone.server.mcp",
    # Suites for plug-ins: who runs them has pytest.
    "ragstone.testing.catalogs",
    "ragstone.testing.conformance",
)


class OutsideCoreError(RuntimeError):
    """A process that parses files was refused an import."""


def load_entry_points() -> int:
    """Load every part that no extra is named after."""
    ragstone = distribution("ragstone")
    extras = set(ragstone.metadata.get_all("Provides-Extra") or ())
    loaded = [point.load() for point in ragstone.entry_points if point.name not in extras]
    return len(loaded)


def import_modules() -> int:
    """Import every module; those of NEED_MORE must be refused."""
    import ragstone

    found = pkgutil.walk_packages(ragstone.__path__, "ragstone.")
    names = {one.name for one in found if not one.name.endswith("__main__")}
    for name in NEED_MORE:
        if name not in names:
            raise LookupError(f"No module is called {name}: correct NEED_MORE.")
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            # Refused, or not installed here at all. A missing module of our own is another matter.
            if (error.name or "").partition(".")[0] == "ragstone":
                raise
        else:
            raise LookupError(f"{name} needs only the core: remove it from NEED_MORE.")
    names -= {*NEED_MORE}
    for name in sorted(names):
        import_module(name)
    return len(names)


async def ingest_and_ask(folder: Path) -> str:
    from ragstone import Engine, load_settings

    settings = load_settings(flags={"data.directory": folder / "data"}, environ={}).settings
    async with Engine(settings) as engine:
        report = await engine.ingest([folder / "documents"])
        failed = [file for file in report.files if file.outcome != "added" or not file.chunk_count]
        for file in failed:
            # Files are parsed in other processes: of an exception only 200 characters come here,
            # so the end of the import chain may be cut off. The last module is named first.
            _, refused, sentence = (file.error or "").partition("RefusedImportError: ")
            if refused:
                raise OutsideCoreError(f"{sentence.removesuffix(').')} … (to read {file.name})")
        if failed:
            raise RuntimeError(f"Not every file was added: {failed}")
        print(f"{len(report.files)} documents")
        return (await engine.ask("Which colour is the gate?")).text


def serve_one_request(folder: Path) -> str:
    command = [sys.executable, "-m", "ragstone", "serve", "--port", "0", "-d", folder / "data"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        # Ends the wait for a line, too, where the server prints none.
        end = threading.Timer(LONG_S, server.kill)
        end.start()
        try:
            first = server.stderr.readline()
            address = next((word for word in first.split() if word.startswith("http://")), None)
            if address is None:
                server.terminate()  # while it runs, its output has no end
                raise RuntimeError("The server did not start.\n" + first + server.stderr.read())
            asked = urllib.request.Request(
                f"{address}/v1/query",
                json.dumps({"query": "Which colour is the gate?"}).encode(),
                {"content-type": "application/json"},
            )
            with urllib.request.urlopen(asked, timeout=LONG_S) as reply:
                return str(json.load(reply)["answer"])
        finally:
            end.cancel()
            server.terminate()


def find_refusal(error: BaseException | None) -> str:
    """Find the refused import behind an error, however often it was wrapped."""
    while error is not None:
        if type(error).__name__ in {"RefusedImportError", "OutsideCoreError"}:
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
        sys.exit(f"An import needs a package outside the core: {refusal}")


if __name__ == "__main__":
    main()
