"""The same documents under other settings: engines that share everything but the pipeline.

A preset's name, or a few settings → an engine over the same catalog, index and models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragstone.engine import Engine
from ragstone.settings import PRESETS, Setting, Settings, preset_values

# What a person set for this server holds under every preset.
_FIRMLY_SET = ("flag", "environment")


class Variants:
    """Keeps the engines of one server's other settings; each is built when first asked for."""

    def __init__(self, engine: Engine, listing: Sequence[Setting] = ()) -> None:
        self._engine = engine
        self._firm = frozenset(one.path for one in listing if one.origin.startswith(_FIRMLY_SET))
        self._built: dict[tuple[tuple[str, Any], ...], Engine] = {}

    def of_preset(self, preset: str) -> Engine:
        """The engine as that preset would have it."""
        if preset == self._engine.settings.preset:
            return self._engine
        return self._with(self._changes(preset))

    def unrefined(self) -> Engine:
        """The engine with nothing filtered, reranked or deduplicated: every candidate comes out."""
        return self._with(
            {
                "refine.min_similarity": 0.0,
                "refine.reranker_enabled": False,
                "refine.duplicate_similarity": 1.0,
                "refine.mmr_lambda": 1.0,
            }
        )

    def _changes(self, preset: str) -> dict[str, Any]:
        """What the preset sets, and what only other presets set put back to the defaults."""
        defaults = Settings()
        touched = {path for name in PRESETS for path in preset_values(name)}
        wanted = {path: _value(defaults, path) for path in touched} | preset_values(preset)
        return {path: value for path, value in wanted.items() if path not in self._firm} | {
            "preset": preset
        }

    def _with(self, changes: Mapping[str, Any]) -> Engine:
        key = tuple(sorted(changes.items()))
        if key not in self._built:
            engine = self._engine
            self._built[key] = Engine(
                _changed(engine.settings, changes),
                embedder=engine.embedder,
                catalog=engine.catalog,
                index=engine.index,
                provider=engine.provider,
                moderator=engine.moderator,
            )
        return self._built[key]


def _value(settings: Settings, path: str) -> Any:
    value: Any = settings
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _changed(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """Settings are frozen; a copy with other values in some sections."""
    top: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {}
    for path, value in changes.items():
        section, _, name = path.rpartition(".")
        (sections.setdefault(section, {}) if section else top)[name] = value
    for section, values in sections.items():
        top[section] = getattr(settings, section).model_copy(update=values)
    return settings.model_copy(update=top)
