"""Define `Section`, and the settings of everything outside the pipeline: language models, indexes,
embedding, moderation, logs and the server.

`OPENAI_*`, `AZURE_OPENAI_*`, `ANTHROPIC_*`, `GOOGLE_*` and `OLLAMA_*` each set their own section
and nothing else. `LLM_*` is for the provider that LLM_PROVIDER names, whichever it is, and wins
over the section of that service.
"""

from __future__ import annotations

from types import NoneType
from typing import Any, ClassVar, Literal, TypeAlias, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator

DEFAULT_MAX_TOKENS = 1024
Reasoning: TypeAlias = Literal["", "off", "minimal", "low", "medium", "high"]

_SHARED = ("model", "fast_model", "base_url", "api_key", "max_tokens", "reasoning")

NAMES = "names separated by commas (in a file: a list)"


def setting(default: Any, description: str, *names: str, allowed: str = "", **bounds: Any) -> Any:
    """Define a described, bounded field.

    `names` are further variables that set it; `allowed` says in words what is allowed.
    """
    more: dict[str, Any] = {"names": [*names], "allowed": allowed}
    return Field(default, description=description, json_schema_extra=more, **bounds)


class Section(BaseModel):
    """Group some settings. Errors do not quote the invalid value: it may be a secret."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True
    )
    prefix: ClassVar[str] = ""
    """With a prefix, PREFIX_FIELD is a variable of every field."""

    @field_validator("*", mode="before")
    @classmethod
    def _read_text(cls, value: object, info: ValidationInfo) -> object:
        """Read a text, as variables are: names between commas as a list, empty as none."""
        if not isinstance(value, str):
            return value
        kind = cls.model_fields[str(info.field_name)].annotation
        if get_origin(kind) is tuple:
            return tuple(one.strip() for one in value.split(",") if one.strip())
        # An empty path would be the working directory.
        return None if not value and NoneType in get_args(kind) else value


class IndexSettings(Section):
    kind: str = setting("embedded", "Index that searches the chunks: embedded, qdrant or pinecone.")
    qdrant_url: str = setting(
        "http://127.0.0.1:6333",
        "URL of the Qdrant server. Separate the nodes of a cluster by commas.",
    )
    qdrant_api_key: SecretStr = setting(SecretStr(""), "API key of the Qdrant server.")
    qdrant_prefix: str = setting(
        "ragstone_", "Prefix of the collection names in Qdrant.", max_length=60
    )
    qdrant_shards: int = setting(1, "Number of shards of a new Qdrant collection.", ge=1, le=1000)
    qdrant_replicas: int = setting(1, "Number of copies of each Qdrant shard.", ge=1, le=20)
    qdrant_write_consistency: int = setting(
        1, "Number of copies that must confirm a write.", ge=1, le=20
    )
    qdrant_read_consistency: Literal["all", "majority", "quorum"] | None = setting(
        None, "Copies that must agree on a read. Empty: read one copy."
    )
    qdrant_timeout_s: float = setting(
        1.5, "Maximum wait for a search in Qdrant, over all its nodes.", gt=0, le=3600
    )
    qdrant_write_timeout_s: float = setting(
        30.0, "Maximum wait for a write to Qdrant.", gt=0, le=3600
    )
    qdrant_on_disk: bool = setting(
        False, "Keep vectors on the disk and their 8-bit codes in memory, in a new index."
    )
    qdrant_retries: int = setting(3, "Maximum retries of a write to Qdrant.", ge=0, le=20)
    pinecone_api_key: SecretStr = setting(SecretStr(""), "API key of Pinecone.", "PINECONE_API_KEY")
    pinecone_index: str = setting(
        "ragstone",
        "Name of the Pinecone index. It must exist, with the metric dotproduct and the embedder's "
        "dimension.",
        "PINECONE_INDEX",
        pattern=r"^[a-z0-9-]{1,45}$",
        allowed="1 to 45 small letters, digits and hyphens",
    )
    pinecone_prefix: str = setting(
        "ragstone_",
        "Prefix of the namespaces in Pinecone.",
        max_length=60,
        pattern=r"^[A-Za-z0-9_-]*$",
        allowed="at most 60 letters, digits, hyphens and underscores",
    )
    pinecone_url: str = setting(
        "https://api.pinecone.io",
        "URL of Pinecone's control plane.",
        pattern=r"^https?://",
        allowed="a URL that begins with https:// or http://",
    )
    pinecone_timeout_s: float = setting(
        5.0, "Maximum wait for a search in Pinecone.", gt=0, le=3600
    )
    pinecone_write_timeout_s: float = setting(
        30.0, "Maximum wait for a write to Pinecone.", gt=0, le=3600
    )
    pinecone_retries: int = setting(3, "Maximum retries of a write to Pinecone.", ge=0, le=20)


class OriginalsSettings(Section):
    bucket: str = setting(
        "",
        "Bucket of an object store (S3 API) for uploaded files. Empty: originals/ in the data "
        "directory.",
        pattern=r"^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])?$",
        allowed="3 to 63 small letters, digits, dots and hyphens, or empty",
    )
    endpoint: str = setting(
        "",
        "URL of the object store. Empty: Amazon S3 in the region.",
        pattern=r"^(https?://.+)?$",
        allowed="a URL that begins with https:// or http://, or empty",
    )
    region: str = setting(
        "us-east-1",
        "Region of the object store.",
        "AWS_REGION",
        pattern=r"^[a-z0-9-]{1,50}$",
        allowed="1 to 50 small letters, digits and hyphens",
    )
    folder: str = setting(
        "originals/",
        "Folder in the bucket, ending with a slash.",
        pattern=r"^([A-Za-z0-9_-][A-Za-z0-9._-]*/)*$",
        allowed="names of letters, digits, dots, hyphens and underscores, a slash after each",
        max_length=200,
    )
    access_key: SecretStr = setting(
        SecretStr(""), "Access key of the object store.", "AWS_ACCESS_KEY_ID"
    )
    secret_key: SecretStr = setting(
        SecretStr(""), "Secret key of the object store.", "AWS_SECRET_ACCESS_KEY"
    )
    timeout_s: float = setting(10.0, "Maximum wait for each step of a transfer.", gt=0, le=3600)


class EmbedSettings(Section):
    name: str = setting(
        "builtin",
        "Embedder: builtin, openai, google, ollama, fastembed or sentence-transformers.",
        "EMBEDDING_PROVIDER",
    )
    model: str = setting(
        "",
        "Embedding model, or the directory of one. For builtin: a pulled model. Empty: the default "
        "model.",
        "EMBEDDING_MODEL",
    )
    base_url: str = setting(
        "", "URL of the embedding service, for your own server.", "EMBEDDING_BASE_URL"
    )
    api_key: SecretStr = setting(
        SecretStr(""),
        "API key of the embedding service. Empty: the key of the provider with that name.",
        "EMBEDDING_API_KEY",
    )
    dimension: int = setting(
        0,
        "Length of the vectors, if the model offers several. 0: the model's default.",
        "EMBEDDING_DIMENSION",
        ge=0,
        le=65_536,
    )
    batch: int = setting(64, "Maximum texts per call.", ge=1, le=2048)

    @property
    def uses_shipped(self) -> bool:
        """Return True when the documents are embedded with the shipped model."""
        return self.name == "builtin" and not self.model

    def key(self, other: str) -> str:
        return self.api_key.get_secret_value() or other


class ModerateSettings(Section):
    name: str = setting(
        "",
        "Moderator of questions and answers: rules (built in), openai, or that of a plug-in. "
        "Empty: none.",
    )
    questions: bool = setting(True, "Moderate questions before the search.")
    answers: bool = setting(True, "Moderate answers before they are sent.")
    timeout_s: float = setting(5.0, "Maximum wait for the moderator.", gt=0, le=600)
    when_it_fails: Literal["answer", "refuse"] = setting(
        "answer", "If the moderator fails: answer without it, or refuse."
    )
    model: str = setting("omni-moderation-latest", "Model of the moderator openai.")
    base_url: str = setting("", "URL of the moderator openai. Empty: that of OPENAI_BASE_URL.")
    api_key: SecretStr = setting(
        SecretStr(""), "API key of the moderator openai. Empty: that of OPENAI_API_KEY."
    )
    categories: tuple[str, ...] = setting(
        (
            "sexual/minors",
            "self-harm/instructions",
            "self-harm/intent",
            "illicit/violent",
            "hate/threatening",
            "harassment/threatening",
            "hate",
            "harassment",
        ),
        "Categories of OpenAI that the moderator openai refuses. Others pass: documents are about "
        "violence, illness and crime.",
        min_length=1,
        allowed=NAMES,
    )


class ObserveSettings(Section):
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "Minimum level of log messages."
    )
    log_format: Literal["auto", "json", "text"] = setting(
        "auto",
        "Format of the log: JSON objects or plain text lines. auto: text in a terminal, else JSON.",
    )
    log_text: bool = setting(
        False, "Include questions, answers and error messages in logs and spans."
    )
    otlp_endpoint: str = setting(
        "",
        "URL of an OpenTelemetry collector (needs ragstone[otel]).",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    )


class ServerSettings(Section):
    host: str = setting("127.0.0.1", "Address to listen on.")
    port: int = setting(8642, "Port to listen on. 0: any free port.", ge=0, le=65535)
    workers: int = setting(1, "Number of server processes.", ge=1, le=256)
    public_url: str = setting(
        "", "URL of the server for clients, used in links. Empty: the URL of the request."
    )
    trusted_proxies: str = setting(
        "127.0.0.1",
        "Proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted: addresses or networks, "
        "separated by commas.",
    )
    compare_mode: bool = setting(
        False,
        "Reply with two answers in the chat endpoints: without and with the refiners.",
        "RAG_COMPARE_MODE",
    )
    max_body_mb: float = setting(1.0, "Maximum size of a request.", gt=0, le=10_000)
    max_upload_mb: float = setting(
        500.0, "Maximum size of a request with documents.", gt=0, le=100_000
    )
    import_hosts: str = setting(
        "",
        "Hosts from which documents may be imported by URL: names or *.NAME, separated by commas. "
        "Empty: none.",
        "IMPORT_HOSTS",
    )
    import_private: bool = setting(
        False,
        "Let those hosts have private addresses, such as that of this machine.",
        "IMPORT_PRIVATE",
    )
    import_max_mb: float = setting(50.0, "Maximum size of an imported file.", gt=0, le=10_000)
    import_timeout_s: float = setting(
        30.0, "Maximum time for reading an imported file.", gt=0, le=600
    )
    rate_per_key: str = setting(
        "1200/minute", "Maximum requests per API key. Empty: no limit.", max_length=100
    )
    rate_per_ip: str = setting(
        "1200/minute",
        "Maximum requests per IP address, except from this machine. Empty: no limit.",
        max_length=100,
    )
    rate_storage: SecretStr = setting(
        SecretStr("memory://"),
        "Store of the request counters: memory:// (per process) or redis://HOST:6379 (shared).",
    )
    max_generations: int = setting(
        2048,
        "Maximum answers written at the same time, divided among the workers.",
        ge=1,
        le=100_000,
    )
    max_waiting: int = setting(
        1024, "Maximum questions in the queue, divided among the workers.", ge=0, le=100_000
    )
    queue_timeout_s: float = setting(30.0, "Maximum wait in the queue.", gt=0, le=3600)
    request_timeout_s: float = setting(
        300.0, "Maximum time of a request, except uploads of documents.", gt=0, le=86_400
    )
    work_timeout_s: float = setting(
        20.0,
        "Maximum time of a check of a text against facts; its process is then ended.",
        gt=0,
        le=3600,
    )
    shutdown_grace_s: int = setting(
        4,
        "Time for running answers to finish when the server stops, and as long again for uploads.",
        ge=0,
        le=3600,
    )
    mcp_key: SecretStr = setting(
        SecretStr(""),
        "API key of `ragstone mcp` over standard input and output.",
        "RAGSTONE_MCP_KEY",
    )


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
        "", "How long the model thinks before it answers. Empty: the default of the model family."
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
