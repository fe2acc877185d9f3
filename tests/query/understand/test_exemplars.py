"""Test the cached vectors of the exemplars: a damaged file is made again and never used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragstone.protocols import Vectors
from ragstone.query.understand import intent
from ragstone.query.understand.intent import load_exemplars
from ragstone.testing import HashEmbedder


@pytest.mark.parametrize("byte", [1, 5_000, -1], ids=str)
def test_a_damaged_cache_is_made_again(
    tmp_path: Path, byte: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load() -> Vectors:
        monkeypatch.setattr(intent, "_vectors_by_stamp", {})  # as a new process
        return load_exemplars(HashEmbedder(), own_file=None, cache=tmp_path).vectors

    vectors = load()
    (file,) = tmp_path.iterdir()
    sound = file.read_bytes()
    content = bytearray(sound)
    content[byte] ^= 16
    file.write_bytes(content)
    assert np.array_equal(load(), vectors)
    assert file.read_bytes() == sound
