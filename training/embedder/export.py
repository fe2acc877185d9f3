"""Write weights as one int8 ONNX file, by the scheme of scripts/build_embedder.py.

Weights under BERT's names → model.onnx with pooling and L2 norm in the graph, tokenizer.json,
golden.json (texts with their vectors) and card.json.

    python -m training.embedder.export student-1.npz student-2.npz --out training/out/embedder

Several files are averaged, which serves students that began at the same start.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .cut import TOKENIZER, open_tokenizer
from .weights import Array, Weights, check_complete, count_layers

ROOT = Path(__file__).parents[2]
Ranges = dict[tuple[int, str], tuple[Array, Array]]
NAME, VERSION = "ragstone-embed-l6", "1"
# Token counts of the walks that the activations' ranges are taken from; the last fills the table.
WALKS = (4, 8, 16, 32, 64, 126, 126, 254, 254, 510)


def load_builder(layers: int) -> ModuleType:
    """Load scripts/build_embedder.py as a module of its own for this many layers."""
    name = f"build_embedder_{layers}"
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts/build_embedder.py")
    if spec is None or spec.loader is None:
        raise ImportError("scripts/build_embedder.py cannot be loaded.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    module.LAYERS = layers
    return module


def observe_ranges(builder: ModuleType, weights: Weights) -> Ranges:
    """Record how far each channel swings over walks through the vocabulary, up to 512 tokens."""
    ranges: Ranges = {}

    def widen(site: tuple[int, str], x: Array) -> None:
        least, greatest = ranges.get(site, (x[0], x[0]))
        ranges[site] = np.minimum(least, x.min(0)), np.maximum(greatest, x.max(0))

    first, count = builder.FIRST_WORD, builder.VOCABULARY - builder.FIRST_WORD
    for number, length in enumerate(WALKS):
        walk = (97 * number + 7919 * np.arange(length)) % count + first
        builder.embed_with_numpy(weights, [builder.CLS, *walk.tolist(), builder.SEP], widen)
    return ranges


def build_models(weights: Weights, pooling: str = "mean") -> tuple[bytes, bytes]:
    """Build the fp32 graph and the int8 one."""
    builder = load_builder(count_layers(weights))
    ranges = observe_ranges(builder, weights)
    pair = builder.build_model(weights, None), builder.build_model(weights, ranges)
    return pair if pooling == "mean" else (first_token(pair[0]), first_token(pair[1]))


def first_token(model: bytes) -> bytes:
    """Exchange mean pooling for the first token's vector, which is what bge-small uses."""
    proto = onnx.load_from_string(model)
    graph = proto.graph
    squeeze = next(node for node in graph.node if node.op_type == "Squeeze")
    product = next(node for node in graph.node if node.output[0] == squeeze.input[0])
    graph.initializer.append(numpy_helper.from_array(np.array(0, np.int64), "first"))
    at = list(graph.node).index(squeeze)
    graph.node.insert(
        at, helper.make_node("Gather", [product.input[1], "first"], list(squeeze.output), axis=1)
    )
    graph.node.remove(squeeze)
    graph.node.remove(product)
    return bytes(proto.SerializeToString(deterministic=True))


def rename(model: bytes) -> bytes:
    """Give the graph the student's own name and origin."""
    proto = onnx.load_from_string(model)
    proto.graph.name = f"{NAME}-v{VERSION}"
    proto.doc_string = (
        "six layers, begun at all-MiniLM-L6-v2 (Apache-2.0), "
        "distilled from gte-small and bge-small-en-v1.5 (MIT), quantised"
    )
    return bytes(proto.SerializeToString(deterministic=True))


def read_students(paths: Sequence[Path]) -> Weights:
    """Read the weights of one student, or the mean of several."""
    students = [np.load(path) for path in paths]
    weights = {
        name: np.mean([one[name].astype(np.float32) for one in students], axis=0)
        for name in students[0].files
    }
    check_complete(weights)
    return weights


def write_golden(builder: ModuleType, int8: bytes, path: Path) -> None:
    """Write texts with the vectors that every later build must give (cosine 0.999)."""
    tokenizer, session = open_tokenizer(), builder.open_model(int8)
    texts = [*builder.SENTENCES[::3], builder.PASSAGES[0]]
    vectors = [builder.run(session, [tokenizer.encode(text).ids])[0] for text in texts]
    rows = [
        {"text": text, "vector": [round(float(value), 5) for value in vector]}
        for text, vector in zip(texts, vectors, strict=True)
    ]
    path.write_text(json.dumps(rows, ensure_ascii=False), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("students", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=ROOT / "training/out/embedder")
    parser.add_argument("--texts", type=Path, help="texts to compare with, one per line")
    options = parser.parse_args()
    weights = read_students(options.students)
    builder = load_builder(count_layers(weights))
    fp32, int8 = (rename(model) for model in build_models(weights))
    lines: list[str] = [*builder.SENTENCES, *builder.PASSAGES]
    if options.texts:
        lines = [line for line in options.texts.read_text("utf-8").splitlines() if line.strip()]
    tokenizer = open_tokenizer()
    builder.check(weights, fp32, int8, [tokenizer.encode(line).ids[:512] for line in lines])
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "model.onnx").write_bytes(int8)
    (options.out / "tokenizer.json").write_bytes(TOKENIZER.read_bytes())
    write_golden(builder, int8, options.out / "golden.json")
    card = {
        "name": NAME, "version": VERSION, "layers": count_layers(weights), "dimension": 384,
        "max_tokens": 512, "students": [path.name for path in options.students],
        "sha256": hashlib.sha256(int8).hexdigest(), "bytes": len(int8),
    }  # fmt: skip
    (options.out / "card.json").write_text(json.dumps(card, indent=2))
    print(json.dumps(card))


if __name__ == "__main__":
    main()
