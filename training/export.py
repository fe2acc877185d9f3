"""Write the trained network as one int8 ONNX file and check it against its fp32 twin.

    python -m training.export --weights training/out/student --out training/out/reading

The scheme is that of scripts/build_embedder.py: weights per column, activations with a fixed scale
where they are normalised and one scale per token elsewhere, so a row's scores do not depend on its
batch. Inputs: input_ids, token_type_ids, attention_mask. Outputs: spans [batch, sequence, 2],
verdict [batch, 3], score [batch].
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime as ort
import torch
from onnx import TensorProto, helper
from tokenizers import Tokenizer

from training.model import Reading, load_int8
from training.rows import OUT, ROOT

OUTPUTS = ("spans", "verdict", "score")
Array = np.ndarray[Any, Any]


def load_builder() -> ModuleType:
    """Load scripts/build_embedder.py for its quantised products."""
    spec = importlib.util.spec_from_file_location(
        "build_embedder", ROOT / "scripts/build_embedder.py"
    )
    if spec is None or spec.loader is None:
        raise ImportError("scripts/build_embedder.py cannot be loaded.")
    module = importlib.util.module_from_spec(spec)
    sys.modules["build_embedder"] = module
    spec.loader.exec_module(module)
    return module


def take_arrays(model: Reading) -> dict[str, Array]:
    """Return the weights as float32 arrays."""
    return {name: value.float().numpy() for name, value in model.state_dict().items()}


def observe_ranges(model: Reading, batches: list[dict[str, Array]]) -> dict[tuple[int, str], Any]:
    """Record how far each channel swings at the inputs with a fixed scale."""
    ranges: dict[tuple[int, str], Any] = {}

    def widen(site: tuple[int, str]) -> Any:
        def hook(_: Any, inputs: tuple[torch.Tensor]) -> None:
            x = inputs[0].detach().float()[current["mask"]].numpy()
            low, high = x.min(0), x.max(0)
            if site in ranges:
                low, high = np.minimum(low, ranges[site][0]), np.maximum(high, ranges[site][1])
            ranges[site] = (low, high)

        return hook

    current: dict[str, torch.Tensor] = {}
    hooks = []
    for number, layer in enumerate(model.layers):
        hooks.append(layer.qkv.register_forward_pre_hook(widen((number, "qkv"))))
        hooks.append(layer.up.register_forward_pre_hook(widen((number, "up"))))
    with torch.inference_mode():
        for batch in batches:
            current["mask"] = torch.from_numpy(batch["attention_mask"]).bool()
            ids, types = (torch.from_numpy(batch[k]) for k in ("input_ids", "token_type_ids"))
            model(ids, types, current["mask"])
    for hook in hooks:
        hook.remove()
    return ranges


def build_graph(w: dict[str, Array], layers: int, builder: ModuleType, ranges: Any) -> bytes:
    """Build the graph: fp32 without `ranges`, int8 with them."""
    graph = builder.Graph()
    products = builder.Int8Products(graph, ranges) if ranges else builder.FloatProducts(graph)
    constant, add = graph.constant, graph.add

    def normalised(name: str, *summands: str) -> str:
        scale, shift = constant(w[f"{name}.weight"]), constant(w[f"{name}.bias"])
        total = add("Sum", *summands)
        return str(add("LayerNormalization", total, scale, shift, axis=-1, epsilon=1e-12))

    mask = add("Cast", "attention_mask", to=TensorProto.INT32)
    zero = constant(np.array([0], np.int64))
    length = add("Shape", "input_ids", start=1, end=2)
    x = products.table(w["words.weight"], "input_ids")
    here = add("Slice", constant(w["places.weight"]), zero, length, zero)
    kind = add("Gather", constant(w["types.weight"]), "token_type_ids")
    x = normalised("norm", x, here, kind)
    for number in range(layers):
        p = f"layers.{number}"
        matrix, bias = w[f"{p}.qkv.weight"].T, w[f"{p}.qkv.bias"]
        y = products.attention((number, "qkv"), x, matrix, bias, mask)
        y = products.product((number, "out"), y, w[f"{p}.out.weight"].T)
        x = normalised(f"{p}.norm1", y, x, constant(w[f"{p}.out.bias"]))
        y = products.product((number, "up"), x, w[f"{p}.up.weight"].T)
        y = add("BiasGelu", y, constant(w[f"{p}.up.bias"]))
        y = products.product((number, "down"), y, w[f"{p}.down.weight"].T)
        x = normalised(f"{p}.norm2", y, x, constant(w[f"{p}.down.bias"]))
    add_heads(graph, w, x)
    return serialise(graph, layers)


def add_heads(graph: Any, w: dict[str, Array], x: str) -> None:
    """Add the three heads in fp32; they cost nothing."""
    constant, add = graph.constant, graph.add

    def linear(name: str, value: str, output: str = "") -> str:
        product = add("MatMul", value, constant(w[f"{name}.weight"].T))
        return str(add("Add", product, constant(w[f"{name}.bias"]), output=output))

    linear("read", x, "spans")
    first = add("Gather", x, constant(np.array(0, np.int64)), axis=1)
    linear("verify", add("Tanh", linear("verify_pool", first)), "verdict")
    score = linear("rank", add("Tanh", linear("rank_pool", first)))
    add("Squeeze", score, constant(np.array([1], np.int64)), output="score")


def serialise(graph: Any, layers: int) -> bytes:
    """Return the model file's bytes."""
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "token_type_ids", "attention_mask")
    ]
    shapes = (["batch", "sequence", 2], ["batch", 3], ["batch"])
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip(OUTPUTS, shapes, strict=True)
    ]
    model = helper.make_model(
        helper.make_graph(graph.nodes, f"reading-l{layers}", inputs, outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)],
        ir_version=9,
        producer_name="ragstone",
        doc_string="Reader, verifier and ranker in one; from ms-marco-MiniLM-L-12-v2, Apache-2.0",
    )
    return bytes(model.SerializeToString(deterministic=True))


def open_session(model: bytes) -> ort.InferenceSession:
    """Open a model on one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def pad_batch(encodings: list[Any]) -> dict[str, Array]:
    """Lay encodings out as arrays."""
    width = max(len(one.ids) for one in encodings)
    batch = {
        name: np.zeros((len(encodings), width), np.int64)
        for name in ("input_ids", "token_type_ids", "attention_mask")
    }
    for row, one in enumerate(encodings):
        size = len(one.ids)
        batch["input_ids"][row, :size] = one.ids
        batch["token_type_ids"][row, :size] = one.type_ids
        batch["attention_mask"][row, :size] = 1
    return batch


GOLDEN = (
    ("how many people live in berlin", "Berlin has 3.5 million inhabitants."),
    ("how many people live in berlin", "New York is famous for its museums."),
    ("When was the treaty signed?", "The treaty was signed in 1648 and ended thirty years of war."),
    ("Who pays the deposit?", "The tenant pays the landlord a deposit before moving in."),
    ("The landlord pays the tenant a deposit.", "The tenant pays the landlord a deposit."),
    ("The landlord gets a deposit from the tenant.", "The tenant pays the landlord a deposit."),
    ("Helmets are optional on the site.", "Everyone on the site must wear a helmet."),
    ("The pump stopped because the pipe burst.", "The pipe burst because the pump stopped."),
    ("At least five members are needed.", "A minimum of 5 members is needed. It rained."),
    ("reset password", "To reset your password, open Settings and choose Security."),
    (
        "what is the capital of Peru",
        "Kubernetes restarts containers that fail their liveness probe.",
    ),
    ("Which port does the server use?", "| name | value |\n| --- | --- |\n| port | 8443 |"),
)


def compute_golden(session: ort.InferenceSession, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """Score fixed pairs: what every build of the runtime must give again."""
    golden = []
    for first, second in GOLDEN:
        encoding = tokenizer.encode(first, second)
        spans, verdict, score = session.run(OUTPUTS, pad_batch([encoding]))
        logits = spans[0] - spans[0].max(0)
        logits = logits - np.log(np.exp(logits).sum(0))
        inside = [i for i, kind in enumerate(encoding.type_ids[:-1]) if kind == 1]
        best = max(
            (
                (logits[a, 0] + logits[b, 1], a, b)
                for a in inside
                for b in inside
                if a <= b < a + 40
            ),
            default=(0.0, 0, 0),
        )
        begin, end = encoding.offsets[best[1]][0], encoding.offsets[best[2]][1]
        golden.append(
            {
                "first": first,
                "second": second,
                "span": [begin, end],
                "text": second[begin:end],
                "read": round(float(best[0] - logits[0].sum()), 3),
                "verdict": [round(float(v), 3) for v in verdict[0]],
                "score": round(float(score[0]), 3),
            }
        )
    return golden


def measure_cost(
    session: ort.InferenceSession, length: int, rows: int = 1, repeats: int = 15
) -> float:
    """Return the least CPU milliseconds of one call."""
    ids = np.tile(np.arange(2000, 2000 + length, dtype=np.int64), (rows, 1))
    types = (np.arange(length) > 12).astype(np.int64) * np.ones_like(ids)
    feed = {"input_ids": ids, "token_type_ids": types, "attention_mask": np.ones_like(ids)}
    spent = []
    for _ in range(repeats):
        begun = time.process_time()
        session.run(OUTPUTS, feed)
        spent.append(time.process_time() - begun)
    return min(spent) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--weights", type=Path, default=OUT / "student")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--tokenizer", type=Path, default=OUT / "base/tokenizer.json")
    parser.add_argument("--rows", type=Path, default=OUT / "rows")
    parser.add_argument("--out", type=Path, default=OUT / "reading")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    builder = load_builder()
    model = load_int8(arguments.weights, arguments.layers).eval()
    tokenizer = Tokenizer.from_file(str(arguments.tokenizer))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    batches = sample_batches(arguments.rows, 24)
    ranges = observe_ranges(model, batches)
    weights = take_arrays(model)
    exact = build_graph(weights, arguments.layers, builder, None)
    small = build_graph(weights, arguments.layers, builder, ranges)
    compare(model, exact, small, batches)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "model.onnx").write_bytes(small)
    (arguments.out / "model-fp32.onnx").write_bytes(exact)
    spec = json.loads(tokenizer.to_str())
    text = json.dumps(spec, ensure_ascii=False, separators=(",", ":"))
    (arguments.out / "tokenizer.json").write_text(text, "utf-8")
    session = open_session(small)
    golden = {
        "pairs": compute_golden(session, tokenizer),
        "sha256": hashlib.sha256(small).hexdigest(),
    }
    (arguments.out / "golden.json").write_text(json.dumps(golden, indent=1), "utf-8")
    for one in golden["pairs"]:
        print(one)
    print(f"model.onnx {len(small):,} bytes, SHA-256 {golden['sha256']}")
    print(
        f"CPU ms, one thread: 220 tokens {measure_cost(session, 220):.1f}, three of them "
        f"{measure_cost(session, 220, 3):.1f}, 60 tokens {measure_cost(session, 60):.1f}"
    )


def sample_batches(folder: Path, size: int) -> list[dict[str, Array]]:
    """Take real rows, some of each task and length, for ranges and checks."""
    from training.pack import Packed

    rng = np.random.default_rng(3)
    batches = []
    for path in sorted(folder.glob("*.xz")):
        packed = Packed.load([path], 320, sample=10 * size)
        for rows in rng.permutation(len(packed.task)).reshape(10, size):
            width = int(packed.length[rows].max())
            batch = {
                name: np.zeros((size, width), np.int64)
                for name in ("input_ids", "token_type_ids", "attention_mask")
            }
            for at, row in enumerate(rows):
                count = packed.length[row]
                batch["input_ids"][at, :count] = packed.ids[packed.begin[row] :][:count]
                batch["token_type_ids"][at, packed.first_length[row] : count] = 1
                batch["attention_mask"][at, :count] = 1
            batches.append(batch)
    return batches


def compare(model: Reading, exact: bytes, small: bytes, batches: list[dict[str, Array]]) -> None:
    """Print how far fp32 is from torch, int8 from fp32, and a row in a batch from the row alone."""
    one, two = open_session(exact), open_session(small)
    far: dict[str, list[float]] = {"fp32 to torch": [], "int8 to fp32": [], "batch to alone": []}
    for batch in batches[::4]:
        ids, types = (torch.from_numpy(batch[k]) for k in ("input_ids", "token_type_ids"))
        mask = torch.from_numpy(batch["attention_mask"]).bool()
        with torch.inference_mode():
            _, verdict, _ = model(ids, types, mask)
        e, s = one.run(OUTPUTS, batch), two.run(OUTPUTS, batch)
        far["fp32 to torch"].append(float(np.abs(e[1] - verdict.numpy()).max()))
        far["int8 to fp32"].append(float(np.abs(e[1] - s[1]).mean()))
        size = int(batch["attention_mask"][0].sum())
        alone = two.run(OUTPUTS, {k: v[:1, :size] for k, v in batch.items()})
        far["batch to alone"].append(float(np.abs(alone[1] - s[1][:1]).max()))
    for what, values in far.items():
        print(f"verdict logits, {what}: {max(values):.5f}")


if __name__ == "__main__":
    main()
