"""Settings: the only reader of the environment and of ragstone.toml."""

from ragstone.settings.layers import (
    LoadedSettings,
    Setting,
    allowed_values,
    effective,
    load_settings,
    preset_values,
)
from ragstone.settings.tree import (
    PRESETS,
    GroundSettings,
    IndexSettings,
    IngestSettings,
    JournalSettings,
    MemorySettings,
    RetrieveSettings,
    Settings,
    UnderstandSettings,
)

__all__ = [
    "PRESETS",
    "GroundSettings",
    "IndexSettings",
    "IngestSettings",
    "JournalSettings",
    "LoadedSettings",
    "MemorySettings",
    "RetrieveSettings",
    "Setting",
    "Settings",
    "UnderstandSettings",
    "allowed_values",
    "effective",
    "load_settings",
    "preset_values",
]
