"""Settings: the only reader of the environment and of ragstone.toml."""

from ragstone.settings.layers import (
    LoadedSettings,
    Setting,
    allowed_values,
    load_settings,
    preset_values,
)
from ragstone.settings.tree import (
    PRESETS,
    IndexSettings,
    IngestSettings,
    RetrieveSettings,
    Settings,
    UnderstandSettings,
)

__all__ = [
    "PRESETS",
    "IndexSettings",
    "IngestSettings",
    "LoadedSettings",
    "RetrieveSettings",
    "Setting",
    "Settings",
    "UnderstandSettings",
    "allowed_values",
    "load_settings",
    "preset_values",
]
