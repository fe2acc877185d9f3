"""Average the weights of networks that were trained one from the other.

    python -m training.average FOLDER FOLDER --out training/out/student

A folder named twice counts twice.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from training.model import Reading, load_int8, save_int8


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
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    networks = [load_int8(folder, options.layers) for folder in options.folders]
    save_int8(average_networks(networks), options.out)


if __name__ == "__main__":
    main()
