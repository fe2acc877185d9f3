"""Turn the texts into token windows: packed texts → ids in one flat array, with starts and lengths.

python -m training.embedder.cut FOLDER      # reads texts-*.bz2 and tuning.bz2 there
"""

from __future__ import annotations

import argparse
import bz2
import json
import math
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

ROOT = Path(__file__).parents[2]
TOKENIZER = ROOT / "src/ragstone/models/data/ragstone-embed-l6/tokenizer.json"
CLS, SEP = 101, 102
ENDS = frozenset((999, 1012, 1025, 1029))  # ! . ; ?
LONGEST = 510
SHORT = 40  # a text of at most this many tokens is not cut
SHORTEST = 6  # no window has fewer tokens
TOKENS_PER_WINDOW = 60  # of a text, one window more for each of these
MOST_WINDOWS = 8

Ids = npt.NDArray[np.uint16]


def read_packed(path: Path) -> Any:
    return json.loads(bz2.decompress(path.read_bytes()))


def open_tokenizer(path: Path = TOKENIZER) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def encode(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    """Tokenise without the special tokens."""
    rows: list[list[int]] = []
    for begin in range(0, len(texts), 20_000):
        batch = tokenizer.encode_batch_fast(texts[begin : begin + 20_000], add_special_tokens=False)
        rows += [one.ids for one in batch]
    return rows


def cut_windows(row: list[int], number: random.Random) -> list[list[int]]:
    """Take the text whole and a few windows of it, which begin after a sentence where they can."""
    windows = [row[:LONGEST]]
    if len(row) <= SHORT:
        return windows
    begins = [0] + [at + 1 for at, token in enumerate(row[:-SHORTEST]) if token in ENDS]
    for _ in range(min(MOST_WINDOWS, 1 + len(row) // TOKENS_PER_WINDOW)):
        longest = min(len(row), LONGEST)
        size = int(math.exp(number.uniform(math.log(SHORTEST), math.log(longest))))
        begin = number.choice(begins) if number.random() < 0.8 else number.randrange(len(row))
        if number.random() < 0.5:  # end with the sentence
            later = [at for at in begins if at > begin + size // 2]
            size = (later[0] - begin) if later else size
        window = row[begin : begin + min(size, LONGEST)]
        if len(window) >= SHORTEST:
            windows.append(window)
    return windows


def flatten(rows: list[list[int]]) -> tuple[Ids, npt.NDArray[np.int32]]:
    """Join the rows, each between its two special tokens; the lengths count them."""
    lengths = np.array([len(row) + 2 for row in rows], np.int32)
    flat = np.empty(int(lengths.sum()), np.uint16)
    at = 0
    for row in rows:
        flat[at] = CLS
        flat[at + 1 : at + 1 + len(row)] = row
        flat[at + 1 + len(row)] = SEP
        at += len(row) + 2
    return flat, lengths


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    begun = time.time()
    tokenizer = open_tokenizer()
    tuning = read_packed(folder / "tuning.bz2")
    texts = [text for path in sorted(folder.glob("texts-*.bz2")) for text in read_packed(path)]
    texts += [text for one in tuning for text in one["texts"]]
    number = random.Random(0)
    rows = [
        window
        for row in encode(tokenizer, texts)
        if len(row) >= SHORTEST // 2
        for window in cut_windows(row, number)
    ]
    rows = list(dict.fromkeys(map(tuple, rows)))  # type: ignore[arg-type]
    number.shuffle(rows)
    flat, lengths = flatten(rows)
    for one in tuning:
        one["document_ids"] = [row[:LONGEST] for row in encode(tokenizer, one.pop("texts"))]
        one["question_ids"] = [row[:LONGEST] for row in encode(tokenizer, one.pop("questions"))]
    (folder / "tuning.json").write_text(json.dumps(tuning))
    np.savez(folder / "windows.npz", flat=flat, lengths=lengths)
    (folder / "windows.done").touch()
    print(f"{len(texts)} texts, {len(lengths)} windows, {len(flat)} tokens,", end=" ")
    print(f"{time.time() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
