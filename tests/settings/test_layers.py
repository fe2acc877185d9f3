"""Every name works, the layers win in their order, and a wrong value is refused in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import SettingsError
from ragstone.settings import PRESETS, LoadedSettings, allowed_values, load_settings, preset_values
from ragstone.settings.tree import NOT_USED_YET, Settings

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
    return load_settings(environ=environ or {}, **more)


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


@pytest.mark.parametrize("name", NOT_USED_YET)
def test_a_name_without_a_part_is_accepted_and_listed_as_unused(name: str) -> None:
    assert load({name: "1"}).unused == (name,)


@pytest.mark.parametrize("setting", load().listing, ids=lambda setting: setting.path)
def test_every_setting_is_described_and_has_a_regular_name(setting: Any) -> None:
    assert setting.description.endswith(".")
    assert f"RAGSTONE_{setting.path.replace('.', '_').upper()}" in setting.names
    assert allowed_values(setting.path)


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
        ({"RAGSTONE_NOTHING_LIKE_IT_AT_ALL": "3"}, "ragstone settings"),
    ],
)
def test_a_misspelt_variable_is_refused(environ: dict[str, str], hint: str) -> None:
    with pytest.raises(SettingsError, match="There is no setting named") as refused:
        load(environ)
    assert hint in refused.value.hint


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
    assert load().settings.refine.top_k == 2


def test_a_secret_is_never_shown() -> None:
    loaded = load({"LLM_API_KEY": "sk-very-secret"})
    assert loaded.settings.provider.api_key.get_secret_value() == "sk-very-secret"
    assert "sk-very-secret" not in repr(loaded)
    assert "sk-very-secret" not in str(loaded.settings.model_dump())


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().settings.refine.top_k = 3  # type: ignore[misc]
