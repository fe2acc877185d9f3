"""Change settings: by path for another engine, and in their file while a server runs.

loaded settings and new values → the settings file, replaced atomically, and the settings as they
are read from it. A value from a flag or a variable wins over the file: it cannot be changed here.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragstone.errors import InputError, SettingsError
from ragstone.files import replace_file
from ragstone.settings.schema import Settings
from ragstone.settings.sources import LoadedSettings, Setting, load_settings

# What the next question reads. Everything else is held by parts that stay open.
CHANGEABLE = (
    "preset",
    "retrieve.method",
    "refine.min_similarity",
    "refine.reranker_enabled",
    "refine.mmr_lambda",
    "refine.top_k",
    "ground.temperature",
    "provider.name",
    "provider.model",
    "check.hold_unverified",
)
# Search without any refinement.
UNREFINED: Mapping[str, Any] = {
    "refine.min_similarity": 0.0,
    "refine.reranker_enabled": False,
    "refine.duplicate_similarity": 1.0,
    "refine.mmr_lambda": 1.0,
}
_QUERY_SECTIONS = ("understand", "retrieve", "refine", "ground", "provider", "check")


def explain_fixed(setting: Setting, loaded: LoadedSettings | None) -> str:
    """Return why a setting cannot be changed while the server runs; empty if it can."""
    source, _, name = setting.origin.partition(" ")
    if source in ("environment", "flag"):
        where = f"the variable {name}" if source == "environment" else f"the option {name}"
        return f"Set by {where}, which wins over the settings file."
    if setting.path not in CHANGEABLE:
        return "Needs a restart: change it in the settings file."
    if loaded is None:
        return "This server was started by a program, which has its settings."
    if loaded.settings.server.workers > 1:
        return "This server has several processes: change the settings file and restart it."
    return ""


def plan_change(loaded: LoadedSettings, values: Mapping[str, Any]) -> tuple[str, Settings]:
    """Return the new text of the settings file, and the settings that it will give.

    Nothing is written. Raise an error if a value is not allowed, or if one needs a restart.
    """
    by_path = {one.path: one for one in loaded.listing}
    for path in values:
        if path not in by_path:
            raise InputError(f"There is no setting named '{path}'.", hint="See GET /v1/settings.")
        if reason := explain_fixed(by_path[path], loaded):
            raise InputError(f"The setting {path} cannot be changed here.", hint=reason)
    target = loaded.config_file
    text = set_values(target.read_text("utf-8") if target.is_file() else "", values)
    with tempfile.TemporaryDirectory(prefix="ragstone-settings-") as folder:
        candidate = Path(folder) / target.name
        candidate.write_text(text, "utf-8")
        settings = load_settings(flags=loaded.flags, config_file=candidate).settings
    _refuse_restart(loaded.settings, settings)
    return text, settings


def finish_change(loaded: LoadedSettings, text: str) -> LoadedSettings:
    """Write the settings file and read the settings from it, with their origins."""
    write_file(loaded.config_file, text)
    return load_settings(flags=loaded.flags, config_file=loaded.config_file)


def _refuse_restart(before: Settings, after: Settings) -> None:
    """Refuse a preset that changes what only a restart can apply, such as the embedder."""
    for name in Settings.model_fields:
        if name not in (*_QUERY_SECTIONS, "preset") and getattr(before, name) != getattr(
            after, name
        ):
            raise InputError(
                f"This also changes the section '{name}', which needs a restart.",
                hint="Change it in the settings file and restart the server.",
            )


def change_settings(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Return the settings with other values by path, validated like any others."""
    tree = settings.model_dump()
    for path, value in values.items():
        section, _, name = path.rpartition(".")
        (tree[section] if section else tree)[name] = value
    return Settings.model_validate(tree)


def write_file(target: Path, text: str) -> None:
    """Replace a settings file atomically."""
    try:
        replace_file(target, text.encode())
    except OSError as error:
        raise SettingsError(
            f"The settings file '{target}' cannot be written: {error.strerror}.",
            hint="Choose another with --config FILE.",
        ) from error


def set_values(text: str, values: Mapping[str, Any]) -> str:
    """Set values in the text of a TOML file; other lines stay as they are."""
    for path, value in values.items():
        section, _, name = path.rpartition(".")
        text = _set_value(text, section, name, json.dumps(value, ensure_ascii=False))
    return text


def _set_value(text: str, section: str, name: str, value: str) -> str:
    line = f"{name} = {value}"
    start, head = 0, ""
    if section:
        found = re.search(rf"^\[{re.escape(section)}\][^\n]*\n?", text, re.MULTILINE)
        if found is None:
            return f"{text.rstrip()}\n\n[{section}]\n{line}\n".lstrip()
        start, head = found.end(), found[0]
    rest = text[start:]
    end = re.search(r"^\[", rest, re.MULTILINE)
    body, after = (rest[: end.start()], rest[end.start() :]) if end else (rest, "")
    changed, count = re.subn(rf"^{name}\s*=.*$", lambda _: line, body, flags=re.MULTILINE)
    body = changed if count else f"{line}\n{body}"
    before = text[:start].rstrip("\n") + "\n" if head else ""
    return before + body + after
