"""List the models that a conversation may choose, and find those that could be set up.

settings → choices. A choice is named `PROVIDER` or `PROVIDER:MODEL`. Which ones there are depends
on the settings alone: a client can choose among them, but not name a service of its own. For
`ragstone setup` servers on this machine are found too; they come first, as they cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstone.errors import InputError
from ragstone.settings import Settings
from ragstone.settings.services import ServiceSettings

if TYPE_CHECKING:  # it takes 75 ms, and every engine and command imports this module
    import httpx

_QUOTING = "extractive"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Name a provider, and one of its models; an empty model is the provider's own choice."""

    provider: str
    model: str = ""

    @property
    def name(self) -> str:
        return f"{self.provider}:{self.model}" if self.model else self.provider

    @classmethod
    def parse(cls, name: str) -> ModelChoice:
        provider, _, model = name.strip().partition(":")
        return cls(provider, model)


def list_choices(settings: Settings) -> tuple[ModelChoice, ...]:
    """List the choices, the configured provider first and quoting last."""
    main = ModelChoice(settings.provider.name)
    if settings.provider.choices:
        names = settings.provider.choices.split(",")
        named = [ModelChoice.parse(name) for name in names if name.strip()]
    else:
        named = [ModelChoice(name) for name in _list_configured(settings)]
    return tuple(dict.fromkeys((main, *named, ModelChoice(_QUOTING))))


def _list_configured(settings: Settings) -> list[str]:
    """List the services whose own section says how to reach them, or which model to use."""
    services = [(name, getattr(settings, name)) for name in type(settings).model_fields]
    return [
        name
        for name, own in services
        if isinstance(own, ServiceSettings) and (own.key or own.base_url or own.model)
    ]


def choose_model(choices: Sequence[ModelChoice], name: str) -> ModelChoice:
    """Return the choice of this name; raise an InputError if it is not one of the choices."""
    for one in choices:
        if one.name == name:
            return one
    raise InputError(
        f"The model '{name[:100]}' cannot be chosen here.",
        hint=f"Use one of: {', '.join(one.name for one in choices)}.",
    )


def apply_choice(settings: Settings, choice: ModelChoice) -> Settings:
    """Return the settings under which the chosen model writes."""
    provider = settings.provider
    if choice.provider != provider.name:
        # `LLM_*` belongs to the configured provider; another one has its own section.
        shared = {"max_retries", "timeout_s", "probe", "strict", "choices"}
        kept = {name: getattr(provider, name) for name in shared}
        provider = type(provider)(name=choice.provider, **kept)
    if choice.model:
        provider = provider.model_copy(update={"model": choice.model})
    return settings.model_copy(update={"provider": provider})


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
class FoundProvider:
    """Describe a provider that could be used, and the models that it offers."""

    title: str
    provider: str
    base_url: str = ""
    models: tuple[str, ...] = ()
    """What a server has loaded or downloaded; empty where that is not known."""


def find_providers(
    settings: Settings, servers: Sequence[tuple[str, str, str, str]] = _SERVERS
) -> list[FoundProvider]:
    """Return the servers that answer on this machine, then the services with a key."""
    import httpx

    found: list[FoundProvider] = []
    with httpx.Client(timeout=_TIMEOUT_S) as client:
        for title, provider, url, path in servers:
            models = _list_models(client, url + path)
            if models is not None:
                found.append(FoundProvider(title, provider, url, models))
    found += [
        FoundProvider(title, name, settings.service(name).base_url)
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
    import httpx

    with httpx.Client(timeout=_TIMEOUT_S) as client:
        return _list_models(client, url.rstrip("/") + path) or ()


def _list_models(client: httpx.Client, url: str) -> tuple[str, ...] | None:
    """Return the models of a server, chat models only; None if no such server answers."""
    import httpx

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
