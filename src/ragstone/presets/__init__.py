"""Sets of defaults, one TOML file each, in the shape of ragstone.toml."""
