"""Settings are changed in the file, atomically, and only where that has an effect."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.errors import InputError, SettingsError
from ragstone.settings import LoadedSettings, load_settings
from ragstone.settings.change import explain_fixed, finish_change, plan_change, set_values

FILE = """\
# Kept as it is.
preset = "careful"

[refine]
top_k = 7  # few

[server]
port = 1234
"""


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedSettings:
    file = tmp_path / "ragstone.toml"
    file.write_text(FILE)
    return load_settings(config_file=file, environ={"RAG_TEMPERATURE": "0.3"})


def test_a_change_is_in_the_file_and_in_the_settings(loaded: LoadedSettings) -> None:
    text, planned = plan_change(loaded, {"refine.top_k": 3, "retrieve.method": "keyword"})
    assert loaded.config_file.read_text() == FILE
    after = finish_change(loaded, text)
    assert after.settings == planned
    assert (after.settings.refine.top_k, after.settings.retrieve.method) == (3, "keyword")
    assert after.settings.server.port == 1234
    assert "# Kept as it is." in loaded.config_file.read_text()
    origins = {one.path: one.origin for one in after.listing}
    assert origins["refine.top_k"] == str(loaded.config_file)
    assert [path.name for path in loaded.config_file.parent.iterdir()] == ["ragstone.toml"]


@given(
    st.dictionaries(
        st.sampled_from(["preset", "refine.top_k", "refine.mmr_lambda", "provider.model"]),
        st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=20),
    )
)
def test_what_is_written_is_read_again(values: dict[str, str]) -> None:
    tree = tomllib.loads(set_values(FILE, values))
    for path, value in values.items():
        section, _, name = path.rpartition(".")
        assert (tree[section] if section else tree)[name] == value
    assert tree["server"] == {"port": 1234}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"server.port": 1}, "restart"),
        ({"ground.temperature": 1}, "RAG_TEMPERATURE"),
        ({"preset": "multilingual"}, "restart"),
        ({"no.such": 1}, "GET /v1/settings"),
    ],
)
def test_what_has_no_effect_is_refused_with_the_reason(
    loaded: LoadedSettings, values: dict[str, object], says: str
) -> None:
    with pytest.raises(InputError) as refused:
        plan_change(loaded, values)
    assert says in f"{refused.value} {refused.value.hint}"
    assert loaded.config_file.read_text() == FILE


def test_a_value_that_is_not_allowed_is_refused(loaded: LoadedSettings) -> None:
    with pytest.raises(SettingsError, match="top_k"):
        plan_change(loaded, {"refine.top_k": 0})
    assert loaded.config_file.read_text() == FILE


def test_several_processes_need_a_restart(loaded: LoadedSettings) -> None:
    top_k = next(one for one in loaded.listing if one.path == "refine.top_k")
    assert explain_fixed(top_k, loaded) == ""
    server = loaded.settings.server.model_copy(update={"workers": 2})
    many = replace(loaded, settings=loaded.settings.model_copy(update={"server": server}))
    assert "several processes" in explain_fixed(top_k, many)
    assert "program" in explain_fixed(top_k, None)
