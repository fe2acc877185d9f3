"""Read the shipped network back from its ONNX file, so that a round can start from it.

    python -m training.recover --out training/out/shipped

The weights are those of the int8 file, in the format that `training.distil` starts from.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from training.model import Reading, save_int8
from training.rows import OUT, ROOT

SHIPPED = ROOT / "src/ragstone/models/data/ragstone-reading-l12/model.onnx"
Array = np.ndarray


def list_weights(path: Path) -> dict[str, Array]:
    """Walk the graph in its order and name each weight as the network does."""
    graph = onnx.load(path).graph
    held = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    weights: dict[str, Array] = {}
    evened: Array | None = None  # what `Mul` divided the activations by
    norms, products, linears = 0, 0, 0
    heads = ("read", "verify_pool", "verify", "rank_pool", "rank")
    tables = [one for one in graph.node if one.op_type == "Gather" and one.input[0] in held]
    weights["words.weight"] = held[tables[0].input[0]] * held[tables[1].input[0]]
    for node in graph.node:
        inputs = [held.get(name) for name in node.input]
        if node.op_type == "Slice":
            weights["places.weight"] = inputs[0]
        elif node.op_type == "Gather" and node.input[1] == "token_type_ids":
            weights["types.weight"] = inputs[0]
        elif node.op_type == "LayerNormalization":
            layer, second = divmod(norms - 1, 2)
            name = "norm" if norms == 0 else f"layers.{layer}.norm{second + 1}"
            weights[f"{name}.weight"], weights[f"{name}.bias"] = inputs[1], inputs[2]
            norms += 1
        elif node.op_type == "Mul" and inputs[1] is not None and inputs[1].ndim == 1:
            evened = inputs[1]
        elif node.op_type == "QAttention":
            name = f"layers.{products // 3}.qkv"
            weights[f"{name}.weight"] = (inputs[1] * inputs[4] * evened[:, None]).T
            weights[f"{name}.bias"], evened = inputs[2], None
        elif node.op_type == "MatMulIntegerToFloat":
            name = f"layers.{products // 3}.{('out', 'up', 'down')[products % 3]}"
            matrix = inputs[1] * inputs[3]
            weights[f"{name}.weight"] = (matrix if evened is None else matrix * evened[:, None]).T
            products, evened = products + 1, None
        elif node.op_type == "BiasGelu":
            weights[f"layers.{products // 3}.up.bias"] = inputs[1]
        elif node.op_type == "Sum" and inputs[-1] is not None:
            part = "out" if products % 3 == 1 else "down"
            weights[f"layers.{(products - 1) // 3}.{part}.bias"] = inputs[-1]
        elif node.op_type == "MatMul":
            weights[f"{heads[linears]}.weight"] = inputs[1].T
        elif node.op_type == "Add":
            weights[f"{heads[linears]}.bias"] = inputs[1]
            linears += 1
    return weights


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--model", type=Path, default=SHIPPED)
    parser.add_argument("--out", type=Path, default=OUT / "shipped")
    options = parser.parse_args()
    weights = list_weights(options.model)
    network = Reading(12)
    network.load_state_dict(
        {
            name: torch.from_numpy(np.array(weights[name], np.float32))
            for name in network.state_dict()
        }
    )
    save_int8(network, options.out)
    print(f"{options.out}: {sum(one.numel() for one in network.parameters()):,} weights")


if __name__ == "__main__":
    main()
