"""Read the int8 all-MiniLM-L6-v2 back into floating point, as a start for the student.

model.onnx by scripts/build_embedder.py → weights under BERT's names. It is a quarter of the size
of the published file on the way to a training machine.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .weights import HIDDEN, MATRICES, Array, Weights


def read_built(path: Path) -> Weights:
    """Undo the quantisation: levels × scale, and the evening-out factors taken back."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    stored = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    made = {node.output[0]: node for node in graph.node}

    def factors(levels: str) -> Array:
        """Find what the input was multiplied with before it was quantised."""
        before = made[made[levels].input[0]]
        return stored[before.input[1]] if before.op_type == "Mul" else np.ones(HIDDEN, np.float32)

    weights: Weights = {}
    gathered = [node for node in graph.node if node.op_type == "Gather"]
    table, scales = (stored[node.input[0]] for node in gathered[:2])
    weights["embeddings.word_embeddings.weight"] = table.astype(np.float32) * scales
    position = next(node for node in graph.node if node.op_type == "Slice")
    weights["embeddings.position_embeddings.weight"] = stored[position.input[0]]
    weights["embeddings.token_type_embeddings.weight"] = np.zeros((2, HIDDEN), np.float32)
    layer = -1
    products = 0
    norms: list[tuple[Array, Array]] = []
    for node in graph.node:
        full = f"encoder.layer.{layer}"
        if node.op_type == "QAttention":
            layer, products = layer + 1, 0
            matrix = stored[node.input[1]].astype(np.float32) * stored[node.input[4]]
            matrix = (matrix * factors(node.input[0])[:, None]).T
            full = f"encoder.layer.{layer}"
            parts = zip(
                MATRICES[:3], np.split(matrix, 3), np.split(stored[node.input[2]], 3), strict=True
            )
            for name, part, bias in parts:
                weights[f"{full}.{name}.weight"], weights[f"{full}.{name}.bias"] = part, bias
        elif node.op_type == "MatMulIntegerToFloat":
            matrix = stored[node.input[1]].astype(np.float32) * stored[node.input[3]]
            if products == 1:
                matrix = matrix * factors(node.input[0])[:, None]
            weights[f"{full}.{MATRICES[3 + products]}.weight"] = matrix.T
            products += 1
        elif node.op_type == "BiasGelu":
            weights[f"{full}.intermediate.dense.bias"] = stored[node.input[1]]
        elif node.op_type == "Sum" and node.input[-1] in stored:
            name = "attention.output.dense" if products == 1 else "output.dense"
            weights[f"{full}.{name}.bias"] = stored[node.input[-1]]
        elif node.op_type == "LayerNormalization":
            norms.append((stored[node.input[1]], stored[node.input[2]]))
    names = ["embeddings.LayerNorm"] + [
        f"encoder.layer.{at}.{part}.LayerNorm"
        for at in range(layer + 1)
        for part in ("attention.output", "output")
    ]
    for name, (scale, shift) in zip(names, norms, strict=True):
        weights[f"{name}.weight"], weights[f"{name}.bias"] = scale, shift
    return {name: np.ascontiguousarray(value, np.float32) for name, value in weights.items()}
