"""Read the settings: flags > environment > ragstone.toml > preset > defaults.

Every value keeps its origin, for `ragstone settings` and for error messages. Nothing else reads
the environment.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
import tomllib
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo

from ragstone.errors import SettingsError
from ragstone.settings.schema import PRESETS, Settings
from ragstone.settings.services import Section

log = logging.getLogger(__name__)

CONFIG_FILE = "ragstone.toml"
# Variables that Kubernetes sets in every container for a Service `ragstone` or `ragstone-…`.
_SERVICE_VARIABLE = re.compile(
    r"RAGSTONE_(\w+_)?"
    r"(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")
# A variable with this similarity to a setting's name counts as a misspelling. RAGSTONE_VERSION and
# RAGSTONE_IMAGE, which other tools may set, are less similar to every name.
_MIN_SIMILARITY = 0.8
_MIN_PREFIX_CHARS = 6
# Settings have names that begin like this, and so have the variables of other programs.
_SHARED_PREFIXES = (
    "ANTHROPIC_",
    "EMBEDDING_",
    "GOOGLE_",
    "LLM_",
    "OLLAMA_",
    "OPENAI_",
    "QUERY_LOG",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """Describe the effective value of one setting and its origin."""

    path: str
    value: Any
    origin: str
    description: str
    names: tuple[str, ...]

    @property
    def shown_value(self) -> str | int | float | bool | None:
        """Return the value, or stars for a secret."""
        if isinstance(self.value, SecretStr):
            return "********" if self.value.get_secret_value() else ""
        is_plain = isinstance(self.value, str | int | float | bool | None)
        return self.value if is_plain else str(self.value)


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Hold the settings, and the origin of each value."""

    settings: Settings
    listing: tuple[Setting, ...]
    config_file: Path = Path(CONFIG_FILE)
    """The file that was read, or would be read if it existed."""
    flags: Mapping[str, Any] = field(default_factory=dict)


def load_settings(
    *,
    flags: Mapping[str, Any] | None = None,
    config_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    ignored_sections: Container[str] = (),
) -> LoadedSettings:
    """Read and validate the settings from all sources.

    `flags` are keyed by path (`refine.top_k`) or by variable name. `ignored_sections` of the file
    are not read.

    Example:

        from ragstone import load_settings

        settings = load_settings(flags={"preset": "careful", "refine.top_k": 3}).settings
        print(settings.preset, settings.refine.top_k, settings.data.directory)
    """
    environ = os.environ if environ is None else environ
    flag_layer = _to_layer(flags or {}, origin="flag")
    environ_layer = _read_environ(environ)
    file_layer = {
        path: found
        for path, found in _read_file(config_file, environ).items()
        if path.partition(".")[0] not in ignored_sections
    }
    chosen = [
        layer["preset"][0] for layer in (flag_layer, environ_layer, file_layer) if "preset" in layer
    ]
    preset = str(chosen[0] if chosen else Settings.model_fields["preset"].default)
    layers = (_read_preset(preset), file_layer, environ_layer, flag_layer)
    merged: dict[str, tuple[Any, str]] = {}
    for layer in layers:
        merged.update(layer)
    settings = _validate(merged)
    path = Path(config_file or environ.get("RAGSTONE_CONFIG") or CONFIG_FILE)
    listing = tuple(_list_values(settings, merged))
    return LoadedSettings(settings, listing, path.absolute(), dict(flags or {}))


def list_settings(settings: Settings) -> tuple[Setting, ...]:
    """List the values of settings built in a program, with the origin as far as it is known."""
    from_preset = preset_values(settings.preset)
    merged: _Layer = {}
    for one, default in zip(_list_values(settings, {}), _list_values(Settings(), {}), strict=True):
        if one.path in from_preset and one.value == from_preset[one.path]:
            merged[one.path] = (one.value, f"preset {settings.preset}")
        elif one.value != default.value:
            merged[one.path] = (one.value, "program")
    return tuple(_list_values(settings, merged))


def get_value(settings: Settings, path: str) -> Any:
    return attrgetter(path)(settings)


def preset_values(preset: str) -> dict[str, Any]:
    """Return the values of a preset, by path."""
    return {path: value for path, (value, _) in _read_preset(preset).items()}


@cache
def _fields() -> dict[str, FieldInfo]:
    """Return every field by its path, in order."""
    fields: dict[str, FieldInfo] = {}
    for name, info in Settings.model_fields.items():
        section = info.annotation
        if isinstance(section, type) and issubclass(section, Section):
            fields |= {f"{name}.{inner}": one for inner, one in section.model_fields.items()}
        else:
            fields[name] = info
    return fields


def _names(path: str) -> tuple[str, ...]:
    """Return the variables of a path: the design documents' names and RAGSTONE_SECTION_FIELD."""
    extra = _fields()[path].json_schema_extra
    listed = extra.get("names") if isinstance(extra, dict) else None
    own = [str(name) for name in listed] if isinstance(listed, list) else []
    section, _, field = path.partition(".")
    prefix = _prefixes().get(section)
    own += [f"{prefix}_{field.upper()}"] if prefix else []
    regular = f"RAGSTONE_{path.replace('.', '_').upper()}"
    return tuple(dict.fromkeys([*own, regular]))


@cache
def _prefixes() -> dict[str, str]:
    """Return the sections whose variables have a prefix of their own, such as OPENAI."""
    sections = {name: info.annotation for name, info in Settings.model_fields.items()}
    return {
        name: one.prefix
        for name, one in sections.items()
        if isinstance(one, type) and issubclass(one, Section) and one.prefix
    }


@cache
def _paths_by_name() -> dict[str, tuple[str, ...]]:
    paths: dict[str, tuple[str, ...]] = {}
    for path in _fields():
        for name in _names(path):
            paths[name] = (*paths.get(name, ()), path)
    return paths


_Layer = dict[str, tuple[Any, str]]  # path: (value, origin)


def _to_layer(values: Mapping[str, Any], *, origin: str) -> _Layer:
    layer: _Layer = {}
    for key, value in values.items():
        paths = (key,) if key in _fields() else _paths_by_name().get(key)
        if paths is None:
            raise _make_unknown_error(key, origin)
        for path in paths:
            layer[path] = (value, f"{origin} {key}" if origin == "flag" else origin)
    return layer


def _read_environ(environ: Mapping[str, str]) -> _Layer:
    of_services = {name for name in environ if _is_of_service(name, environ[name])}
    for name in sorted(environ):
        if name in of_services:
            _warn_once(name, "Kubernetes sets it for a Service.")
        elif name in _paths_by_name() or name == "RAGSTONE_CONFIG":
            continue
        # A misspelt name must not be ignored silently.
        elif _is_misspelt(name):
            raise _make_unknown_error(name, "environment")
        elif name.startswith("RAGSTONE_"):
            _warn_once(name, "no setting has a similar name.")
        elif similar := _find_shared_name(name):
            _warn_once(name, f"no setting has that name. Did you mean {similar}?")
    # Of two names for one field the later one wins: it is the more specific one
    # (RETRIEVAL_FINAL_K over RAG_TOP_K, which sets two fields).
    return {
        path: (environ[name], f"environment {name}")
        for path in _fields()
        for name in _names(path)
        if name in environ and name not in of_services
    }


def _is_of_service(name: str, value: str) -> bool:
    """Return whether Kubernetes set this variable for a Service.

    A Service `ragstone-server` sets RAGSTONE_SERVER_PORT, which is also the name of a setting; the
    value tells them apart (`tcp://10.0.0.7:8642`).
    """
    if _SERVICE_VARIABLE.fullmatch(name):
        return True
    is_port = name.startswith("RAGSTONE_") and name.endswith("_PORT")
    return is_port and _SERVICE_ADDRESS.match(value) is not None


@cache
def _warn_once(name: str, reason: str) -> None:
    """Log an ignored variable; only once, because a command may read the settings twice."""
    log.warning("The variable %s is ignored: %s", name, reason)


def _is_misspelt(name: str) -> bool:
    """Return whether an unknown variable is similar to the name of a setting."""
    if name.startswith("RAGSTONE_"):
        return bool(_find_similar_names(name))
    is_ours = name.startswith(("RAG_", "BM25_", "RETRIEVAL_"))
    return is_ours and bool(difflib.get_close_matches(name, _paths_by_name(), n=1, cutoff=0.85))


def _find_shared_name(name: str) -> str | None:
    """Return the known variable most similar to a misspelt one: LLM_PROVIDER for LLM_PROVIDR.

    Other programs have variables that begin alike, so it is only logged.
    """
    known = [one for one in _paths_by_name() if one.startswith(_SHARED_PREFIXES)]
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.88)), None)


def _find_similar_names(name: str) -> list[str]:
    """Find the settings that a RAGSTONE_ variable may be meant for.

    These are the fields with that name (RAGSTONE_PORT for server.port), else a similar name, else
    a name with that beginning (RAGSTONE_DATA_DIR for data.directory).
    """
    core = _core(name).replace("_", "")
    fields: dict[str, list[str]] = {}
    for path in _fields():
        field = path.rpartition(".")[2].replace("_", "")
        fields.setdefault(field, []).append(_names(path)[0])
    if core in fields:
        return fields[core][:3]
    names = {_core(one).replace("_", ""): one for one in _paths_by_name()}
    close = difflib.get_close_matches(core, names, n=1, cutoff=_MIN_SIMILARITY)
    if not close and core not in Settings.model_fields and len(core) >= _MIN_PREFIX_CHARS:
        close = [one for one in names if one.startswith(core)][:1]
    if close:
        return [names[close[0]]]
    close = difflib.get_close_matches(core, fields, n=1, cutoff=_MIN_SIMILARITY)
    return fields[close[0]][:3] if close else []


def _read_file(config_file: Path | None, environ: Mapping[str, str]) -> _Layer:
    chosen = config_file or environ.get("RAGSTONE_CONFIG")
    path = Path(chosen or CONFIG_FILE)
    if not path.is_file():
        if chosen:
            raise SettingsError(
                f"The settings file '{path}' does not exist.",
                hint="Give --config the path of a TOML file.",
            )
        return {}
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(
            f"The settings file '{path}' cannot be read: {error}.",
            hint="It must be a TOML file in UTF-8.",
        ) from error
    return _to_layer(_flatten(values), origin=str(path))


def _read_preset(preset: str) -> _Layer:
    if preset not in PRESETS:
        raise SettingsError(f"Invalid preset '{preset}'.", hint=f"Allowed: {', '.join(PRESETS)}.")
    file = resources.files("ragstone.settings").joinpath("presets", f"{preset}.toml")
    values = _flatten(tomllib.loads(file.read_text("utf-8"))) | {"preset": preset}
    return _to_layer(values, origin=f"preset {preset}")


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        # A table in the place of a value is an invalid value, not a section.
        if isinstance(value, Mapping) and f"{prefix}{key}" not in _fields():
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _make_unknown_error(name: str, origin: str) -> SettingsError:
    # Compared without the common prefix, which would make all names similar. The hint shows
    # variables for the environment, and paths for the other origins.
    known = [*_fields(), *_paths_by_name()]
    by_core = {_core(one): one for one in (known if origin == "environment" else reversed(known))}
    # A name in the wrong section: `openai_api_key` under [provider] is `openai.api_key`.
    elsewhere = _core(name.rpartition(".")[2])
    close = [elsewhere] if elsewhere in by_core else []
    close = close or difflib.get_close_matches(_core(name), by_core, n=1, cutoff=0.6)
    similar = _find_similar_names(name) if name.startswith("RAGSTONE_") else []
    similar = similar or [by_core[one] for one in close]
    hint = f"Did you mean {' or '.join(similar)}?" if similar else "List them: ragstone settings"
    return SettingsError(f"There is no setting named '{name}' ({origin}).", hint=hint)


def _core(name: str) -> str:
    return name.removeprefix("RAGSTONE_").replace(".", "_").lower()


def _validate(merged: _Layer) -> Settings:
    tree: dict[str, Any] = {}
    for path, (value, _) in merged.items():
        section, _, name = path.rpartition(".")
        (tree.setdefault(section, {}) if section else tree)[name] = value
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        invalid = _make_invalid_error(error, merged)
    # Raised here, without the cause: pydantic's error contains every value, also secrets.
    raise invalid


def _make_invalid_error(error: ValidationError, merged: _Layer) -> SettingsError:
    """Explain the first invalid value: its name, the value and what is allowed.

    The value of a secret is left out: a key without quotation marks is still a key.
    """
    paths = [".".join(str(part) for part in one["loc"][:2]) for one in error.errors()]
    path = paths[0]
    value, origin = merged.get(path, (error.errors()[0]["input"], "default"))
    name = _displayed_name(path, origin)
    # A variable that sets two fields is one mistake, not two.
    names = {_displayed_name(one, merged.get(one, ("", ""))[1]) for one in paths}
    more = f" ({len(names) - 1} more)" if len(names) > 1 else ""
    if is_secret(path):
        return SettingsError(
            f"The setting {name} ({origin}) is {_describe_type(value)}, not text{more}.",
            hint=f'In a TOML file write it in quotation marks: {path.rpartition(".")[2]} = "…"',
        )
    return SettingsError(
        f"The setting {name} is '{value}' ({origin}), which is not allowed{more}.",
        hint=f"Allowed: {allowed_values(path)}.",
    )


def _displayed_name(path: str, origin: str) -> str:
    """Return the name under which a value was set: a variable or a path."""
    return origin.rpartition(" ")[2] if origin.startswith(("environment", "flag")) else path


def _describe_type(value: Any) -> str:
    words = {bool: "true or false", int: "a number", float: "a number", list: "a list"}
    words[dict] = "a table"
    return words.get(type(value), f"a {type(value).__name__}")


def is_secret(path: str) -> bool:
    """Return whether the value of a setting must not be shown."""
    annotation = _fields()[path].annotation
    return SecretStr in (annotation, *get_args(annotation))


def allowed_values(path: str) -> str:
    """Describe the allowed values of a setting."""
    info = _fields()[path]
    if isinstance(info.json_schema_extra, dict) and (words := info.json_schema_extra["allowed"]):
        return str(words)
    members = (info.annotation, *get_args(info.annotation))
    listed = [one for member in members for one in get_args(member) if isinstance(one, str)]
    if listed:
        return ", ".join(listed)
    kinds = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        SecretStr: "text (a secret, never shown)",
        str: "text",
        Path: "a path",
    }
    words = next(word for kind, word in kinds.items() if kind in members)
    bounds = {
        "ge": "from {}",
        "gt": "above {}",
        "le": "to {}",
        "lt": "below {}",
        "max_length": "of at most {} characters",
    }
    for constraint in info.metadata:
        for key, phrase in bounds.items():
            if (limit := getattr(constraint, key, None)) is not None:
                words += " " + phrase.format(limit)
    return words


def _list_values(settings: Settings, merged: _Layer) -> Iterable[Setting]:
    for path, info in _fields().items():
        value = get_value(settings, path)
        origin = merged[path][1] if path in merged else "default"
        yield Setting(path, value, origin, info.description or "", _names(path))


def read_language(environ: Mapping[str, str] | None = None) -> str:
    """Return the language that the environment asks for, as `de_DE.UTF-8`; empty if none."""
    environ = os.environ if environ is None else environ
    names = ("RAGSTONE_LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
    wanted = (environ.get(name, "") for name in names)
    return next((one for one in wanted if one not in ("", "auto")), "")


def set_default_environment(**variables: str) -> None:
    """Set variables for libraries and child processes, unless they are set already."""
    for name, value in variables.items():
        os.environ.setdefault(name, value)
