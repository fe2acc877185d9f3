"""Run the examples of docs/reference/http.md against a real server with the sample documents.

    python scripts/http_examples.py            write their output into the page
    python scripts/http_examples.py --check    name those that differ, and fail

A block begins with `$ curl …` (continued after a backslash or a bar); its output follows.
Ids, numbers and times differ from run to run and are not compared.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "http.md"
SHOWN_ADDRESS = "http://127.0.0.1:8642"
BLOCK = re.compile(r"^```console\n(\$ .*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*[\\|]\n)*.*\n)", re.MULTILINE)


@contextmanager
def run_server() -> Iterator[str]:
    import uvicorn

    from ragstone.engine import Engine
    from ragstone.server.app import create_app
    from ragstone.settings import load_settings

    samples = str(resources.files("ragstone.samples") / "documents")
    with tempfile.TemporaryDirectory() as directory:
        flags = {"data.directory": directory}
        engine = Engine(load_settings(flags=flags, environ={}).settings)
        asyncio.run(engine.ingest([samples]))
        listener = socket.create_server(("127.0.0.1", 0))
        serving = uvicorn.Server(uvicorn.Config(create_app(engine), log_level="critical"))
        thread = threading.Thread(target=serving.run, kwargs={"sockets": [listener]})
        thread.start()
        while not serving.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            serving.should_exit = True
            thread.join()
            listener.close()


def run_block(block: str, address: str) -> str:
    """Run the commands of a block; return the block with their current output."""
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        for match in COMMAND.finditer(block):
            command = match[1].replace(SHOWN_ADDRESS, address)
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            if done.returncode:
                raise SystemExit(f"{match[1]}\n{done.stderr or done.stdout}")
            parts.append(f"$ {match[1]}{done.stdout.replace(address, SHOWN_ADDRESS).rstrip()}\n")
    return "".join(parts)


def mask_changes(text: str) -> str:
    """Hide ids and numbers, which differ from run to run."""
    text = re.sub(r"\b[0-9a-f]{24,64}\b", "ID", text)
    return re.sub(r"\d+(?:\.\d+)?(?:e-\d+)?", "0", text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    page = PAGE.read_text("utf-8")
    outdated: list[str] = []
    with run_server() as address:

        def run(match: re.Match[str]) -> str:
            now = run_block(match[1], address)
            if mask_changes(now) != mask_changes(match[1]):
                outdated.append(now)
                return f"```console\n{now}```"
            return match[0]

        fresh = BLOCK.sub(run, page)
    if check:
        for block in outdated:
            print(f"docs/reference/http.md differs from:\n{block}", file=sys.stderr)
        return 1 if outdated else 0
    PAGE.write_text(fresh, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
