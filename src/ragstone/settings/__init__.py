"""Settings: the only reader of the environment and of ragstone.toml."""

from ragstone.settings.schema import (
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
from ragstone.settings.sources import (
    LoadedSettings,
    Setting,
    allowed_values,
    effective,
    load_settings,
    preset_values,
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
