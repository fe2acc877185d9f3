"""Know what a model accepts: from the table of models, from the settings, and from refusals.

service and model → `Capabilities`. A model that is not in the table starts from values that every
server accepts. A refusal (status 400) changes a capability, so that the next request leaves the
field out. These lessons are kept in the data directory for the other workers and for the next
start. They expire: a server may be updated or be given another model.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from ragstone.calls import Usage
from ragstone.errors import SettingsError, StoreError
from ragstone.files import hold_writer_lock, replace_file
from ragstone.providers.retry import is_about_length

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
_WORDS = {
    "json": ("schema", "object", "none"),
    "inline_thoughts": ("", "tag", "open"),
    "api": ("chat", "responses"),
}
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
    allowed = _WORDS.get(name)
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


log = logging.getLogger(__name__)

FILE = "learned-models.json"
_MAX_AGE_S = 7 * 24 * 3600.0
# A server of one's own is soon started again with a larger window.
_MAX_AGE_WINDOW_S = 3600.0
_LOCK_S = 2.0

# Fields of requests, and the capability that leaves each of them out. The order matters: a message
# about `max_tokens` may name `max_completion_tokens` as the way out.
_REFUSALS: tuple[tuple[str, dict[str, Any]], ...] = (
    (r"response_?format|json_?schema|json_object|structured output|output_config\.format|grammar|"
     r"\bformat\b", {}),
    (r"temperature", {"temperature": False}),
    (r"stream_options|include_usage", {"stream_usage": False}),
    (r"reasoning|thinking|\bthink\b|chat_template_kwargs|\beffort\b", {"effort_field": ""}),
    (r"cache_control", {"caches_on_mark": False}),
    (r"system (?:role|message|instruction)|role.{0,20}system|developer instruction",
     {"system_role": False}),
)  # fmt: skip
_TOKEN_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_AT_MOST = re.compile(r"(?:at most|less than or equal to|maximum(?: value)? (?:is|of)|<=) *(\d+)")
# OpenAI and vLLM, Anthropic, Google, llama.cpp.
_WINDOW = re.compile(
    r"(?:context length is +|> *|tokens allowed \(|context size \(|n_ctx=)(\d{3,8})", re.IGNORECASE
)
# What a kept change may be: the file must not put anything else into a request.
_ALLOWED: Mapping[str, tuple[object, ...] | type[int]] = {
    "token_field": _TOKEN_FIELDS,
    "temperature": (False,),
    "stream_usage": (False,),
    "effort_field": ("",),
    "caches_on_mark": (False,),
    "system_role": (False,),
    "json": ("object", "none"),
    "max_output": int,
    "context_window": int,
}
_MIN_WINDOW = 256
# A window that was believed and is too large all the same: tokens are only estimated.
_SHRINK = 0.8


def learn_from_refusal(
    now: Capabilities, detail: str, prompt_tokens: int = 0
) -> Capabilities | None:
    """Return the capabilities without what a server has refused; None if it names no field."""
    text = detail.lower()
    if is_about_length(400, detail):
        return _learn_window(now, text, prompt_tokens)
    named = [one for one in _TOKEN_FIELDS if re.search(rf"\b{one}\b", text)]
    if now.token_field in named:
        if found := _AT_MOST.search(text):
            limit = int(found[1])
            return None if limit == now.max_output else replace(now, max_output=limit)
        other = {"max_tokens": "max_completion_tokens"}.get(now.token_field, "max_tokens")
        return replace(now, token_field=other)
    weaker: dict[str, Any] = {"json": {"schema": "object"}.get(now.json, "none")}
    for pattern, change in _REFUSALS:
        changed = replace(now, **(change or weaker))
        if changed != now and re.search(pattern, text):
            return changed
    return None


def _learn_window(now: Capabilities, text: str, prompt_tokens: int) -> Capabilities | None:
    told = [int(one) for one in _WINDOW.findall(text)]
    window = min(told) if told else int(prompt_tokens * _SHRINK)
    if now.context_window and window >= now.context_window:
        window = int(now.context_window * _SHRINK)
    return replace(now, context_window=window) if window >= _MIN_WINDOW else None


class Lessons:
    """Hold the changes per model of one service at one address, and share them through a file.

    `fixed` names the capabilities that the settings give: these are never changed.
    """

    def __init__(
        self,
        service: str = "",
        base_url: str = "",
        file: Path | None = None,
        fixed: frozenset[str] = frozenset(),
    ) -> None:
        place = urlsplit(base_url)
        port = f":{place.port}" if place.port else ""
        # Without a user's name, a password or parameters, which an address may hold.
        self._prefix = f"{service} {place.scheme}://{place.hostname or ''}{port}{place.path} "
        self._file, self._fixed = file, fixed
        self._read_at: int | None = None
        self._known: dict[str, dict[str, tuple[Any, float]]] = {}
        self._lock = threading.Lock()

    def recall(self, model: str, default: Capabilities) -> Capabilities:
        """Return the capabilities with the changes that are not too old."""
        self._read()
        kept = self._known.get(model, {})
        changes = {
            name: value
            for name, (value, learned_at) in kept.items()
            if name not in self._fixed and _is_fresh(name, learned_at)
        }
        return replace(default, **changes) if changes else default

    def learn(
        self, provider: str, model: str, now: Capabilities, detail: str, prompt_tokens: int = 0
    ) -> bool:
        """Remember a refusal and log it; False if it teaches nothing."""
        learned = learn_from_refusal(now, detail, prompt_tokens)
        if learned is None:
            return False
        changed = {
            one.name: getattr(learned, one.name)
            for one in fields(now)
            if getattr(now, one.name) != getattr(learned, one.name) and one.name not in self._fixed
        }
        if not changed:
            return False
        with self._lock:
            entry = self._known.setdefault(model, {})
            entry.update({name: (value, time.time()) for name, value in changed.items()})
            self._write(model)
        log.warning(
            "model refused a field",
            extra={"provider": provider, "model": model, "changed": changed},
        )
        return True

    def _read(self) -> None:
        """Read the file if another process has changed it."""
        if self._file is None:
            return
        try:
            changed_at = self._file.stat().st_mtime_ns
        except OSError:
            return
        if changed_at == self._read_at:
            return
        with self._lock:
            self._read_at = changed_at
            for key, entry in _load(self._file).items():
                if key.startswith(self._prefix):
                    own = self._known.setdefault(key.removeprefix(self._prefix), {})
                    for name, one in entry.items():
                        if name not in own or one[1] > own[name][1]:
                            own[name] = one

    def _write(self, model: str) -> None:
        """Add the changes of a model to the file. What cannot be written is learned again."""
        if self._file is None or not self._file.parent.is_dir():
            return
        try:
            with hold_writer_lock(self._file.parent, timeout_s=_LOCK_S, name=f"{FILE}.lock"):
                entries = _load(self._file)
                entries[self._prefix + model] = dict(self._known[model])
                text = json.dumps(entries, ensure_ascii=False, indent=1, sort_keys=True)
                replace_file(self._file, text.encode())
        except (OSError, StoreError) as error:
            log.debug("learned capabilities not kept", extra={"error": type(error).__name__})


def _load(file: Path) -> dict[str, dict[str, tuple[Any, float]]]:
    """Return the usable entries of the file; a damaged file has none."""
    try:
        value = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    found: dict[str, dict[str, tuple[Any, float]]] = {}
    for key, entry in value.items() if isinstance(value, dict) else ():
        usable = {
            name: (one[0], float(one[1]))
            for name, one in (entry.items() if isinstance(entry, dict) else ())
            if _is_usable(name, one)
        }
        if usable:
            found[str(key)] = usable
    return found


def _is_usable(name: str, one: object) -> bool:
    if not isinstance(one, list | tuple) or len(one) != 2 or not isinstance(one[1], int | float):
        return False
    allowed = _ALLOWED.get(name, ())
    if isinstance(allowed, tuple):
        is_allowed = any(one[0] is each or one[0] == each for each in allowed)
    else:
        is_allowed = type(one[0]) is int and one[0] > 0
    return is_allowed and _is_fresh(name, float(one[1]))


def _is_fresh(name: str, learned_at: float) -> bool:
    limit = _MAX_AGE_WINDOW_S if name == "context_window" else _MAX_AGE_S
    return 0 <= time.time() - learned_at < limit
