"""The layers: flags > environment > ragstone.toml > preset > the defaults of the tree.

Every value keeps its origin, so that `ragstone settings` can say who set it and an error can name
the culprit. Nothing else reads the environment.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
import tomllib
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo

from ragstone.errors import SettingsError
from ragstone.settings.schema import NOT_USED_YET, PRESETS, Settings
from ragstone.settings.services import Section

log = logging.getLogger(__name__)

CONFIG_FILE = "ragstone.toml"
# What Kubernetes sets in every container for a Service named `ragstone` or `ragstone-…`.
_SERVICE_VARIABLE = re.compile(
    r"RAGSTONE_(\w+_)?"
    r"(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")
# A name this similar to a setting's is taken for a misspelling of it; RAGSTONE_VERSION and
# RAGSTONE_IMAGE, which others may set, are less similar than this to every one.
_NEAR = 0.8
_BEGINNING = 6


@dataclass(frozen=True, slots=True)
class Setting:
    """One effective value and who set it."""

    path: str
    value: Any
    origin: str
    description: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The tree, the origin of every value, and the known names that nothing reads."""

    settings: Settings
    listing: tuple[Setting, ...]
    unused: tuple[str, ...]


def load_settings(
    *,
    flags: Mapping[str, Any] | None = None,
    config_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    file_without: Container[str] = (),
) -> LoadedSettings:
    """Read all layers. `flags` are keyed by path (`refine.top_k`) or by variable name; of the file
    the sections `file_without` do not count.

    Example:

        from ragstone import load_settings

        settings = load_settings(flags={"preset": "careful", "refine.top_k": 3}).settings
        print(settings.preset, settings.refine.top_k, settings.data.directory)
    """
    environ = os.environ if environ is None else environ
    flag_layer = _by_path(flags or {}, origin="flag")
    environ_layer = _from_environ(environ)
    file_layer = {
        path: found
        for path, found in _from_file(config_file, environ).items()
        if path.partition(".")[0] not in file_without
    }
    chosen = [layer["preset"][0] for layer in (flag_layer, environ_layer, file_layer)
              if "preset" in layer]  # fmt: skip
    preset = str(chosen[0] if chosen else Settings.model_fields["preset"].default)
    layers = (_from_preset(preset), file_layer, environ_layer, flag_layer)
    merged: dict[str, tuple[Any, str]] = {}
    for layer in layers:
        merged.update(layer)
    settings = _validate(merged)
    unused = tuple(name for name in NOT_USED_YET if name in environ)
    return LoadedSettings(settings, tuple(_listing(settings, merged)), unused)


def effective(settings: Settings) -> tuple[Setting, ...]:
    """Every value of a ready-made tree, where nobody wrote down who set it."""
    from_preset = preset_values(settings.preset)
    defaults = Settings()
    merged: _Layer = {}
    for one in _listing(settings, {}):
        if one.path in from_preset and one.value == from_preset[one.path]:
            merged[one.path] = (one.value, f"preset {settings.preset}")
        elif one.value != next(d.value for d in _listing(defaults, {}) if d.path == one.path):
            merged[one.path] = (one.value, "program")
    return tuple(_listing(settings, merged))


def preset_values(preset: str) -> dict[str, Any]:
    """What a preset sets, by path."""
    return {path: value for path, (value, _) in _from_preset(preset).items()}


@cache
def _fields() -> dict[str, FieldInfo]:
    """Every field by its path, in order."""
    found: dict[str, FieldInfo] = {}
    for name, info in Settings.model_fields.items():
        section = info.annotation
        if isinstance(section, type) and issubclass(section, Section):
            for inner, inner_info in section.model_fields.items():
                found[f"{name}.{inner}"] = inner_info
        else:
            found[name] = info
    return found


def _names(path: str) -> tuple[str, ...]:
    """The variables that set a path: the design documents' names and RAGSTONE_SECTION_FIELD."""
    extra = _fields()[path].json_schema_extra
    listed = extra.get("names") if isinstance(extra, dict) else None
    own = [str(name) for name in listed] if isinstance(listed, list) else []
    regular = f"RAGSTONE_{path.replace('.', '_').upper()}"
    return tuple(dict.fromkeys([*own, regular]))


@cache
def _paths_of_names() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for path in _fields():
        for name in _names(path):
            found[name] = (*found.get(name, ()), path)
    return found


_Layer = dict[str, tuple[Any, str]]


def _by_path(values: Mapping[str, Any], *, origin: str) -> _Layer:
    layer: _Layer = {}
    for key, value in values.items():
        if key in _fields():
            layer[key] = (value, f"{origin} {key}" if origin == "flag" else origin)
        elif key in _paths_of_names():
            for path in _paths_of_names()[key]:
                layer[path] = (value, f"{origin} {key}" if origin == "flag" else origin)
        else:
            raise _unknown(key, origin)
    return layer


def _from_environ(environ: Mapping[str, str]) -> _Layer:
    of_services = {name for name in environ if _is_of_service(name, environ[name])}
    for name in sorted(environ):
        if name in of_services:
            _warn_once(name, "Kubernetes sets it for a Service")
        elif name in _paths_of_names() or name == "RAGSTONE_CONFIG":
            continue
        # A misspelt name must not be ignored in silence.
        elif _is_misspelt(name):
            raise _unknown(name, "environment")
        elif name.startswith("RAGSTONE_"):
            _warn_once(name, "no setting has a name like it")
    # Of two names for one field the later listed wins: it is the narrower one
    # (RETRIEVAL_FINAL_K over RAG_TOP_K, which sets two fields).
    return {
        path: (environ[name], f"environment {name}")
        for path in _fields()
        for name in _names(path)
        if name in environ and name not in of_services
    }


def _is_of_service(name: str, value: str) -> bool:
    """Whether Kubernetes made this variable for a Service.

    A Service named `ragstone-server` makes RAGSTONE_SERVER_PORT, which is also the name of a
    setting; there the value tells them apart (`tcp://10.0.0.7:8642`).
    """
    if _SERVICE_VARIABLE.fullmatch(name):
        return True
    is_port = name.startswith("RAGSTONE_") and name.endswith("_PORT")
    return is_port and _SERVICE_ADDRESS.match(value) is not None


@cache
def _warn_once(name: str, reason: str) -> None:
    """Log a variable that is ignored; once, because a command may read the settings twice."""
    log.warning("The variable %s is ignored: %s.", name, reason)


def _is_misspelt(name: str) -> bool:
    """Whether a variable that we do not know is nearly the name of a setting."""
    if name.startswith("RAGSTONE_"):
        return bool(_near_names(name))
    ours = name.startswith(("RAG_", "BM25_", "RETRIEVAL_")) and name not in NOT_USED_YET
    return ours and bool(difflib.get_close_matches(name, _paths_of_names(), n=1, cutoff=0.85))


def _near_names(name: str) -> list[str]:
    """Find the settings that a RAGSTONE_ variable may be meant for.

    They are all whose last part it is (RAGSTONE_PORT for server.port), else one with nearly that
    name, else one whose name begins so (RAGSTONE_DATA_DIR for data.directory).
    """
    given = _core(name).replace("_", "")
    fields: dict[str, list[str]] = {}
    for path in _fields():
        last = path.rpartition(".")[2].replace("_", "")
        fields.setdefault(last, []).append(_names(path)[0])
    if given in fields:
        return fields[given][:3]
    by_core = {_core(one).replace("_", ""): one for one in _paths_of_names()}
    close = difflib.get_close_matches(given, by_core, n=1, cutoff=_NEAR)
    if not close and given not in Settings.model_fields:
        close = [one for one in by_core if len(given) >= _BEGINNING and one.startswith(given)][:1]
    if close:
        return [by_core[close[0]]]
    close = difflib.get_close_matches(given, fields, n=1, cutoff=_NEAR)
    return fields[close[0]][:3] if close else []


def _from_file(config_file: Path | None, environ: Mapping[str, str]) -> _Layer:
    named = config_file or (
        Path(environ["RAGSTONE_CONFIG"]) if environ.get("RAGSTONE_CONFIG") else None
    )
    path = named or Path(CONFIG_FILE)
    if not path.is_file():
        if named is not None:
            raise SettingsError(
                f"The settings file '{named}' does not exist.",
                hint="Give --config the path of a TOML file.",
            )
        return {}
    return _by_path(_flatten(_parse_toml(path)), origin=str(path))


def _parse_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(
            f"The settings file '{path}' cannot be read: {error}.",
            hint="It must be a TOML file in UTF-8.",
        ) from error


def _from_preset(preset: str) -> _Layer:
    if preset not in PRESETS:
        raise SettingsError(
            f"The setting preset is '{preset}', which is not allowed.",
            hint=f"Allowed: {', '.join(PRESETS)}.",
        )
    text = (
        resources.files("ragstone.settings")
        .joinpath("presets", f"{preset}.toml")
        .read_text("utf-8")
    )
    values = _flatten(tomllib.loads(text))
    values["preset"] = preset
    return _by_path(values, origin=f"preset {preset}")


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        # A table where a value belongs is a wrong value, not a section of that name.
        if isinstance(value, Mapping) and f"{prefix}{key}" not in _fields():
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _unknown(name: str, origin: str) -> SettingsError:
    # Compared without the common prefix, which would make every name look close; of a path and
    # its variable the one that fits the origin is shown.
    known = [*_fields(), *_paths_of_names()]
    by_core = {_core(one): one for one in (known if origin == "environment" else reversed(known))}
    close = difflib.get_close_matches(_core(name), by_core, n=1, cutoff=0.6)
    near = _near_names(name) if name.startswith("RAGSTONE_") else []
    near = near or [by_core[one] for one in close]
    hint = f"Did you mean {' or '.join(near)}?" if near else "See all names with: ragstone settings"
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
        refusal = _refusal(error, merged)
    # Raised out here, without the cause: pydantic's error holds every value, secrets too.
    raise refusal


def _refusal(error: ValidationError, merged: _Layer) -> SettingsError:
    """The first wrong value as one sentence: its name, the value and what is allowed.

    The value of a secret is left out: one that was typed without quotation marks is still a key.
    """
    paths = [".".join(str(part) for part in one["loc"][:2]) for one in error.errors()]
    path = paths[0]
    value, origin = merged.get(path, (error.errors()[0]["input"], "default"))
    name = _name_of(path, origin)
    # A variable that sets two fields is one mistake, not two.
    wrong = {_name_of(one, merged.get(one, ("", ""))[1]) for one in paths}
    more = f" ({len(wrong) - 1} more)" if len(wrong) > 1 else ""
    if is_secret(path):
        return SettingsError(
            f"The setting {name} ({origin}) is {_describe_type(value)}, not text{more}.",
            hint=f'In a TOML file write it in quotation marks: {path.rpartition(".")[2]} = "…"',
        )
    return SettingsError(
        f"The setting {name} is '{value}' ({origin}), which is not allowed{more}.",
        hint=f"Allowed: {allowed_values(path)}.",
    )


def _name_of(path: str, origin: str) -> str:
    """Name a setting as whoever set it did: by its variable, or by its path."""
    return origin.rpartition(" ")[2] if origin.startswith(("environment", "flag")) else path


def _describe_type(value: Any) -> str:
    words = {bool: "true or false", int: "a number", float: "a number",
             list: "a list", dict: "a table"}  # fmt: skip
    return words.get(type(value), f"a {type(value).__name__}")


def is_secret(path: str) -> bool:
    """Whether a setting's value must never be shown."""
    annotation = _fields()[path].annotation
    return SecretStr in (annotation, *get_args(annotation))


def allowed_values(path: str) -> str:
    """Describe in words what a setting may be."""
    info = _fields()[path]
    members = (info.annotation, *get_args(info.annotation))
    listed = [one for member in members for one in get_args(member) if isinstance(one, str)]
    if listed:
        return ", ".join(listed)
    kinds = {
        bool: "true or false", int: "a whole number", float: "a number",
        SecretStr: "text (a secret, never shown)", str: "text", Path: "a path",
    }  # fmt: skip
    words = next(word for kind, word in kinds.items() if kind in members)
    bounds = {
        "ge": "from {}", "gt": "above {}", "le": "to {}", "lt": "below {}",
        "max_length": "of at most {} characters",
    }  # fmt: skip
    for constraint in info.metadata:
        for key, phrase in bounds.items():
            if (limit := getattr(constraint, key, None)) is not None:
                words += " " + phrase.format(limit)
    return words


def _listing(settings: Settings, merged: _Layer) -> Iterable[Setting]:
    for path, info in _fields().items():
        value: Any = settings
        for part in path.split("."):
            value = getattr(value, part)
        origin = merged[path][1] if path in merged else "default"
        yield Setting(path, value, origin, info.description or "", _names(path))


def tell_libraries(**variables: str) -> None:
    """Set what libraries and child processes read from the environment, unless it is set."""
    for name, value in variables.items():
        os.environ.setdefault(name, value)
