"""Requests of the vendors, strictly: an unknown field or a wrong type is refused.

`find_fault` returns what the vendor would answer with status 400, or None. The models follow the
documentation of the vendors in November 2026; `docs/reference/model-rules.md` names the pages and
what could not be checked.
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
    include_obfuscation: bool | None = None


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class OpenAIChat(Strict):
    model: str
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Temperature | None = None
    top_p: float | None = None
    reasoning_effort: Effort | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    response_format: SchemaFormat | PlainFormat | None = None
    prompt_cache_key: str | None = None
    seed: int | None = None
    store: bool | None = None


class RouterReasoning(Strict):
    effort: Effort | None = None
    summary: str | None = None


class OpenRouterChat(OpenAIChat):
    """OpenRouter has its own field for the effort, and takes that of OpenAI as well."""

    reasoning: RouterReasoning | None = None


class Reasoning(Strict):
    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


class TextFormat(Strict):
    type: Literal["json_schema"]
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class TextConfig(Strict):
    format: TextFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class OpenAIResponses(Strict):
    model: str
    input: Annotated[list[ChatMessage], Field(min_length=1)]
    instructions: str | None = None
    stream: bool = False
    store: bool = True
    max_output_tokens: Annotated[int, Field(ge=16)] | None = None
    temperature: Temperature | None = None
    reasoning: Reasoning | None = None
    text: TextConfig | None = None


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


class BudgetThinking(Strict):
    type: Literal["enabled"]
    budget_tokens: Annotated[int, Field(ge=1024)]


class OtherThinking(Strict):
    type: Literal["adaptive", "disabled", "between_tools"]


class OutputFormat(Strict):
    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class OutputConfig(Strict):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class AnthropicMessages(Strict):
    model: str
    max_tokens: Annotated[int, Field(ge=1)]
    messages: Annotated[list[Turn], Field(min_length=1)]
    system: str | list[TextBlock] | None = None
    stream: bool = False
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    thinking: BudgetThinking | OtherThinking | None = None
    output_config: OutputConfig | None = None


class Part(Strict):
    text: str


class Content(Strict):
    role: Literal["user", "model"]
    parts: Annotated[list[Part], Field(min_length=1)]


class SystemInstruction(Strict):
    parts: Annotated[list[Part], Field(min_length=1)]


class ThinkingConfig(Strict):
    thinkingBudget: int | None = None  # noqa: N815  theirs
    thinkingLevel: Literal["MINIMAL", "LOW", "MEDIUM", "HIGH"] | None = None  # noqa: N815
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


_REASONS = re.compile(r"^(?:o\d|gpt-5(?!.*chat)|gpt-[6-9])")


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
        kind, check = OpenAIResponses, _check_responses
    elif "/" in body.get("model", ""):
        kind, check = OpenRouterChat, _check_nothing
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


def _list_efforts(model: str) -> tuple[str, ...]:
    """The efforts of OpenAI's models, as their pages say."""
    all_efforts = ("none", "low", "medium", "high", "xhigh", "max")
    if model[0] == "o":
        return ("low", "medium", "high")
    if "-pro" in model:
        return ("high",) if model.startswith("gpt-5-pro") else ("medium", "high", "xhigh")
    if not model.startswith(("gpt-5.", "gpt-6")):
        return ("minimal", "low", "medium", "high")
    if model.startswith("gpt-6."):
        return all_efforts[1:]
    return all_efforts[:4] if model.startswith("gpt-5.1") else all_efforts


def _check_openai(body: dict[str, Any]) -> str | None:
    model, effort = body["model"], body.get("reasoning_effort")
    if "stream_options" in body and not body.get("stream"):
        return "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    if not _REASONS.match(model):
        return "Unrecognized request argument supplied: reasoning_effort" if effort else None
    if "max_tokens" in body:
        return ("Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead.")  # fmt: skip
    return _check_reasoning(body, effort)


def _check_responses(body: dict[str, Any]) -> str | None:
    return _check_reasoning(body, (body.get("reasoning") or {}).get("effort"))


def _check_reasoning(body: dict[str, Any], effort: str | None) -> str | None:
    model = body["model"]
    if body.get("temperature", 1) != 1 and effort != "none":
        return (f"Unsupported value: 'temperature' does not support {body['temperature']} with "
                "this model. Only the default (1) value is supported.")  # fmt: skip
    if effort is not None and effort not in _list_efforts(model):
        known = ", ".join(f"'{one}'" for one in _list_efforts(model))
        return (f"Unsupported value: '{effort}' is not supported with the '{model}' model. "
                f"Supported values are: {known}. (reasoning_effort)")  # fmt: skip
    limit = body.get("max_completion_tokens") or body.get("max_output_tokens") or 0
    if limit > 128_000:
        return "max_completion_tokens is too large: this model supports at most 128000."
    return None


# Types of thinking that each Claude accepts, and whether a temperature is.
_CLAUDE: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    (r"claude-(?:opus-5-5|fable|mythos)", ("adaptive",), False),
    (r"claude-sonnet-5-5", ("adaptive", "between_tools"), False),
    (r"claude-(?:opus|sonnet|haiku)-5", ("adaptive", "disabled"), False),
    (r"claude-opus-4-[78]", ("adaptive",), False),
    (r"claude-(?:opus|sonnet)-4-6", ("adaptive", "enabled", "disabled"), True),
    (r"claude-", ("enabled", "disabled"), True),
)


def _check_anthropic(body: dict[str, Any]) -> str | None:  # noqa: PLR0911  a rule a line
    types, takes_temperature = next(
        rule[1:] for rule in _CLAUDE if re.match(rule[0], body["model"])
    )
    thinking = body.get("thinking") or {}
    if thinking and thinking["type"] not in types:
        return (f'"thinking.type.{thinking["type"]}" is not supported for this model. '
                'Use "thinking.type.adaptive" and "output_config.effort".')  # fmt: skip
    if thinking.get("type") == "enabled" and thinking["budget_tokens"] >= body["max_tokens"]:
        return "`max_tokens` must be greater than `thinking.budget_tokens`."
    temperature = body.get("temperature", 1)
    if temperature != 1 and not takes_temperature:
        return "`temperature` is deprecated for this model."
    if temperature != 1 and thinking.get("type") in ("enabled", "adaptive"):
        return "`temperature` may only be set to 1 when thinking is enabled."
    if body["messages"][0]["role"] != "user" or body["messages"][-1]["role"] != "user":
        return "messages: the first and the last message must use the user role"
    output = body.get("output_config") or {}
    if "effort" in output and "adaptive" not in types:
        return "This model does not support the effort parameter."
    return _check_schema(output["format"]["schema"]) if "format" in output else None


def _check_schema(schema: Any) -> str | None:
    """Anthropic's subset of JSON schema: closed objects, no limits of values."""
    if isinstance(schema, list):
        return next(filter(None, map(_check_schema, schema)), None)
    if not isinstance(schema, dict):
        return None
    refused = {"minimum", "maximum", "minLength", "maxLength", "multipleOf"} & schema.keys()
    if refused and "type" in schema:
        return f"output_config.format.schema: {min(refused)} is not supported"
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        return ("output_config.format.schema: for 'object' type, 'additionalProperties' must be "
                "explicitly set to false")  # fmt: skip
    return next(filter(None, map(_check_schema, schema.values())), None)


def _check_gemini(body: dict[str, Any]) -> str | None:  # noqa: PLR0911  a rule a line
    model, options = body["_model"], body.get("generationConfig") or {}
    thinking = options.get("thinkingConfig") or {}
    if body["contents"][-1]["role"] != "user":
        return "Please ensure that the last turn is a user turn."
    if thinking and not model.startswith(("gemini-2.5", "gemini-3")):
        return "Thinking is not enabled for this model."
    if len(thinking) > 1 or ("thinkingLevel" in thinking and model.startswith("gemini-2.5")):
        return "Thinking level is not supported for this model."
    if thinking.get("thinkingLevel") == "MINIMAL" and not re.search("lite|3-flash", model):
        return "Thinking level MINIMAL is not supported for this model."
    if "thinkingBudget" in thinking:
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
    has_levels = body["model"].startswith("gpt-oss")
    if "think" in body and isinstance(body["think"], str) != has_levels:
        return f'"{body["model"]}" does not have the thinking value {body["think"]}'
    return None
