"""Test that every error has a message and a hint, and is listed in the module's tree."""

from __future__ import annotations

import inspect

import pytest

from ragstone import errors

FAMILIES = [
    family
    for _, family in inspect.getmembers(errors, inspect.isclass)
    if issubclass(family, errors.RagstoneError)
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_a_failure_reads_as_a_sentence_with_its_hint(family: type[errors.RagstoneError]) -> None:
    failure = family("It broke.", hint="Mend it.")
    assert str(failure) == "It broke. Mend it."
    assert str(family("It broke.")) == "It broke."


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_every_family_is_drawn_in_the_tree(family: type[errors.RagstoneError]) -> None:
    assert family.__name__ in (errors.__doc__ or "")


def test_only_failures_that_may_pass_are_worth_another_try() -> None:
    retryable = {family.__name__ for family in FAMILIES if family.retryable}
    assert {"StoreBusyError", "ProviderError"} <= retryable
    assert "SettingsError" not in retryable
