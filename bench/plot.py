"""Write curves as SVG files: a benchmark should not need a plotting library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

_WIDTH, _HEIGHT, _EDGE = 560, 400, 56
_COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#8250df", "#9a6700", "#57606a")


def write_curves(
    path: Path,
    title: str,
    axes: tuple[str, str],
    series: dict[str, Sequence[tuple[float, float]]],
    *,
    diagonal: bool = False,
) -> None:
    """Write curves over the unit square."""

    def at(x: float, y: float) -> str:
        left = _EDGE + x * (_WIDTH - 2 * _EDGE)
        return f"{left:.1f},{_HEIGHT - _EDGE - y * (_HEIGHT - 2 * _EDGE):.1f}"

    parts = [
        f'<text x="{_EDGE}" y="24" font-weight="bold">{escape(title)}</text>',
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 12}">{escape(axes[0])}</text>',
        f'<text x="12" y="{_EDGE - 10}">{escape(axes[1])}</text>',
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<polyline points="{at(tick, 0)} {at(tick, 1)}" stroke="#ddd"/>')
        parts.append(f'<polyline points="{at(0, tick)} {at(1, tick)}" stroke="#ddd"/>')
        x, y = at(tick, 0).split(",")
        parts.append(f'<text x="{x}" y="{float(y) + 16}" font-size="11">{tick}</text>')
        x, y = at(0, tick).split(",")
        parts.append(f'<text x="{float(x) - 34}" y="{y}" font-size="11">{tick}</text>')
    if diagonal:
        parts.append(
            f'<polyline points="{at(0, 0)} {at(1, 1)}" stroke="#999" stroke-dasharray="4"/>'
        )
    for number, (name, points) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        line = " ".join(at(x, y) for x, y in points)
        parts.append(f'<polyline points="{line}" stroke="{colour}" stroke-width="2"/>')
        parts.append(
            f'<text x="{_WIDTH - 220}" y="{_EDGE + 16 * number}" fill="{colour}" '
            f'font-size="12">{escape(name)}</text>'
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'font-family="sans-serif" fill="none"><g fill="none">{"".join(parts)}</g></svg>'.replace(
            "<text ", '<text fill="#222" '
        ).replace('<text fill="#222" x="340"', '<text x="340"'),
        "utf-8",
    )
