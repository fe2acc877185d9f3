"""Test the names of settings, the order of their sources, and the errors for invalid values."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import SecretStr, ValidationError

from ragstone.errors import SettingsError
from ragstone.settings import (
    PRESETS,
    LoadedSettings,
    allowed_values,
    get_value,
    load_settings,
    preset_values,
)
from ragstone.settings import sources as layers
from ragstone.settings.schema import Settings

from ..conftest import NO_SETTINGS

# The design documents' variables, what they set, and a value that is not the default.
DESIGN_NAMES: list[tuple[str, str, str, Any]] = [
    ("RAG_ENABLED", "retrieve.enabled", "false", False),
    ("RETRIEVAL_METHOD", "retrieve.method", "keyword", "keyword"),
    ("RETRIEVAL_INITIAL_K", "retrieve.candidates", "33", 33),
    ("BM25_K1", "retrieve.bm25_k1", "0.9", 0.9),
    ("BM25_B", "retrieve.bm25_b", "0.4", 0.4),
    ("RRF_K", "retrieve.rrf_k", "10", 10),
    ("RAG_MIN_SIMILARITY", "refine.min_similarity", "0.25", 0.25),
    ("RAG_MIN_CHUNKS", "refine.min_chunks", "4", 4),
    ("RAG_RERANKER_ENABLED", "refine.reranker_enabled", "true", True),
    ("RAG_RERANKER_TYPE", "refine.reranker", "mine", "mine"),
    ("RERANK_TOP_K", "refine.rerank_top_k", "7", 7),
    ("RAG_MMR_LAMBDA", "refine.mmr_lambda", "0.7", 0.7),
    ("RAG_TOP_K", "refine.top_k", "3", 3),
    ("RAG_TOP_K", "refine.chat_top_k", "3", 3),
    ("RETRIEVAL_FINAL_K", "refine.chat_top_k", "4", 4),
    ("RAG_MAX_CONTEXT_TOKENS", "ground.max_context_tokens", "1000", 1000),
    ("RAG_MAX_CONTEXT_CHARS", "ground.max_context_chars", "8000", 8000),
    ("RAG_TEMPERATURE", "ground.temperature", "0.5", 0.5),
    ("LLM_MAX_RETRIES", "provider.max_retries", "1", 1),
    ("LLM_TIMEOUT_SECONDS", "provider.timeout_s", "12.5", 12.5),
    ("RAG_RERANKER_ENABLED", "refine.reranker_enabled", "1", True),
    ("RAG_RERANKER_ENABLED", "refine.reranker_enabled", "yes", True),
    ("RAG_RERANKER_ENABLED", "refine.reranker_enabled", "y", True),
    ("RAG_RERANKER_ENABLED", "refine.reranker_enabled", "ON", True),
    ("RELEVANCE_THRESHOLD", "refine.min_similarity", "0.35", 0.35),
    ("RAG_COMPARE_MODE", "server.compare_mode", "true", True),
    ("CHUNKENIZER_API_URL", "retrieve.chunkenizer_url", "http://h:8000", "http://h:8000"),
    ("SEMANTIC_CONFIDENCE_THRESHOLD", "understand.intent_confidence", "0.9", 0.9),
    ("INTENT_CONFIDENCE_THRESHOLD", "understand.intent_confidence", "0.6", 0.6),
    ("COMPRESSION_RATIO", "ground.compression_ratio", "0.3", 0.3),
    ("MAX_ITERATIONS", "check.max_iterations", "1", 1),
    ("QUERY_LOG", "journal.query_log", "metadata", "metadata"),
    ("RETENTION_DAYS", "journal.retention_days", "30", 30),
]

WRONG_VALUES = [
    ("RAG_TOP_K", "0", "a whole number from 1 to 1000"),
    ("RAG_TOP_K", "many", "a whole number from 1 to 1000"),
    ("RAG_MMR_LAMBDA", "1.5", "a number from 0 to 1"),
    ("BM25_B", "-0.1", "a number from 0 to 1"),
    ("RAG_ENABLED", "perhaps", "true or false"),
    ("RETRIEVAL_METHOD", "magic", "semantic, keyword, hybrid"),
    ("QUERY_LOG", "loud", "off, metadata, full"),
    ("LLM_TIMEOUT_SECONDS", "0", "a number above 0 to 3600"),
    ("RAGSTONE_SERVER_PORT", "70000", "a whole number from 0 to 65535"),
]


def load(environ: dict[str, str] | None = None, **more: Any) -> LoadedSettings:
    """Load settings from these sources alone, also while the tests are collected."""
    environ = environ or {}
    if "RAGSTONE_CONFIG" not in environ:
        more.setdefault("config_file", NO_SETTINGS)
    return load_settings(environ=environ, **more)


def value_at(settings: Settings, path: str) -> Any:
    value: Any = settings
    for part in path.split("."):
        value = getattr(value, part)
    return value


def origin_of(loaded: LoadedSettings, path: str) -> str:
    return next(one.origin for one in loaded.listing if one.path == path)


@pytest.mark.parametrize(("name", "path", "given", "expected"), DESIGN_NAMES)
def test_a_name_of_the_design_documents_works(
    name: str, path: str, given: str, expected: Any
) -> None:
    loaded = load({name: given})
    assert value_at(loaded.settings, path) == expected
    assert origin_of(loaded, path) == f"environment {name}"


SERVICES = ("openai", "azure", "anthropic", "google", "ollama")


@pytest.mark.parametrize("service", SERVICES)
def test_the_variables_of_a_service_touch_no_other(service: str) -> None:
    prefix = "AZURE_OPENAI" if service == "azure" else service.upper()
    own = {f"{prefix}_MODEL": "m", f"{prefix}_FAST_MODEL": "f", f"{prefix}_BASE_URL": "http://h",
           f"{prefix}_API_KEY": "k", f"{prefix}_TEMPERATURE": "0.7", f"{prefix}_MAX_TOKENS": "99",
           "LLM_PROVIDER": "nobody"}  # fmt: skip
    settings = load(own).settings
    default = load({"LLM_PROVIDER": "nobody"}).settings
    assert settings.model_copy(update={service: getattr(default, service)}) == default
    found = settings.service(service)
    told = (found.model, found.fast_model, found.base_url, found.key, found.temperature)
    assert told == ("m", "f", "http://h", "k", 0.7)
    assert found.token_limit == 99


def test_llm_variables_are_for_the_chosen_provider_alone() -> None:
    settings = load(
        {"LLM_PROVIDER": "google", "LLM_MODEL": "x", "GOOGLE_MODEL": "y", "OPENAI_MODEL": "z"}
    ).settings
    assert [settings.service(one).model for one in ("google", "openai", "ollama")] == ["x", "z", ""]


def test_the_temperature_of_the_chosen_provider_wins() -> None:
    both = {"OPENAI_TEMPERATURE": "0.9", "RAG_TEMPERATURE": "0.2"}
    assert load({**both, "LLM_PROVIDER": "openai"}).settings.temperature == 0.9
    assert load({**both, "LLM_PROVIDER": "ollama"}).settings.temperature == 0.2


def test_every_setting_is_described_and_has_a_regular_name() -> None:
    for setting in load().listing:
        assert setting.description.endswith("."), setting.path
        assert f"RAGSTONE_{setting.path.replace('.', '_').upper()}" in setting.names
        assert allowed_values(setting.path), setting.path


@pytest.mark.parametrize(("name", "value", "allowed"), WRONG_VALUES)
def test_a_wrong_value_is_refused_with_name_value_and_what_is_allowed(
    name: str, value: str, allowed: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load({name: value})
    assert name in refused.value.message
    assert f"'{value}'" in refused.value.message
    assert refused.value.hint == f"Allowed: {allowed}."


def test_two_wrong_values_are_counted() -> None:
    with pytest.raises(SettingsError, match=r"\(1 more\)"):
        load({"BM25_B": "7", "QUERY_LOG": "loud"})


def test_one_variable_for_two_fields_is_one_mistake() -> None:
    with pytest.raises(SettingsError) as refused:
        load({"RAG_TOP_K": "0"})
    assert "more" not in refused.value.message


def test_flags_win_over_environment_over_file_over_preset_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "ragstone.toml"
    file.write_text('preset = "classic"\n[refine]\ntop_k = 6\nmin_chunks = 6\nrerank_top_k = 6\n')
    loaded = load(
        {"RAG_TOP_K": "7", "RAG_MIN_CHUNKS": "7"}, config_file=file, flags={"refine.top_k": 8}
    )
    refine = loaded.settings.refine
    assert (refine.top_k, refine.min_chunks, refine.rerank_top_k) == (8, 7, 6)
    assert refine.mmr_lambda == 0.5
    assert [origin_of(loaded, f"refine.{name}") for name in ("top_k", "min_chunks")] == [
        "flag refine.top_k",
        "environment RAG_MIN_CHUNKS",
    ]
    assert origin_of(loaded, "refine.rerank_top_k") == str(file)
    assert origin_of(loaded, "refine.mmr_lambda") == "preset classic"
    assert origin_of(loaded, "understand.min_chars") == "default"


def test_the_narrower_name_wins() -> None:
    refine = load({"RAG_TOP_K": "3", "RETRIEVAL_FINAL_K": "4"}).settings.refine
    assert (refine.top_k, refine.chat_top_k) == (3, 4)


def test_a_flag_may_be_a_variable_name() -> None:
    assert load(flags={"RAG_TOP_K": "2"}).settings.refine.chat_top_k == 2


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_loads_and_names_itself(preset: str) -> None:
    assert load({"RAGSTONE_PRESET": preset}).settings.preset == preset
    assert preset_values(preset)["preset"] == preset


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError) as refused:
        load(flags={"preset": "wild"})
    assert "wild" in refused.value.message
    assert "minimal, classic, balanced, careful" in refused.value.hint


@pytest.mark.parametrize(
    ("environ", "hint"),
    [
        ({"RAG_TOPK": "3"}, "Did you mean RAG_TOP_K?"),
        ({"BM25_K": "3"}, "Did you mean BM25_K1?"),
        ({"RAGSTONE_TOPK": "3"}, "Did you mean RAG_TOP_K?"),
        ({"RAGSTONE_REFINE_TOPK": "3"}, "Did you mean RAGSTONE_REFINE_TOP_K?"),
        ({"RAGSTONE_DATBASE_URL": "x"}, "Did you mean RAGSTONE_DATABASE_URL?"),
        ({"RAGSTONE_DATA_DIR": "x"}, "Did you mean RAGSTONE_DATA_DIRECTORY?"),
        ({"RAGSTONE_PORT": "8642"}, "Did you mean RAGSTONE_SERVER_PORT?"),
        (
            {"RAGSTONE_API_KEY": "x"},
            "EMBEDDING_API_KEY or LLM_API_KEY or OPENAI_API_KEY?",
        ),
    ],
)
def test_a_misspelt_variable_is_refused(environ: dict[str, str], hint: str) -> None:
    with pytest.raises(SettingsError, match="There is no setting named") as refused:
        load(environ)
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("name", "meant"),
    [("LLM_PROVIDR", "LLM_PROVIDER"), ("EMBEDING_MODEL", "EMBEDDING_MODEL"), ("OPENAI_KEY", "")],
)
def test_a_misspelt_variable_that_another_program_may_have_is_ignored_with_a_warning(
    name: str, meant: str, caplog: pytest.LogCaptureFixture
) -> None:
    layers._warn_once.cache_clear()
    assert load({name: "x"}).settings == load().settings
    expected = f"The variable {name} is ignored: no setting has that name. Did you mean {meant}?"
    assert caplog.messages == ([expected] if meant else [])


# What Kubernetes sets for Services named ragstone, ragstone-server and ragstone-qdrant.
OF_SERVICES = {
    "RAGSTONE_PORT": "tcp://10.0.0.7:8642",
    "RAGSTONE_PORT_8642_TCP": "tcp://10.0.0.7:8642",
    "RAGSTONE_PORT_8642_TCP_ADDR": "10.0.0.7",
    "RAGSTONE_PORT_8642_TCP_PORT": "8642",
    "RAGSTONE_PORT_8642_TCP_PROTO": "tcp",
    "RAGSTONE_SERVICE_HOST": "10.0.0.7",
    "RAGSTONE_SERVICE_PORT": "8642",
    "RAGSTONE_SERVICE_PORT_HTTP": "8642",
    "RAGSTONE_SERVER_PORT": "tcp://10.0.0.8:8642",
    "RAGSTONE_SERVER_SERVICE_HOST": "10.0.0.8",
    "RAGSTONE_QDRANT_PORT_6333_UDP_ADDR": "10.0.0.9",
}


@pytest.mark.parametrize("name", OF_SERVICES)
def test_a_variable_of_a_kubernetes_service_is_ignored_with_a_warning(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    layers._warn_once.cache_clear()
    assert load({name: OF_SERVICES[name]}).settings == load().settings
    assert [f"The variable {name} is ignored: Kubernetes sets it for a Service."] == caplog.messages


@pytest.mark.parametrize("name", ["NOTHING_LIKE_IT_AT_ALL", "VERSION", "IMAGE", "DEPLOYED_BY"])
def test_a_variable_that_is_like_no_setting_is_ignored_with_one_warning(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    layers._warn_once.cache_clear()
    for _ in range(2):
        assert load({f"RAGSTONE_{name}": "3"}).settings == load().settings
    assert caplog.messages == [
        f"The variable RAGSTONE_{name} is ignored: no setting has a similar name."
    ]


def test_no_setting_has_a_name_that_a_kubernetes_service_makes() -> None:
    for setting in load().listing:
        for name in setting.names:
            assert not layers._is_of_service(name, "8642"), name


def test_a_variable_of_somebody_else_is_left_alone() -> None:
    assert load({"RAG_STUDIO_HOME": "x", "PATH": "/bin"}).settings == load().settings


def test_an_unknown_flag_and_an_unknown_key_of_the_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"'refine.topk' \(flag\)"):
        load(flags={"refine.topk": 1})
    file = tmp_path / "mine.toml"
    file.write_text("[refine]\ntopk = 1\n")
    with pytest.raises(SettingsError, match=r"'refine.topk' \(.*mine.toml\)"):
        load(config_file=file)


def test_a_settings_file_that_is_no_toml_or_not_there_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("this is not toml")
    with pytest.raises(SettingsError, match="cannot be read"):
        load(config_file=file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="cannot be read"):
        load(config_file=file)
    with pytest.raises(SettingsError, match="does not exist"):
        load({"RAGSTONE_CONFIG": str(tmp_path / "none.toml")})


def test_the_file_in_the_working_directory_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ragstone.toml").write_text("[refine]\ntop_k = 2\n")
    assert load_settings(environ={}).settings.refine.top_k == 2


def test_a_secret_is_never_shown() -> None:
    loaded = load({"LLM_API_KEY": "sk-very-secret"})
    assert loaded.settings.provider.api_key.get_secret_value() == "sk-very-secret"
    assert "sk-very-secret" not in repr(loaded)
    assert "sk-very-secret" not in str(loaded.settings.model_dump())


SECRETS = [one.path for one in load().listing if isinstance(one.value, SecretStr)]
# As TOML writes them; each holds the digits of the key.
WRONG_SECRETS = ["123456789", "1234567.89", "[123456789]", '["sk-123456789"]', "2031-12-31",
                 "{ key = 123456789 }", '{ "sk-123456789" = 1 }']  # fmt: skip


def test_all_secrets_are_known() -> None:
    named = [one.path for one in load().listing if re.search("key$|_url$|rate_storage", one.path)]
    plain = {"index.qdrant_url", "embed.base_url", "retrieve.chunkenizer_url", "provider.base_url",
             "server.public_url", "server.rate_per_key", "moderate.base_url", "index.pinecone_url",
                 *(f"{service}.base_url" for service in SERVICES)}  # fmt: skip
    assert set(named) - plain == set(SECRETS)


@pytest.mark.parametrize("written", WRONG_SECRETS)
@pytest.mark.parametrize("path", SECRETS[:2])
def test_a_secret_of_a_wrong_type_is_refused_without_its_value(
    path: str, written: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    section, _, name = path.rpartition(".")
    file.write_text(f"[{section}]\n{name} = {written}\n")
    with pytest.raises(SettingsError) as refused:
        load(config_file=file)
    # With the whole traceback, as a program that does not catch it prints it.
    shown = "".join(traceback.format_exception(refused.value))
    for part in ("123456789", "1234567.89", "2031"):
        assert part not in shown.replace(str(file), "")
    assert f"The setting {path} (" in refused.value.message
    assert f'{name} = "…"' in refused.value.hint


@pytest.mark.parametrize("value", [123456789, 1234567890.5, ["123456789"], {"123456789": 1}])
@pytest.mark.parametrize("path", SECRETS[:2])
def test_a_secret_of_a_wrong_type_is_refused_without_its_value_in_a_program(
    path: str, value: Any
) -> None:
    section, _, name = path.rpartition(".")
    with pytest.raises(SettingsError) as refused:
        load(flags={path: value})
    assert "123456789" not in "".join(traceback.format_exception(refused.value))
    with pytest.raises(ValidationError) as invalid:
        Settings.model_validate({section: {name: value}})
    assert "123456789" not in str(invalid.value)


def test_another_mistake_beside_a_secret_does_not_show_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[refine]\ntop_k = 0\n[provider]\napi_key = 123456789\n")
    with pytest.raises(SettingsError, match=r"refine.top_k is '0' .*\(1 more\)") as refused:
        load(config_file=file)
    assert "123456789" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize("path", SECRETS)
def test_a_secret_is_described_as_text(path: str) -> None:
    assert allowed_values(path) == "text (a secret, never shown)"


def test_only_paths_are_described_as_a_path() -> None:
    described = [one.path for one in load().listing if allowed_values(one.path) == "a path"]
    paths = ["data.directory", "data.models", "ingest.watch", "evaluate.directory"]
    assert described == paths
    assert allowed_values("index.qdrant_read_consistency") == "all, majority, quorum"
    assert allowed_values("index.qdrant_prefix") == "text of at most 60 characters"


def test_a_pattern_is_described_in_words() -> None:
    for path, info in layers._fields().items():
        if any(getattr(one, "pattern", None) for one in info.metadata):
            assert not allowed_values(path).startswith("text"), path


def test_a_variable_of_a_list_has_names_between_commas() -> None:
    loaded = load({"RAGSTONE_REFINE_STEPS": "filter, select"})
    assert loaded.settings.refine.steps == ("filter", "select")
    with pytest.raises(SettingsError):  # a moderator without categories would refuse nothing
        load({"RAGSTONE_MODERATE_CATEGORIES": ""})
    assert allowed_values("refine.steps") == "names separated by commas (in a file: a list)"


def test_an_empty_variable_is_none_where_none_is_allowed() -> None:
    for path, info in layers._fields().items():
        if type(None) in get_args(info.annotation):
            loaded = load({f"RAGSTONE_{path.replace('.', '_').upper()}": ""})
            assert get_value(loaded.settings, path) is None, path


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().settings.refine.top_k = 3  # type: ignore[misc]


def test_a_name_in_the_wrong_section_is_answered_with_the_right_one(tmp_path: Path) -> None:
    file = tmp_path / "ragstone.toml"
    file.write_text('[provider]\nopenai_api_key = "x"\n')
    with pytest.raises(SettingsError) as refused:
        load_settings(environ={}, config_file=file)
    assert refused.value.hint == "Did you mean openai.api_key?"
