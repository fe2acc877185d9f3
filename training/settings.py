"""Read the settings file of a step; open the tokenizer; write packed rows."""

from __future__ import annotations

import argparse
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from training.pack import Packer
from training.rows import DATA, OUT, ROOT


@dataclass(frozen=True)
class VerifierSettings:
    """Say which rows the verify head learns from."""

    sets: dict[str, int]
    passage_sets: dict[str, int]
    per_passage: int = 2
    facts: int = 40_000
    written: int = 4
    open: int = 30_000
    twice: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReaderSettings:
    """Say which rows the read and rank heads learn from."""

    sets: dict[str, int]
    rank_sets: dict[str, int]
    near: int = 2
    unlabelled: int = 4
    written: int = 6
    share: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """Hold what a data step needs to know."""

    seed: int
    data: Path
    out: Path
    tokenizer: Path
    reader: ReaderSettings
    verifier: VerifierSettings
    limit: int = 0


def read_toml(path: Path) -> dict[str, Any]:
    """Read a settings file."""
    return tomllib.loads(path.read_text("utf-8"))


def load_settings(doc: str | None) -> Settings:
    """Read the settings file named on the command line."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n", 1)[0])
    parser.add_argument("--settings", type=Path, default=ROOT / "training/settings/data.toml")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=OUT / "rows")
    parser.add_argument("--tokenizer", type=Path, default=OUT / "base/tokenizer.json")
    options = parser.parse_args()
    raw = read_toml(options.settings)
    return Settings(
        seed=raw["seed"],
        data=options.data,
        out=options.out,
        tokenizer=options.tokenizer,
        reader=ReaderSettings(**raw["reader"]),
        verifier=VerifierSettings(**raw["verifier"]),
    )


def open_tokenizer(settings: Settings) -> Tokenizer:
    """Open the tokenizer without its own padding and truncation."""
    tokenizer = Tokenizer.from_file(str(settings.tokenizer))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def write_pack(packer: Packer, settings: Settings, name: str) -> None:
    """Write packed rows and print their size."""
    path = settings.out / f"{name}.xz"
    packer.write(path)
    size = path.stat().st_size
    print(f"{path.name}: {len(packer.rows):,} rows, {len(packer.known):,} texts, {size:,} bytes")
