"""Average the weights of networks that were trained one from the other.

    python -m training.average FOLDER FOLDER --layers 6 --out training/out/student

A folder holds `weights.*` (a student) or `int8.*` (a teacher). A teacher is written as weights.pt,
the file that `training.distil` reads.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from training.model import Reading, load_half, load_int8, save_half


def average_networks(networks: list[Reading]) -> Reading:
    """Return a network with the mean of all weights."""
    states = [network.state_dict() for network in networks]
    mean = Reading(len(networks[0].layers))
    mean.load_state_dict(
        {name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]}
    )
    return mean


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    is_teacher = any(options.folders[0].glob("int8.*"))
    load = load_int8 if is_teacher else load_half
    mean = average_networks([load(folder, options.layers) for folder in options.folders])
    options.out.mkdir(parents=True, exist_ok=True)
    if is_teacher:
        torch.save(mean.state_dict(), options.out / "weights.pt")
    else:
        save_half(mean, options.out)


if __name__ == "__main__":
    main()
