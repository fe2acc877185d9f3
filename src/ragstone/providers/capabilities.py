"""Know what a model accepts, from the table of models and from the settings.

service and model → `Capabilities`. A model that is not in the table starts from values that every
server accepts. What a server refuses is kept in `lessons.py`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from ragstone.calls import Usage
from ragstone.errors import SettingsError

JsonMode: TypeAlias = Literal["schema", "object", "none"]
InlineThoughts: TypeAlias = Literal["", "tag", "open"]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Say what one model of one service accepts; `models.toml` describes each field."""

    family: str = "unknown"
    token_field: str = "max_tokens"  # noqa: S105  no password
    temperature: bool = True
    json: JsonMode = "schema"
    stream_usage: bool = True
    effort_field: str = ""
    efforts: tuple[str, ...] = ()
    effort: str = ""
    fast_effort: str = ""
    off: str = ""
    """How the service writes the effort "off", where it has a word for it."""
    budgets: Mapping[str, int] = field(default_factory=dict)
    thinking_tokens: int = 0
    thinks_hidden: bool = False
    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning", "thinking")
    inline_thoughts: InlineThoughts = ""
    context_window: int = 0
    max_output: int = 0
    api: Literal["chat", "responses"] = "chat"
    caches_on_mark: bool = False
    system_role: bool = True

    def choose_effort(self, wanted: str, *, is_fast: bool) -> str:
        """Return the effort to send: the wanted one or the nearest above; empty for none."""
        if not self.effort_field or not self.efforts:
            return ""
        if is_fast or not wanted:
            return self.fast_effort if is_fast else self.effort
        order = ["off", "minimal", "low", "medium", "high"]
        at = order.index(wanted)
        return next((one for one in order[at:] if one in self.efforts), self.efforts[-1])

    def count_thinking(self, effort: str) -> int:
        """Return how many tokens the thoughts may take beside the answer."""
        if self.budgets:
            return self.budgets.get(effort, 0)
        return 0 if effort == "off" else self.thinking_tokens


_FIELDS = {one.name for one in fields(Capabilities)}
_FLAGS = {"true": True, "false": False, "yes": True, "no": False}
_SETTABLE = sorted(_FIELDS - {"budgets", "off"})


@cache
def _load_table() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("models.toml").read_text("utf-8"))


def recognize_service(base_url: str) -> str:
    """Return the service behind an address that speaks the protocol of OpenAI."""
    host = urlsplit(base_url).hostname or ""
    for name, service in _load_table()["service"].items():
        if any(fnmatchcase(host, pattern) for pattern in service.get("hosts", ())):
            return str(name)
    return "compatible"


def look_up(service: str, model: str, overrides: str = "") -> Capabilities:
    """Return what the table says of a model, with the overrides of the settings."""
    given = parse_overrides(overrides)
    values = dict(_load_table()["service"].get(service, {}))
    family = _find_family(str(given.pop("family", model)))
    values |= family
    values |= family.get("only", {}).get(service, {})
    values |= given
    return _build(values)


def parse_overrides(text: str) -> dict[str, Any]:
    """Read `json=object temperature=false`; raise a SettingsError for anything else."""
    values: dict[str, Any] = {}
    for part in text.replace(",", " ").split():
        name, equals, word = part.partition("=")
        if not equals or name not in _SETTABLE:
            raise SettingsError(
                f"Invalid capability '{part}'.",
                hint=f"Write NAME=VALUE with one of: {', '.join(_SETTABLE)}.",
            )
        values[name] = _parse_value(name, word)
    return values


def _parse_value(name: str, word: str) -> Any:
    default = getattr(Capabilities(), name)
    try:
        if isinstance(default, bool):
            return _FLAGS[word.lower()]
        if isinstance(default, int):
            return int(word)
    except (KeyError, ValueError) as error:
        kind = "true or false" if isinstance(default, bool) else "a whole number"
        raise SettingsError(
            f"The capability '{name}' is '{word}'.", hint=f"Allowed: {kind}."
        ) from error
    allowed = {"json": ("schema", "object", "none"), "inline_thoughts": ("", "tag", "open"),
               "api": ("chat", "responses")}.get(name)  # fmt: skip
    if allowed and word not in allowed:
        raise SettingsError(
            f"The capability '{name}' is '{word}'.",
            hint=f"Allowed: {', '.join(one for one in allowed if one)}.",
        )
    return tuple(word.split("|")) if isinstance(default, tuple) else word


def _find_family(model: str) -> dict[str, Any]:
    name = model.lower().rpartition("/")[2]
    if name.startswith("claude-"):  # OpenRouter writes 5.5, Anthropic 5-5
        name = name.replace(".", "-")
    for family in _load_table()["family"]:
        if any(fnmatchcase(name, pattern) for pattern in family["models"]):
            return {**family, "family": family["name"]}
    return {}


def _build(values: Mapping[str, Any]) -> Capabilities:
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in values.items()
        if name in _FIELDS
    }
    return Capabilities(**known)


_DATED = re.compile(r"[-@:](?:20\d\d|latest|preview).*")


def add_price(usage: Usage, model: str) -> Usage:
    """Add the price of a call. A model may have a date after its name in the table, nothing else:
    the price of "gpt-5" says nothing about "gpt-5.5". A price that the service names is kept."""
    prices = _load_table()["usd"]
    name = model.rpartition("/")[2]
    known = next((one for one in prices if _is_version_of(name, one)), None)
    if known is None or usage.cost_usd is not None:
        return usage
    price = prices[known]
    fresh = usage.input_tokens - usage.cached_tokens - usage.cache_writes
    cost = (
        fresh * price["input"]
        + usage.cached_tokens * price.get("cached", price["input"])
        + usage.cache_writes * price.get("write", price["input"])
        + usage.output_tokens * price["output"]
    ) / 1e6
    return replace(usage, cost_usd=cost)


def _is_version_of(model: str, name: str) -> bool:
    rest = model[len(name) :]
    return model.startswith(name) and (not rest or bool(_DATED.fullmatch(rest)))


_ASCII_PER_TOKEN = 3


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text, rather too many: three characters of Latin script, or one of
    any other, are a token."""
    plain = sum(character.isascii() for character in text)
    return plain // _ASCII_PER_TOKEN + (len(text) - plain) + 1
