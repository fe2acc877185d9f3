"""Print figures on the hand-written rows kept for development; thresholds are fitted here.

PYTHONPATH=.:src python -m training.develop --model training/out/reading/model.onnx
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np

from training.evaluate import area, overlap
from training.predict import Predictor
from training.rows import OUT, squeeze
from training.written import read_written
from training.written_reads import read_pool, search_pool


def develop_claims(predictor: Predictor, refused: float = 0.08) -> list[str]:
    """Fit the verify head's threshold: at most `refused` of the true claims fall below it."""
    rows = [
        (claim, squeeze(row["text"]), kind)
        for row in read_written("claims", development=True)
        for kind, claim in [
            *(("supported", one) for one in row["supported"]),
            *row["changed"],
            *(("neutral", one) for one in row["neutral"]),
        ]
    ]
    found = predictor.predict([(claim, text) for claim, text, _ in rows])
    scores: dict[str, list[float]] = defaultdict(list)
    for (_, _, kind), one in zip(rows, found, strict=True):
        scores[kind].append(one.supported)
    true = np.array(scores.pop("supported"))
    neutral = np.array(scores.pop("neutral"))
    changed = np.concatenate([np.array(v) for v in scores.values()])
    bar = float(np.quantile(true, refused))
    return [
        f"true {len(true)}, changed {len(changed)}: AUROC {area(true, changed):.3f}, neutral "
        f"{area(true, neutral):.3f}; threshold {bar:.4f}: true refused {(true < bar).mean():.3f}, "
        f"changed caught {(changed < bar).mean():.3f}, neutral {(neutral < bar).mean():.3f}; at "
        f"one half: refused {(true < 0.5).mean():.3f}, caught {(changed < 0.5).mean():.3f}",
        " ".join(
            f"{kind} {len(v)}: {area(true, np.array(v)):.2f}" for kind, v in sorted(scores.items())
        ),
    ]


def develop_reads(predictor: Predictor) -> list[str]:
    """Read documentation: spans, answered against not answered, near passages."""
    rows = read_written("reads", development=True)
    asked = [(squeeze(r["text"]), q, squeeze(a)) for r in rows for q, a in r["answered"]]
    none = [(squeeze(r["text"]), q) for r in rows for q in r["unanswered"]]
    yes = predictor.predict([(q, text) for text, q, _ in asked])
    no = predictor.predict([(q, text) for text, q in none])
    f1 = [
        overlap(text[one.start : one.end], a) for (text, _, a), one in zip(asked, yes, strict=True)
    ]
    pool = read_pool()
    ranked = search_pool(pool, [q for _, q, _ in asked], 5)
    pairs = [(q, pool[i]["text"]) for (_, q, _), found in zip(asked, ranked, strict=True)
             for i in found]  # fmt: skip
    other = predictor.predict(pairs)
    lines = [f"answered {len(yes)}, not {len(no)}: F1 {np.mean(f1):.3f}"]
    for name in ("read", "any_span"):
        a, b = ([getattr(one, name) for one in found] for found in (yes, no))
        near = [getattr(one, name) for one in other]
        best = [max(near[i : i + 5]) for i in range(0, len(near), 5)]
        both = [max(x, y) for x, y in zip(a, [max(near[i : i + 4]) for i in range(0, len(near), 5)],
                                          strict=True)]  # fmt: skip
        lines.append(
            f"{name}: AUROC own passage {area(a, b):.3f}, answered in five / in none "
            f"{area(both, best):.3f}"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--model", type=Path, default=OUT / "reading/model.onnx")
    parser.add_argument("--tokenizer", type=Path, default=OUT / "base/tokenizer.json")
    options = parser.parse_args()
    predictor = Predictor(options.model, options.tokenizer)
    print(*develop_claims(predictor), *develop_reads(predictor), sep="\n")


if __name__ == "__main__":
    main()
