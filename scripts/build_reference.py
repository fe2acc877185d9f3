"""Write the parts of the documentation that the program itself knows.

    python scripts/build_reference.py            write
    python scripts/build_reference.py --check    say what is out of date, and fail

The settings tree → docs/reference/settings.md, the commands → docs/reference/cli.md, the public
names → docs/reference/api.md, an answer as it is printed → between the marks in README.md. Run by
`make reference`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import typer
from pydantic import SecretStr

from describe_api import MADE, api_page
from ragstone.cli.main import app
from ragstone.settings import PRESETS, allowed_values, load_settings, preset_values

ROOT = Path(__file__).parents[1]
QUESTION = "What interest is charged on rent that arrives late?"
BEGIN, END = "<!-- answer: written by make reference -->", "<!-- end of answer -->"


def settings_page() -> str:
    loaded = load_settings(environ={}, config_file=None, flags={"preset": "balanced"})
    lines = [
        "# Settings", "", MADE, "",
        "Precedence: flags (`--set NAME=VALUE`), then the environment, then `ragstone.toml`, then",
        "the preset, then the defaults below. `ragstone settings` prints every value with its",
        "origin. A path such as `refine.top_k` is `top_k` in the section `[refine]` of the file.",
    ]  # fmt: skip
    section = ""
    for setting in loaded.listing:
        head = setting.path.rpartition(".")[0] or "general"
        if head != section:
            section = head
            lines += ["", f"## {head}", "", "| setting | variables | allowed | default | |",
                      "|---|---|---|---|---|"]  # fmt: skip
        names = ", ".join(f"`{name}`" for name in setting.names)
        name = setting.path.rpartition(".")[2]
        lines.append(
            f"| `{name}` | {names} | {allowed_values(setting.path)} | {default_of(setting.path)} "
            f"| {setting.description} |"
        )
    return "\n".join([*lines, "", *presets_table()]) + "\n"


def default_of(path: str) -> str:
    if path == "data.directory":
        return "the user's data directory"
    if path == "evaluate.directory":
        return "the user's cache directory"
    from ragstone.settings.sources import _fields

    value: Any = _fields()[path].default
    if value is None:
        return "–"
    if isinstance(value, SecretStr):  # a default is no secret
        value = value.get_secret_value()
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{shown}`" if shown else "empty"


def presets_table() -> Iterator[str]:
    values = {preset: preset_values(preset) for preset in PRESETS}
    paths = list(dict.fromkeys(path for preset in PRESETS for path in values[preset]))
    paths.remove("preset")
    yield "## Presets"
    yield ""
    yield f"| setting | {' | '.join(PRESETS)} |"
    yield "|---" * (len(PRESETS) + 1) + "|"
    for path in paths:
        cells = [str(values[preset].get(path, "–")) for preset in PRESETS]
        yield f"| `{path}` | {' | '.join(cells)} |"


def cli_page() -> str:
    lines = [
        "# Commands", "", MADE, "",
        "Exit codes: 0 well, 1 a failure that is explained, 2 a wrong command line, 3 a",
        "`--fail-if` that came true, 130 Ctrl-C.",
        "In a pipe tables are tab-separated lines and nothing is coloured.",
    ]  # fmt: skip
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        lines += describe(command, f"ragstone {name}")
    return "\n".join(lines) + "\n"


def describe(command: Any, name: str) -> Iterator[str]:
    inner = getattr(command, "commands", {})
    if not inner or getattr(command, "invoke_without_command", False):
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        usage = " ".join([name, *(p.metavar or p.name.upper() for p in arguments), "[OPTIONS]"])
        yield from ("", f"## `{name}`", "", f"    {usage}", "")
        yield from help_text(command.help or "")
        yield from ("", "| | |", "|---|---|")
        for option in command.params:
            if option.param_type_name == "option":
                names = ", ".join(f"`{text}`" for text in option.opts)
                yield f"| {names} | {option.help} |"
            elif option.help:
                yield f"| {option.metavar or option.name.upper()} | {option.help} |"
    for inner_name, inner_command in inner.items():
        yield from describe(inner_command, f"{name} {inner_name}")


def help_text(text: str) -> Iterator[str]:
    """A docstring as Markdown: its examples become one block of code."""
    prose, _, examples = re.split(r"(\n?Examples?:)", text, maxsplit=1) if "Example" in text else (
        text, "", "")  # fmt: skip
    yield from (line.strip() for line in prose.strip().splitlines())
    if lines := [line.strip() for line in examples.splitlines() if line.strip()]:
        yield from ("", "```text", *lines, "```")


def readme_page() -> str:
    text = (ROOT / "README.md").read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    block = f"\n```text\n$ ragstone ask '{QUESTION}'\n\n{printed_answer()}```\n"
    return f"{before}{BEGIN}{block}{END}{after}"


def printed_answer() -> str:
    """What `ragstone ask` prints over the sample documents."""
    samples = str(resources.files("ragstone.samples") / "documents")
    command = [sys.executable, "-m", "ragstone"]
    with tempfile.TemporaryDirectory() as data:
        subprocess.run([*command, "ingest", samples, "-d", data], check=True, capture_output=True)
        asked = [*command, "ask", QUESTION, "-d", data]
        return subprocess.run(asked, check=True, capture_output=True, text=True).stdout


def without_figures(text: str) -> str:
    """Times, and scores that differ in the last digit between processors, are not compared."""
    return re.sub(r"\d+(?:\.\d+)? ms|(?:grounded|confidence) \d\.\d\d", "…", text)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the generated parts of the documentation.")
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    pages = {
        "docs/reference/settings.md": settings_page(),
        "docs/reference/cli.md": cli_page(),
        "docs/reference/api.md": api_page(),
        "README.md": readme_page(),
    }
    old = [name for name, text in pages.items() if is_old(ROOT / name, text)]
    if check:
        for name in old:
            print(f"{name} is out of date; run: make reference", file=sys.stderr)
        return 1 if old else 0
    for name in old:
        (ROOT / name).write_text(pages[name], "utf-8")
        print(f"wrote {name}")
    return 0


def is_old(path: Path, text: str) -> bool:
    return not path.exists() or without_figures(path.read_text("utf-8")) != without_figures(text)


if __name__ == "__main__":
    sys.exit(main())
