"""Compare the grades of two readings by eye with those of the rules.

    python bench/grades.py

Reads `bench/packs/answers_grades.jsonl`: for every answer of the report half of
`bench/packs/answers.jsonl` the grade of the rules (`bench/answers.py`), of a first reading in the
order of the pack, and of a second reading in shuffled order.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

GRADES = Path(__file__).parent / "packs/answers_grades.jsonl"
READERS = ("rule", "first", "second")


def measure_agreement(pairs: list[tuple[str, str]]) -> tuple[float, float]:
    """Return the share of equal grades, and Cohen's kappa."""
    observed = sum(a == b for a, b in pairs) / len(pairs)
    left, right = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    expected = sum(left[grade] * right[grade] for grade in left) / len(pairs) ** 2
    return observed, (observed - expected) / (1 - expected)


def main() -> None:
    rows = [json.loads(line) for line in GRADES.read_text("utf-8").splitlines()]
    for title, mine in (
        ("answerable", [row for row in rows if row["answerable"]]),
        ("not answerable", [row for row in rows if not row["answerable"]]),
    ):
        print(f"{title}: {len(mine)}")
        for reader in READERS:
            counts = Counter(row[reader] for row in mine)
            shares = ", ".join(
                f"{grade} {counts[grade]} ({counts[grade] / len(mine):.1%})"
                for grade in ("right", "partly", "wrong", "abstained")
            )
            print(f"  {reader:7}{shares}")
    given = [row for row in rows if row["answerable"] and row["rule"] != "abstained"]
    for a, b in itertools.combinations(READERS, 2):
        same, kappa = measure_agreement([(row[a], row[b]) for row in given])
        print(f"{a} and {b}: {same:.1%} of {len(given)} given answers alike, kappa {kappa:.2f}")
    for row in given:
        if len({row[reader] for reader in READERS}) > 1:
            print(f"  {row['id']}: " + ", ".join(f"{reader} {row[reader]}" for reader in READERS))


if __name__ == "__main__":
    main()
