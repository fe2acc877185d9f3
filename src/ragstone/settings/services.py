"""What every section of the settings is made of."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr


def setting(default: Any, description: str, *names: str, **bounds: Any) -> Any:
    """A described, bounded field that also answers to the design documents' variable `names`."""
    return Field(default, description=description, json_schema_extra={"names": [*names]}, **bounds)


class Section(BaseModel):
    """A part of the settings. Errors do not quote what was given: it may be a secret."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True
    )


class ModerateSettings(Section):
    name: str = setting("", "The plug-in that judges questions and answers; none when empty.")
    questions: bool = setting(True, "Judge questions before anything is searched.")
    answers: bool = setting(True, "Judge answers before any of their words go out.")
    timeout_s: float = setting(5.0, "Longest wait for its word.", gt=0, le=600)
    when_it_fails: Literal["answer", "refuse"] = setting(
        "answer", "What happens when it gives no word: go on without it, or refuse."
    )


class ObserveSettings(Section):
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "What the server logs, from this importance on."
    )
    log_format: Literal["json", "text"] = setting(
        "json", "One JSON object per line, or lines for people."
    )
    log_text: bool = setting(
        False, "Write questions, answers and messages of failures into logs and spans."
    )
    otlp_endpoint: str = setting(
        "",
        "Address of an OpenTelemetry collector (needs ragstone[otel]).",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    )


class ServerSettings(Section):
    host: str = setting("127.0.0.1", "Address to listen on.")
    port: int = setting(8642, "Port to listen on; 0 picks a free one.", ge=0, le=65535)
    workers: int = setting(1, "Processes that serve one data directory.", ge=1, le=256)
    public_url: str = setting(
        "", "Address that clients reach the server by, for links; empty is that of the request."
    )
    trusted_proxies: str = setting(
        "127.0.0.1",
        "Proxies whose X-Forwarded-For and X-Forwarded-Proto are believed: addresses or networks, "
        "separated by commas.",
    )
    compare_mode: bool = setting(
        False, "The chat doors reply with two answers, before and after refine.", "RAG_COMPARE_MODE"
    )
    max_body_mb: float = setting(1.0, "Larger requests are refused.", gt=0, le=10_000)
    max_upload_mb: float = setting(
        500.0, "Larger requests with documents are refused.", gt=0, le=100_000
    )
    rate_per_key: str = setting(
        "1200/minute", "Requests that each key may send; empty is no limit.", max_length=100
    )
    rate_per_ip: str = setting(
        "1200/minute",
        "Requests that each address but this machine's own may send; empty is no limit.",
        max_length=100,
    )
    rate_storage: SecretStr = setting(
        SecretStr("memory://"),
        "Where requests are counted: in each process, or redis://HOST:6379 for all together.",
    )
    max_generations: int = setting(
        2048,
        "Answers that are written at once; each worker has its share.",
        ge=1,
        le=100_000,
    )
    max_waiting: int = setting(
        1024,
        "Questions that wait for their turn, shared likewise; more are refused.",
        ge=0,
        le=100_000,
    )
    queue_timeout_s: float = setting(30.0, "Longest wait for that turn.", gt=0, le=3600)
    request_timeout_s: float = setting(
        300.0, "Longest time for a reply; sending documents has its own limits.", gt=0, le=86_400
    )
    shutdown_grace_s: int = setting(
        30, "Time that running answers have to end when the server stops.", ge=0, le=3600
    )
    mcp_key: SecretStr = setting(
        SecretStr(""),
        "Key with which `ragstone mcp` acts over standard input and output.",
        "RAGSTONE_MCP_KEY",
    )
