"""Intervals hold the mean, are empty for equal sides, and do not depend on the hour."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.evaluate.metrics import bootstrap_interval, paired_bootstrap, stratified_bootstrap

numbers = st.lists(st.floats(0, 1), min_size=1, max_size=50)


@settings(deadline=None)
@given(numbers)
def test_an_interval_lies_within_the_values_and_is_repeatable(given_values: list[float]) -> None:
    values = np.array(given_values)
    low, high = bootstrap_interval(values, rounds=200)
    assert values.min() - 1e-9 <= low <= high <= values.max() + 1e-9
    assert bootstrap_interval(values, rounds=200) == (low, high)


def test_equal_sides_differ_by_nothing() -> None:
    values = np.random.default_rng(1).random(100)
    assert paired_bootstrap(values, values) == (0.0, 0.0)
    assert bootstrap_interval(np.array([])) == (0.0, 0.0)


def test_a_clear_gain_is_clear_and_chance_is_not() -> None:
    generator = np.random.default_rng(2)
    values = generator.random(300)
    low, _ = paired_bootstrap(values + 0.05 + generator.normal(0, 0.1, 300), values)
    assert low > 0
    low, high = paired_bootstrap(values + generator.normal(0, 0.1, 300), values)
    assert low < 0 < high
    low, high = stratified_bootstrap([(values + 0.1, values), (values, values)])
    assert abs(low - 0.05) < 1e-6
    assert abs(high - 0.05) < 1e-6
