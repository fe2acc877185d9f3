"""Remember what servers have refused, so that the next request leaves it out.

A refusal (status 400) → the capability that it changes. The changes are kept in the data directory
for the other workers and for the next start. They expire: a server may be updated or be given
another model.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ragstone.errors import StoreError
from ragstone.files import hold_writer_lock, replace_file
from ragstone.providers.capabilities import Capabilities
from ragstone.providers.retry import is_about_length

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
                    own.update(
                        {name: one for name, one in entry.items() if one[1] > own.get(name, one)[1]
                         or name not in own}
                    )  # fmt: skip

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
