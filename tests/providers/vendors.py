"""Requests of the vendors, strictly: an unknown field or a wrong type is refused.

`find_fault` returns what the vendor would answer with status 400, or None. The models follow the
API references: OpenAI chat completions and responses, Anthropic messages, Gemini generateContent,
Ollama chat, DeepSeek chat completions. They are as known in November 2026; not checked against the
services.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


Temperature = Annotated[float, Field(ge=0, le=2)]


class ChatMessage(Strict):
    role: Literal["system", "developer", "user", "assistant"]
    content: str


class JsonSchema(Strict):
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None
    description: str | None = None


class SchemaFormat(Strict):
    type: Literal["json_schema"]
    json_schema: JsonSchema


class PlainFormat(Strict):
    type: Literal["json_object", "text"]


class StreamOptions(Strict):
    include_usage: bool | None = None


class OpenAIChat(Strict):
    model: str
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Temperature | None = None
    top_p: float | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    response_format: SchemaFormat | PlainFormat | None = None
    seed: int | None = None
    store: bool | None = None


class OpenAIResponses(Strict):
    model: str
    input: Annotated[list[ChatMessage], Field(min_length=1)]
    instructions: str | None = None
    stream: bool = False
    store: bool = True
    max_output_tokens: Annotated[int, Field(ge=16)] | None = None
    temperature: Temperature | None = None
    reasoning: dict[Literal["effort", "summary"], str] | None = None
    text: dict[Literal["format"], dict[str, Any]] | None = None


class DeepSeekChat(Strict):
    model: str
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Temperature | None = None
    response_format: PlainFormat | None = None


class CacheControl(Strict):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class TextBlock(Strict):
    type: Literal["text"]
    text: Annotated[str, Field(min_length=1)]
    cache_control: CacheControl | None = None


class Turn(Strict):
    role: Literal["user", "assistant"]
    content: Annotated[str, Field(min_length=1)] | list[TextBlock]


class Thinking(Strict):
    type: Literal["enabled"]
    budget_tokens: Annotated[int, Field(ge=1024)]


class AnthropicMessages(Strict):
    model: str
    max_tokens: Annotated[int, Field(ge=1)]
    messages: Annotated[list[Turn], Field(min_length=1)]
    system: str | list[TextBlock] | None = None
    stream: bool = False
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    thinking: Thinking | None = None


class Part(Strict):
    text: str


class Content(Strict):
    role: Literal["user", "model"]
    parts: Annotated[list[Part], Field(min_length=1)]


class SystemInstruction(Strict):
    parts: Annotated[list[Part], Field(min_length=1)]


class ThinkingConfig(Strict):
    thinkingBudget: int | None = None  # noqa: N815  theirs
    thinkingLevel: Literal["low", "high"] | None = None  # noqa: N815
    includeThoughts: bool | None = None  # noqa: N815


class GenerationConfig(Strict):
    maxOutputTokens: Annotated[int, Field(ge=1)] | None = None  # noqa: N815
    temperature: Temperature | None = None
    thinkingConfig: ThinkingConfig | None = None  # noqa: N815
    responseMimeType: Literal["application/json", "text/plain"] | None = None  # noqa: N815
    responseJsonSchema: dict[str, Any] | None = None  # noqa: N815


class Gemini(Strict):
    contents: Annotated[list[Content], Field(min_length=1)]
    generationConfig: GenerationConfig | None = None  # noqa: N815
    systemInstruction: SystemInstruction | None = None  # noqa: N815


class OllamaOptions(Strict):
    num_ctx: Annotated[int, Field(ge=1)] | None = None
    num_predict: int | None = None
    temperature: float | None = None


class OllamaMessage(Strict):
    role: Literal["system", "user", "assistant", "tool"]
    content: str


class OllamaChat(Strict):
    model: str
    messages: list[OllamaMessage]
    stream: bool = True
    format: Literal["json"] | dict[str, Any] | None = None
    options: OllamaOptions | None = None
    think: bool | Literal["low", "medium", "high"] | None = None


_REASONS = re.compile(r"^(?:o\d|gpt-5(?!.*chat))")


def find_fault(path: str, body: dict[str, Any], headers: Any) -> str | None:
    """Return the message of the vendor's refusal; None for a request that it accepts."""
    kind: type[Strict]
    if path.endswith("/v1/messages"):
        kind, check = AnthropicMessages, _check_anthropic
        if headers.get("anthropic-version") is None:
            return "anthropic-version: header is required"
    elif path.endswith(":streamGenerateContent"):
        kind, check = Gemini, _check_gemini
        body = {**body, "_model": path.rpartition("/")[2].partition(":")[0]}
    elif path.endswith("/api/chat"):
        kind, check = OllamaChat, _check_ollama
    elif path.endswith("/responses"):
        kind, check = OpenAIResponses, _check_nothing
    elif "deepseek" in body.get("model", ""):
        kind, check = DeepSeekChat, _check_nothing
    else:
        kind, check = OpenAIChat, _check_openai
    try:
        known = {name: value for name, value in body.items() if name != "_model"}
        TypeAdapter(kind).validate_python(known)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            return f"Unrecognized request argument supplied: {place}"
        return f"Invalid value for '{place}': {first['msg']}"
    return check(body)


def _check_nothing(body: dict[str, Any]) -> str | None:
    return None


def _check_openai(body: dict[str, Any]) -> str | None:
    model, effort = body["model"], body.get("reasoning_effort")
    if "stream_options" in body and not body.get("stream"):
        return "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    if not _REASONS.match(model):
        return "Unrecognized request argument supplied: reasoning_effort" if effort else None
    if "max_tokens" in body:
        return ("Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead.")  # fmt: skip
    if body.get("temperature", 1) != 1:
        return (f"Unsupported value: 'temperature' does not support {body['temperature']} with "
                "this model. Only the default (1) value is supported.")  # fmt: skip
    is_new = model.startswith("gpt-5.")
    if (effort == "minimal" and (is_new or model[0] == "o")) or (effort == "none" and not is_new):
        return f"Unsupported value: 'reasoning_effort' does not support '{effort}' with this model."
    return None


def _check_anthropic(body: dict[str, Any]) -> str | None:
    if thinking := body.get("thinking"):
        if thinking["budget_tokens"] >= body["max_tokens"]:
            return "`max_tokens` must be greater than `thinking.budget_tokens`."
        if body.get("temperature", 1) != 1:
            return "`temperature` may only be set to 1 when thinking is enabled."
    if body["messages"][0]["role"] != "user":
        return "messages: first message must use the user role"
    return None


def _check_gemini(body: dict[str, Any]) -> str | None:
    model, options = body["_model"], body.get("generationConfig") or {}
    thinking = options.get("thinkingConfig")
    if thinking and not model.startswith(("gemini-2.5", "gemini-3")):
        return "Thinking is not enabled for this model."
    if thinking and "thinkingBudget" in thinking:
        budget, least = thinking["thinkingBudget"], 128 if "pro" in model else 0
        if budget < least:
            return f"The thinking budget {budget} is invalid. Please choose a value of {least}."
        if budget and budget >= options["maxOutputTokens"]:
            return "The thinking budget must be below maxOutputTokens."
    if "responseJsonSchema" in options and "responseMimeType" not in options:
        return "responseJsonSchema needs the responseMimeType application/json"
    return None


def _check_ollama(body: dict[str, Any]) -> str | None:
    thinks = body["model"].startswith(("deepseek-r1", "qwen3", "gpt-oss", "magistral"))
    if body.get("think") and not thinks:
        return f'"{body["model"]}" does not support thinking'
    return None
