"""Plots are well-formed pictures whose points stay inside their frame."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.evaluate.plots import (
    HEIGHT,
    WIDTH,
    Axis,
    Series,
    compute_histogram,
    draw_bars,
    draw_plot,
)

finite = st.floats(-1e6, 1e6)
points = st.lists(st.tuples(finite, finite), min_size=1, max_size=20)


def picture(figure: str) -> ET.Element:
    return ET.fromstring(figure[figure.index("<svg") : figure.index("</svg>") + 6])


@settings(deadline=None)
@given(points, st.sampled_from(["line", "dots", "bars"]))
def test_every_point_is_inside_the_frame(
    given_points: list[tuple[float, float]], kind: str
) -> None:
    series = Series("a < b", given_points, kind)  # type: ignore[arg-type]
    svg = picture(draw_plot("A & B", [series], Axis("x"), Axis("y"), mark=0.0, mark_label="here"))
    for circle in svg.iter("circle"):
        assert 0 <= float(circle.attrib["cx"]) <= WIDTH
        assert 0 <= float(circle.attrib["cy"]) <= HEIGHT
    for line in svg.iter("polyline"):
        for pair in line.attrib["points"].split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT
    assert 2 <= len([t for t in svg.iter("text") if "end" in t.attrib["class"]]) <= 10


def test_nothing_to_show_is_no_picture() -> None:
    assert draw_plot("empty", [Series("a", [])], Axis("x"), Axis("y")) == ""
    assert draw_bars("empty", [], "ms") == ""


def test_bars_are_as_long_as_their_values() -> None:
    svg = picture(draw_bars("times", [("fast", 1, 2), ("slow", 50, 100)], "ms"))
    widths = [float(bar.attrib["width"]) for bar in svg.iter("rect")]
    assert widths[2] == max(widths)
    assert abs(widths[3] - widths[2] / 2) < 0.1


@settings(deadline=None)
@given(st.lists(st.floats(-1, 2), max_size=50))
def test_a_histogram_holds_every_value(values: list[float]) -> None:
    shares = [share for _, share in compute_histogram(values, low=0, high=1, bins=10)]
    assert len(shares) == 10
    assert abs(sum(shares) - (1 if values else 0)) < 1e-9
