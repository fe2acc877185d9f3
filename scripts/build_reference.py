"""Write the generated parts of the documentation.

    python scripts/build_reference.py            write
    python scripts/build_reference.py --check    name outdated pages, and fail

The settings tree → docs/reference/settings.md, the commands → docs/reference/cli.md, the public
names → docs/reference/api.md, a printed answer → between the marks in README.md. Run by
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

from describe_api import GENERATED_NOTE, render_api_page
from ragstone.cli.main import app
from ragstone.settings import PRESETS, allowed_values, load_settings, preset_values

ROOT = Path(__file__).parents[1]
QUESTION = "When does the lease end?"
BEGIN, END = "<!-- answer: written by make reference -->", "<!-- end of answer -->"


def render_settings_page() -> str:
    loaded = load_settings(environ={}, config_file=None, flags={"preset": "balanced"})
    lines = [
        "# Settings",
        "",
        GENERATED_NOTE,
        "",
        "Precedence: flags (`--set NAME=VALUE`), then the environment, then `ragstone.toml`, then",
        "the preset, then the defaults below. `ragstone settings` prints every value with its",
        "origin. A path such as `refine.top_k` is `top_k` in the section `[refine]` of the file.",
    ]
    section = ""
    for setting in loaded.listing:
        head = setting.path.rpartition(".")[0] or "general"
        if head != section:
            section = head
            header = "| setting | variables | allowed | default | |"
            lines += ["", f"## {head}", "", header, "|---|---|---|---|---|"]
        names = ", ".join(f"`{name}`" for name in setting.names)
        name = setting.path.rpartition(".")[2]
        lines.append(
            f"| `{name}` | {names} | {allowed_values(setting.path)} "
            f"| {format_default(setting.path)} | {setting.description} |"
        )
    return "\n".join([*lines, "", *render_presets()]) + "\n"


def format_default(path: str) -> str:
    if path == "data.directory":
        return "the user's data directory"
    if path == "data.models":
        return "`models` in the user's data directory"
    if path == "evaluate.directory":
        return "the user's cache directory"
    from ragstone.settings.sources import _fields

    value: Any = _fields()[path].default
    if value is None:
        return "–"
    if isinstance(value, SecretStr):  # a default is not a secret
        value = value.get_secret_value()
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{shown}`" if shown else "empty"


def render_presets() -> Iterator[str]:
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


def render_cli_page() -> str:
    lines = [
        "# Commands",
        "",
        GENERATED_NOTE,
        "",
        "Exit codes: 0 success, 1 an explained error or a `--fail-on` that holds, 2 wrong usage,",
        "3 a `--fail-if` that holds, 130 Ctrl-C. In a pipe, tables are tab-separated lines without",
        "colour.",
    ]
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        lines += describe_command(command, f"ragstone {name}")
    return "\n".join(lines) + "\n"


def describe_command(command: Any, name: str) -> Iterator[str]:
    inner = getattr(command, "commands", {})
    if not inner or getattr(command, "invoke_without_command", False):
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        usage = " ".join([name, *(p.metavar or p.name.upper() for p in arguments), "[OPTIONS]"])
        yield from ("", f"## `{name}`", "", f"    {usage}", "")
        yield from render_help(command.help or "")
        yield from ("", "| | |", "|---|---|")
        for option in command.params:
            if option.param_type_name == "option":
                names = ", ".join(f"`{text}`" for text in option.opts)
                yield f"| {names} | {option.help} |"
            elif option.help:
                yield f"| {option.metavar or option.name.upper()} | {option.help} |"
    for inner_name, inner_command in inner.items():
        yield from describe_command(inner_command, f"{name} {inner_name}")


def render_help(text: str) -> Iterator[str]:
    """Render a help text as Markdown; its examples become one block of code."""
    prose, *rest = re.split(r"\n?Examples?:", text, maxsplit=1)
    examples = rest[0] if rest else ""
    yield from (line.strip() for line in prose.strip().splitlines())
    if lines := [line.strip() for line in examples.splitlines() if line.strip()]:
        yield from ("", "```text", *lines, "```")


def render_readme() -> str:
    text = (ROOT / "README.md").read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    block = f"\n```text\n$ ragstone ask '{QUESTION}' -C demo -d .demo\n\n{run_example()}```\n"
    return f"{before}{BEGIN}{block}{END}{after}"


def run_example() -> str:
    """Return the output of `ragstone ask` for the sample documents."""
    samples = str(resources.files("ragstone.samples") / "documents")
    command = [sys.executable, "-m", "ragstone"]
    with tempfile.TemporaryDirectory() as data:
        subprocess.run([*command, "ingest", samples, "-d", data], check=True, capture_output=True)
        ask = [*command, "ask", QUESTION, "-d", data]
        return subprocess.run(ask, check=True, capture_output=True, text=True).stdout


def split_figures(text: str) -> tuple[str, list[float]]:
    """Return a text without its times and scores, and the scores."""
    scores = [float(one) for one in _SCORE.findall(text)]
    return re.sub(r"\d+(?:\.\d+)? ms", "…", _SCORE.sub("…", text)), scores


_SCORE = re.compile(r"(?<=(?:rounded|fidence) )\d\.\d\d")
# The last digit differs between processors.
_TOLERANCE = 0.03


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the generated parts of the documentation.")
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    pages = {
        "docs/reference/settings.md": render_settings_page(),
        "docs/reference/cli.md": render_cli_page(),
        "docs/reference/api.md": render_api_page(),
        "README.md": render_readme(),
    }
    outdated = [name for name, text in pages.items() if is_outdated(ROOT / name, text)]
    if check:
        for name in outdated:
            print(f"{name} is out of date; run: make reference", file=sys.stderr)
        return 1 if outdated else 0
    for name in outdated:
        (ROOT / name).write_text(pages[name], "utf-8")
        print(f"wrote {name}")
    return 0


def is_outdated(path: Path, text: str) -> bool:
    """Return True where a page differs by more than times and the last digit of a score."""
    if not path.exists():
        return True
    (old, before), (new, now) = split_figures(path.read_text("utf-8")), split_figures(text)
    return old != new or any(abs(a - b) > _TOLERANCE for a, b in zip(before, now, strict=True))


if __name__ == "__main__":
    sys.exit(main())
