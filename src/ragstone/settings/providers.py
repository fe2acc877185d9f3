"""Define the settings of language models: the chosen provider, and one section per service.

`OPENAI_*`, `AZURE_OPENAI_*`, `ANTHROPIC_*`, `GOOGLE_*` and `OLLAMA_*` each set their own section
and nothing else. `LLM_*` is for the provider that LLM_PROVIDER names, whichever it is, and wins
over the section of that service.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from pydantic import SecretStr

from ragstone.settings.services import Section, setting

DEFAULT_MAX_TOKENS = 1024
Reasoning: TypeAlias = Literal["", "off", "minimal", "low", "medium", "high"]

_SHARED = ("model", "fast_model", "base_url", "api_key", "max_tokens", "reasoning")


class ProviderSettings(Section):
    name: str = setting(
        "extractive", "Provider of the model that writes the answer.", "LLM_PROVIDER"
    )
    model: str = setting(
        "", "Model that writes the answer. Empty: the one of the provider's section.", "LLM_MODEL"
    )
    fast_model: str = setting(
        "",
        "Fast model of the same provider for internal calls. Empty: that of its section.",
        "LLM_FAST_MODEL",
    )
    choices: str = setting(
        "",
        "Models that a conversation may choose, each PROVIDER or PROVIDER:MODEL, separated by "
        "commas. Empty: every provider whose own section is set.",
        "LLM_CHOICES",
    )
    base_url: str = setting(
        "", "URL of the provider. Empty: the one of its section.", "LLM_BASE_URL"
    )
    api_key: SecretStr = setting(
        SecretStr(""), "API key of the provider. Empty: the one of its section.", "LLM_API_KEY"
    )
    max_tokens: int | None = setting(
        None,
        f"Maximum tokens of an answer. Empty: that of its section, else {DEFAULT_MAX_TOKENS}.",
        "LLM_MAX_TOKENS",
        ge=16,
        le=1_000_000,
    )
    reasoning: Reasoning = setting(
        "",
        "How long the model thinks before it answers. Empty: that of its section.",
        "LLM_REASONING",
    )
    max_retries: int = setting(3, "Maximum retries of a call.", "LLM_MAX_RETRIES", ge=0, le=20)
    timeout_s: float = setting(
        30.0, "Maximum wait for the provider.", "LLM_TIMEOUT_SECONDS", gt=0, le=3600
    )
    probe: bool = setting(
        True, "Ask the provider for one word when the server starts.", "LLM_PROBE"
    )
    strict: bool = setting(
        False,
        "If the provider cannot answer: an error in place of an answer quoted from the sources.",
        "LLM_STRICT",
    )


class ServiceSettings(Section):
    """Hold what one service needs. A subclass names the prefix of its variables."""

    model: str = setting("", "Model that writes the answer. Empty: the default of the service.")
    fast_model: str = setting(
        "",
        "Fast model for internal calls. Empty: the service's small model, or the model itself "
        "where a server of your own is used.",
    )
    base_url: str = setting("", "URL of the service, for a server of your own.")
    api_key: SecretStr = setting(SecretStr(""), "API key of the service.")
    temperature: float | None = setting(
        None, "Sampling temperature. Empty: RAG_TEMPERATURE.", ge=0, le=2
    )
    max_tokens: int | None = setting(
        None, f"Maximum tokens of an answer. Empty: {DEFAULT_MAX_TOKENS}.", ge=16, le=1_000_000
    )
    reasoning: Reasoning = setting(
        "", "How long the model thinks before it answers. Empty: as the model's family does best."
    )
    capabilities: str = setting(
        "",
        "What the model accepts, where the table of models is wrong, e.g. "
        "'json=object temperature=false context_window=32768'.",
        max_length=500,
    )

    def override(self, provider: ProviderSettings) -> ServiceSettings:
        """Return these settings with the values of `LLM_*` on top."""
        given = {name: getattr(provider, name) for name in _SHARED}
        empty = ("", None, SecretStr(""))
        return self.model_copy(
            update={name: value for name, value in given.items() if value not in empty}
        )

    @property
    def key(self) -> str:
        return self.api_key.get_secret_value()

    @property
    def token_limit(self) -> int:
        return self.max_tokens or DEFAULT_MAX_TOKENS


class OpenAISettings(ServiceSettings):
    prefix: ClassVar[str] = "OPENAI"


class AzureSettings(ServiceSettings):
    prefix: ClassVar[str] = "AZURE_OPENAI"
    model: str = setting("", "Name of the deployment.", "AZURE_OPENAI_DEPLOYMENT")
    base_url: str = setting(
        "", "URL of the resource: https://NAME.openai.azure.com.", "AZURE_OPENAI_ENDPOINT"
    )
    azure_api_version: str = setting(
        "",
        "API version, e.g. 2024-10-21. Empty: the v1 API, which needs none.",
        "AZURE_OPENAI_API_VERSION",
        max_length=40,
    )


class AnthropicSettings(ServiceSettings):
    prefix: ClassVar[str] = "ANTHROPIC"


class GoogleSettings(ServiceSettings):
    prefix: ClassVar[str] = "GOOGLE"
    api_key: SecretStr = setting(SecretStr(""), "API key of the service.", "GEMINI_API_KEY")


class OllamaSettings(ServiceSettings):
    prefix: ClassVar[str] = "OLLAMA"
