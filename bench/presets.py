"""Print a table of the presets: what each switches on, its quality and its cost.

python bench/latency.py --careful MODELS           # writes bench/out/latency.json
python bench/quality.py --careful MODELS           # writes bench/out/quality-report.json
python bench/presets.py                            # reads both, prints the table
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ragstone.settings import Settings, load_settings

OUT = Path(__file__).parent / "out"
PRESETS = ("minimal", "classic", "balanced", "careful")


def describe_preset(settings: Settings) -> dict[str, str]:
    """Describe the settings in which the presets differ."""
    understand, retrieve, refine = settings.understand, settings.retrieve, settings.refine
    fusion = f"RRF {retrieve.rrf_k}" if retrieve.fusion == "rrf" else retrieve.fusion
    weighted = refine.reranker_enabled and refine.reranker == "cross_encoder"
    reranker = f"{refine.reranker}, weight {refine.rerank_weight}" if weighted else "off"
    expansions = {"off": "off", "complex": "complex questions", "always": "all"}
    return {
        "intent router": "on" if understand.intent_enabled else "off",
        "expansions by a model": expansions[understand.expand],
        "hypothetical answer": "on" if understand.hyde else "off",
        "fusion": fusion,
        "candidates of each search": str(retrieve.candidates),
        "similarity filter": f"{refine.min_similarity:g}" if refine.min_similarity else "off",
        "reranker over the first 20": reranker,
        "near-duplicates": (
            f"dropped at {refine.duplicate_similarity:g}"
            if refine.duplicate_similarity < 1
            else "kept"
        ),
        "λ of MMR": f"{refine.mmr_lambda:g}",
    }


def read_results(name: str) -> dict[str, Any]:
    file = OUT / name
    return json.loads(file.read_text("utf-8")) if file.is_file() else {}


def render_table() -> str:
    quality, latency = read_results("quality-report.json"), read_results("latency.json")
    columns = {}
    for preset in PRESETS:
        rows = describe_preset(load_settings(flags={"preset": preset}, environ={}).settings)
        for metric in ("ndcg@10", "recall@10", "mrr@10"):
            value = quality.get(preset, {}).get(metric)
            rows[f"{metric}, mean of the sets"] = "–" if value is None else f"{value:.4f}"
        cost = latency.get(preset)
        rows["CPU ms of a search at 200,000 chunks, median / p95"] = (
            "–" if cost is None else f"{cost['p50']:.0f} / {cost['p95']:.0f}"
        )
        columns[preset] = rows
    lines = [f"| | {' | '.join(PRESETS)} |", "|---" * (len(PRESETS) + 1) + "|"]
    lines += [
        f"| {row} | {' | '.join(columns[preset][row] for preset in PRESETS)} |"
        for row in columns["minimal"]
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(render_table())
