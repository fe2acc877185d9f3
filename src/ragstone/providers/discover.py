"""Find language models that could be used: servers on this machine, and keys in the settings.

settings → `Choice`s, the servers first: they cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from ragstone.settings import Settings

_TIMEOUT_S = 1.0
# Name, provider, base URL, and the path that lists its models.
_SERVERS = (
    ("Ollama", "ollama", "http://127.0.0.1:11434", "/api/tags"),
    ("LM Studio", "openai", "http://127.0.0.1:1234/v1", "/models"),
    ("llama.cpp", "openai", "http://127.0.0.1:8080/v1", "/models"),
    ("vLLM", "openai", "http://127.0.0.1:8000/v1", "/models"),
)
_WITH_KEYS = {"openai": "OpenAI", "anthropic": "Anthropic", "google": "Google", "azure": "Azure"}


@dataclass(frozen=True, slots=True)
class Choice:
    """Describe a provider that could be used, and the models that it offers."""

    title: str
    provider: str
    base_url: str = ""
    models: tuple[str, ...] = ()
    """What a server has loaded or downloaded; empty where that is not known."""


def find_choices(
    settings: Settings, servers: Sequence[tuple[str, str, str, str]] = _SERVERS
) -> list[Choice]:
    """Return the servers that answer on this machine, then the services with a key."""
    found: list[Choice] = []
    with httpx.Client(timeout=_TIMEOUT_S) as client:
        for title, provider, url, path in servers:
            models = _list_models(client, url + path)
            if models is not None:
                found.append(Choice(title, provider, url, models))
    found += [
        Choice(title, name, settings.service(name).base_url)
        for name, title in _WITH_KEYS.items()
        if settings.service(name).key
    ]
    return found


def list_models(provider: str, base_url: str) -> tuple[str, ...]:
    """Return the chat models of a server of one's own; none if it does not tell."""
    paths = {name: (url, path) for _, name, url, path in reversed(_SERVERS)}
    default_url, path = paths.get(provider, ("", ""))
    url = base_url or (default_url if provider == "ollama" else "")
    if not url or not path:
        return ()
    with httpx.Client(timeout=_TIMEOUT_S) as client:
        return _list_models(client, url.rstrip("/") + path) or ()


def _list_models(client: httpx.Client, url: str) -> tuple[str, ...] | None:
    """Return the models of a server, chat models only; None if no such server answers."""
    try:
        reply = client.get(url)
        body = reply.json() if reply.status_code == httpx.codes.OK else None
    except (httpx.HTTPError, ValueError):
        return None
    rows = (body.get("models") or body.get("data") or []) if isinstance(body, dict) else None
    if not isinstance(rows, list):
        return None
    names = [str(row.get("name") or row.get("id")) for row in rows if isinstance(row, dict)]
    return tuple(name for name in names if "embed" not in name.lower())
