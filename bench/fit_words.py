"""Fit how answers are chosen in a script that the embedder does not know, by words alone.

    python bench/fit_words.py --data ../shared/data [--write]

The questions and halves of xquad in German, Spanish and Russian are those of bench/fit_answers.py,
and what the embedder and the rules of single languages say of a sentence is forgotten. So nothing
is fitted on the scripts of `packs/hidden.jsonl`, which bench/hidden.py measures.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np

from fit_answers import (
    CHEAP,
    MEANING,
    ROOT,
    Asked,
    Fitted,
    Row,
    fit_ranking,
    fit_way,
    format_table,
    load_squad,
    print_report,
    read_all,
    search_off_subject,
    search_set,
)
from ragstone.reading.choose import KINDS, OVERALL

WEIGHTS = ROOT / "src/ragstone/reading/words.toml"
# What the embedder gives, directly or by its word vectors, and what rules for a few languages find.
UNKNOWN = (
    "similarity", "alignment", "alignment_least", "offers", "offers_nothing", "offers_in_context",
    "nothing_in_context", "defines", "instructs", "refers", "lead_in", "points_back", *MEANING,
)  # fmt: skip


def forget_language(row: Row) -> Row:
    """Return a row as it is in a script that the embedder does not know."""
    features, cheap = row.features.copy(), row.cheap.copy()
    for name in UNKNOWN:
        features[:, (*CHEAP, *MEANING).index(name)] = 0.0
        if name in CHEAP:
            cheap[:, CHEAP.index(name)] = 0.0
    # Kinds of questions are told by words of a few languages too.
    asked = replace(row.asked, question="")
    return replace(row, asked=asked, by="words", features=features, cheap=cheap)


def choose_bias(fitted: Fitted, threshold: float, most: float) -> float:
    """Return the bias with which at most a share of the hidden ones that fit is answered.

    Questions with their answer and those without weigh the same in the fit, but a wrong answer
    costs a reader more than none.
    """
    hidden = [
        p
        for row, p in zip(fitted.rows, fitted.probability, strict=True)
        if row.asked.fits and row.asked.removed and row.asked.set == "xquad/ru"
    ]
    bar = float(np.quantile(hidden, 1 - most))
    return fitted.bias + float(np.log(threshold / (1 - threshold)) - np.log(bar / (1 - bar)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data")
    parser.add_argument("--threshold", type=float, default=0.35)
    parser.add_argument("--hidden", type=float, default=0.3, help="hidden ones answered at most")
    parser.add_argument("--fresh", action="store_true", help="read all passages again")
    parser.add_argument("--write", action="store_true", help=f"write {WEIGHTS.name}")
    options = parser.parse_args()
    sets = [
        (f"xquad/{one}", load_squad(options.data, f"xquad/{one}", 250))
        for one in ("de", "es", "ru")
    ]
    asked: list[Asked] = []
    for name, (texts, questions) in sets:
        asked += asyncio.run(search_set(name, texts, questions))
    rows = read_all(asked, "rows-words", fresh=options.fresh)
    off: list[Asked] = []
    for at, (name, _) in enumerate(sets):
        other = sets[(at + 1) % len(sets)][1][1]
        off += asyncio.run(search_off_subject(name, [one.question for one in other[:80]]))
    rows += read_all(off, "rows-off-words", fresh=options.fresh)
    rows = [forget_language(row) for row in rows if row.by == "meaning"]
    good = [row for row in rows if row.asked.fits and row.cheap_right.any()]
    cheap = fit_ranking([r.cheap for r in good], [r.cheap_right for r in good], penalty=1e-3)
    fitted = fit_way(rows, MEANING, cheap)
    bias = choose_bias(fitted, options.threshold, options.hidden)
    shifted = fitted.probability / (1 - fitted.probability) * np.exp(bias - fitted.bias)
    print_report(replace(fitted, probability=shifted / (1 + shifted)), options.threshold)
    if options.write:
        names = (*CHEAP, *MEANING, *OVERALL)
        WEIGHTS.write_text(
            "\n".join(
                [
                    "# Written by bench/fit_words.py: do not edit.",
                    format_table("cheap", CHEAP, cheap),
                    format_table("rank", (*CHEAP, *MEANING), fitted.rank),
                    format_table("answer", names, fitted.answer[: -len(KINDS)], bias=bias),
                ]
            ),
            "utf-8",
        )


if __name__ == "__main__":
    main()
