"""Draw plots as SVG text: figures in → a string with lines, dots or bars on two axes out.

Colours come from the style sheet of the page, so one picture serves light and dark.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal, TypeAlias

Point: TypeAlias = tuple[float, float]

WIDTH, HEIGHT = 480, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 12, 14, 46


@dataclass(frozen=True, slots=True)
class Series:
    """A named set of points; `colour` selects `--c1` … `--c4` of the style sheet."""

    name: str
    points: Sequence[Point]
    kind: Literal["line", "dots", "bars"] = "line"
    colour: int = 1
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """A label, and bounds if they should not follow from the points."""

    label: str
    low: float | None = None
    high: float | None = None


def draw_plot(
    title: str,
    series: Sequence[Series],
    x: Axis,
    y: Axis,
    *,
    mark: float | None = None,
    mark_label: str = "",
) -> str:
    """Draw a plot, with a dashed vertical line at `mark`."""
    points = [point for one in series for point in one.points]
    if not points:
        return ""
    across = _Scale.from_values([p[0] for p in points], x, _LEFT, WIDTH - _RIGHT)
    up = _Scale.from_values([p[1] for p in points], y, HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
        *_draw_axes(across, up, x.label, y.label),
    ]
    for one in series:
        parts += _draw_series(one, across, up)
    if mark is not None:
        at = across.place(mark)
        parts.append(
            f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>'
            f'<text class="tick" x="{at + 4:.1f}" y="{_TOP + 10}">{escape(mark_label)}</text>'
        )
    parts.append("</svg>")
    named = [one for one in series if one.name]
    legend = "".join(
        f'<span class="key"><i class="c{one.colour}"></i>{escape(one.name)}</span>' for one in named
    )
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>{''.join(parts)}"
        f'<p class="legend">{legend}</p></figure>'
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float

    @classmethod
    def from_values(cls, values: Sequence[float], axis: Axis, start: float, end: float) -> _Scale:
        low = min(values) if axis.low is None else axis.low
        high = max(values) if axis.high is None else axis.high
        if high - low < 1e-9:
            room = abs(low) * 0.05 or 0.5
            low, high = low - room, high + room
        elif axis.low is None and axis.high is None:
            margin = (high - low) * 0.08
            low, high = low - margin, high + margin
        return cls(low, high, start, end)

    def place(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return four to eight round numbers."""
        step = 10 ** math.floor(math.log10((self.high - self.low) / 4))
        for factor in (1, 2, 5, 10):
            if (self.high - self.low) / (step * factor) <= 6:
                step *= factor
                break
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(number * step, 10) for number in range(first, last + 1)]


def _draw_axes(across: _Scale, up: _Scale, x_label: str, y_label: str) -> list[str]:
    floor = HEIGHT - _BOTTOM
    parts = []
    for tick in up.ticks():
        at = up.place(tick)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text class="tick end" x="{_LEFT - 6}" y="{at + 4:.1f}">{tick:g}</text>'
        )
    parts += [
        f'<text class="tick middle" x="{across.place(tick):.1f}" y="{floor + 17}">{tick:g}</text>'
        for tick in across.ticks()
    ]
    middle = (_TOP + floor) / 2
    parts.append(
        f'<line class="axis" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{floor}" y2="{floor}"/>'
        f'<text class="label middle" x="{(_LEFT + WIDTH - _RIGHT) / 2:.0f}" y="{HEIGHT - 8}">'
        f"{escape(x_label)}</text>"
        f'<text class="label middle" transform="translate(14 {middle:.0f}) rotate(-90)">'
        f"{escape(y_label)}</text>"
    )
    return parts


def _draw_series(one: Series, across: _Scale, up: _Scale) -> list[str]:
    places = [(across.place(x), up.place(y)) for x, y in one.points]
    if one.kind == "line":
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        dashed = " dashed" if one.dashed else ""
        return [f'<polyline class="line c{one.colour}{dashed}" points="{path}"/>']
    if one.kind == "dots":
        return [
            f'<circle class="dot c{one.colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">'
            f"<title>{given[0]:g}, {given[1]:g}</title></circle>"
            for (x, y), given in zip(places, one.points, strict=True)
        ]
    gaps = [b - a for (a, _), (b, _) in itertools.pairwise(places)]
    width = max(2.0, min(gaps, default=24.0) * 0.9)
    floor = up.place(max(0.0, up.low))
    return [
        f'<rect class="bar c{one.colour}" x="{x - width / 2:.1f}" y="{min(y, floor):.1f}" '
        f'width="{width:.1f}" height="{abs(floor - y):.1f}"/>'
        for x, y in places
    ]


def draw_bars(title: str, rows: Sequence[tuple[str, float, float]], unit: str) -> str:
    """Draw two horizontal bars per row, e.g. the median over the 95th percentile."""
    if not rows:
        return ""
    top = max(second for _, _, second in rows) or 1.0
    line, left, right = 24, 150, 110
    height = line * len(rows) + 8
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">']
    for number, (name, first, second) in enumerate(rows):
        y = 4 + number * line
        room = WIDTH - left - right
        parts.append(
            f'<text class="tick end" x="{left - 6}" y="{y + 15}">{escape(name)}</text>'
            f'<rect class="bar c1 faint" x="{left}" y="{y + 3}" height="16" '
            f'width="{max(1.0, second / top * room):.1f}"/>'
            f'<rect class="bar c1" x="{left}" y="{y + 3}" height="16" '
            f'width="{max(1.0, first / top * room):.1f}"/>'
            f'<text class="tick" x="{left + second / top * room + 5:.1f}" y="{y + 15}">'
            f"{first:g} / {second:g}</text>"
        )
    parts.append("</svg>")
    caption = f"{escape(title)} ({escape(unit)})"
    return f"<figure><figcaption>{caption}</figcaption>{''.join(parts)}</figure>"


def compute_histogram(
    values: Sequence[float], *, low: float, high: float, bins: int
) -> list[Point]:
    """Return the share of the values in each bin, at the middle of the bin."""
    counts = [0] * bins
    for value in values:
        at = int((value - low) / (high - low) * bins)
        counts[min(bins - 1, max(0, at))] += 1
    width = (high - low) / bins
    total = max(1, len(values))
    return [(round(low + (at + 0.5) * width, 4), count / total) for at, count in enumerate(counts)]
