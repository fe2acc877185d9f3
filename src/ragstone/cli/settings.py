"""`ragstone settings`: every effective value and who set it."""

from __future__ import annotations

from pydantic import SecretStr

from ragstone.cli import options
from ragstone.cli.terminal import err, print_json, print_table
from ragstone.settings import Setting


def settings(
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Print every setting with its value, its origin and the variables that set it.

    Precedence: flags, then the environment, then ragstone.toml, then the preset.

    Example:  RAG_TOP_K=3 ragstone settings --preset classic
    """
    loaded = options.load(data, config, preset, set)
    if json:
        print_json([
            {"name": one.path, "value": _shown(one), "origin": one.origin,
             "variables": list(one.names), "description": one.description}
            for one in loaded.listing
        ])  # fmt: skip
        return
    rows = [(one.path, _shown(one), one.origin, ", ".join(one.names)) for one in loaded.listing]
    print_table(["setting", "value", "origin", "variables"], rows)
    for name in loaded.unused:
        err().print(f"[dim]note: {name} is set, but no part of this version reads it.[/]")


def _shown(setting: Setting) -> str | int | float | bool | None:
    value = setting.value
    if isinstance(value, SecretStr):
        return "********" if value.get_secret_value() else ""
    return value if isinstance(value, str | int | float | bool | None) else str(value)
