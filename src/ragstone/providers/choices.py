"""List the models that a conversation may choose, and the settings that each of them needs.

settings → choices. A choice is named `PROVIDER` or `PROVIDER:MODEL`. Which ones there are depends
on the settings alone: a client can choose among them, but not name a service of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragstone.errors import InputError
from ragstone.settings import Settings
from ragstone.settings.services import ServiceSettings

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
