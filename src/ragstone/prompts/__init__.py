"""Prompt texts, one file each, with `{slots}` that are filled by plain replacement."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def template(name: str) -> str:
    return resources.files(__package__).joinpath(f"{name}.md").read_text("utf-8").strip()


def render(name: str, **slots: str) -> str:
    """Fill a template in one pass: a `{slot}` inside a filled-in text stays as it is."""
    parts: list[str] = []
    rest = template(name)
    while rest:
        before, brace, after = rest.partition("{")
        slot, close, tail = after.partition("}")
        parts.append(before)
        if brace and close and slot in slots:
            parts.append(slots[slot])
            rest = tail
        else:
            parts.append(brace)
            rest = after
    return "".join(parts)
