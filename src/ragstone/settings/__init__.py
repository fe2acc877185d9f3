"""Define and read the settings; nothing else reads the environment or ragstone.toml."""

from ragstone.settings.schema import (
    PRESETS,
    GroundSettings,
    IngestSettings,
    JournalSettings,
    MemorySettings,
    RetrieveSettings,
    Settings,
    UnderstandSettings,
)
from ragstone.settings.services import IndexSettings
from ragstone.settings.sources import (
    LoadedSettings,
    Setting,
    allowed_values,
    get_value,
    list_settings,
    load_settings,
    preset_values,
    read_language,
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
    "get_value",
    "list_settings",
    "load_settings",
    "preset_values",
    "read_language",
]
