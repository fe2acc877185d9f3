"""The page's texts: none outside `t()`, each in every catalogue, no catalogue with more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .page_texts import FOLDER, SCRIPTS, list_html_texts, list_keys, read_catalogue, read_literals

# Loaded before the catalogue, or without the page.
_BARE = {"text.js", "docs.js"}
# The values of these attributes are for the browser.
_ATTRIBUTES = {"class", "rel", "Authorization"}
# Names of keys, errors, headers, products and classes: the same in every language.
_NAMES = {
    "Enter", "Escape", "ArrowDown", "ArrowUp", "AbortError", "Content-Type", "Accept-Language",
    "Markdown", "Word", "Excel", "PowerPoint", "Python", "JavaScript",
    "Ragstone {}", "{} · Ragstone", "answer markdown",
}  # fmt: skip
# Signs between two values; a catalogue may put others.
_SIGNS = {"{} %", "{} {}", "{}."}


CATALOGUES = {path.stem: read_catalogue(path.stem) for path in FOLDER.glob("texts/*.js")}


@pytest.mark.parametrize(
    "path", [path for path in SCRIPTS if path.name not in _BARE], ids=lambda path: path.name
)
def test_every_visible_text_is_translated(path: Path) -> None:
    bare = [
        f"{path.name}:{one.line} {one.text!r}"
        for one in read_literals(path)
        if one.looks_visible
        and not one.is_translated
        and one.call != "plural"
        and one.name not in _ATTRIBUTES
        and one.text not in _NAMES
    ]
    assert not bare, "wrap them in t()"


@pytest.mark.parametrize("code", ["de", "zh"])
def test_a_catalogue_has_the_texts_of_the_page_and_no_other(code: str) -> None:
    wanted = {text for path in SCRIPTS if path.name not in _BARE for text in list_keys(path)}
    wanted |= set(list_html_texts())
    catalogue = CATALOGUES[code]
    assert wanted - set(catalogue) == set(), "not translated"
    assert set(catalogue) - wanted - _SIGNS == set(), "not a text of the page any more"


@pytest.mark.parametrize("code", CATALOGUES)
def test_a_translation_has_the_values_of_its_text(code: str) -> None:
    for text, translated in CATALOGUES[code].items():
        assert translated, text
        places = re.findall(r"{(\d?)}", translated)
        assert len(places) == text.count("{}"), text
        assert not any(places) or sorted(places) == [str(at) for at in range(len(places))], text


def test_no_stylesheet_holds_a_text() -> None:
    for path in FOLDER.glob("*.css"):
        assert not re.findall(r'content: "[^"]*[A-Za-z][^"]*"', path.read_text("utf-8")), path.name


def test_the_choice_offers_the_languages_that_have_a_catalogue() -> None:
    offered = re.search(r"LANGUAGES = {(.*?)}", (FOLDER / "text.js").read_text("utf-8"))
    assert offered
    assert set(re.findall(r"(\w+):", offered[1])) == {"en", *CATALOGUES}


def test_the_scanner_reads_strings_templates_and_plurals(tmp_path: Path) -> None:
    script = tmp_path / "some.js"
    script.write_text(
        'const a = /["x]/; // t("not this")\n'
        'el("p", { class: "two words", title: is ? "Some words" : t("Wrapped") }, "Bare text");\n'
        'el("p", {}, t("{} of {}", plural(n, "leaf", "leaves")), `In ${t("a template")} here`);\n',
        "utf-8",
    )
    found = read_literals(script)
    assert [one.text for one in found if one.looks_visible and not one.is_translated] == [
        "two words", "Some words", "Bare text", "In {} here",
    ]  # fmt: skip
    assert next(one for one in found if one.text == "two words").name == "class"
    assert list(list_keys(script)) == [
        "Wrapped", "{} of {}", "{} leaf", "{} leaves", "a template",
    ]  # fmt: skip
