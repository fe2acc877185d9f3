"""Read the rows written by hand and make training rows of them: claims, questions, variants.

    python -m training.written     # → out/rows/written.xz

`training/written/claims.jsonl.gz`: a text with claims that it supports, claims with one thing
changed, and one that it does not decide. `training/written/reads.jsonl.gz`: a passage of
documentation with questions it answers (and the span) and questions it does not. The last third of
one part of each is held back for development: `is_kept_for_development`.
"""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import Stemmer

from training.exchanges import change_sentence, paraphrase_sentence
from training.pack import CONTRADICTED, NEUTRAL, NOT_SUPPORTED, SUPPORTED, VERIFY, Packer
from training.rows import STOP_WORDS, plain, split_sentences, squeeze
from training.settings import load_settings, open_tokenizer, write_pack

FOLDER = Path(__file__).parent / "written"
# Part → first number of the texts kept for development.
HELD_BACK = {
    "c2": 100, "c6": 60, "c14": 80, "c15": 70, "c24": 100, "c31": 80, "c41": 371, "c43": 331,
    "r1": 73, "r5": 58, "r30": 80, "r40": 261, "r50": 185, "r51": 155, "r52": 165,
    "r60": 151, "r61": 151, "r62": 151, "r63": 151, "r64": 151,
}  # fmt: skip
_STEMMER = Stemmer.Stemmer("english")
# Rules that turn a true claim into a false one nearly always; "only" and "modality" do not.
SAFE_CHANGES = frozenset(
    {"names exchanged", "numbers exchanged", "number", "negation", "quantifier", "time order",
     "comparative", "antonym", "unit", "month", "weekday", "number word", "another name"}
)  # fmt: skip


def is_kept_for_development(number: str) -> bool:
    """Tell whether a text is kept out of training: `c2-120` is, `c2-007` is not."""
    part, place = number.split("-")
    return part in HELD_BACK and int(place) >= HELD_BACK[part]


def read_written(name: str, *, development: bool = False) -> list[dict[str, Any]]:
    """Read `claims` or `reads`: the rows to train on, or those kept for development."""
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row for row in rows if is_kept_for_development(row["id"]) == development]


def list_stems(text: str) -> set[str]:
    """Return the stems of the words that carry meaning."""
    return set(_STEMMER.stemWords([w for w in plain(text).split() if w not in STOP_WORDS]))


def cut_evidence(claim: str, sentences: list[str]) -> list[str]:
    """Return the shortest run of sentences that shares as many words with the claim as all do.

    The same rule serves true and changed claims, so the length of the evidence tells nothing.
    A claim that shares few words with the text keeps all of it.
    """
    wanted = list_stems(claim)
    found = [wanted & list_stems(sentence) for sentence in sentences]
    all_of_it = set().union(*found) if found else set()
    if len(all_of_it) < 0.4 * len(wanted) or len(sentences) < 2:
        return sentences
    for width in range(1, len(sentences)):
        for at in range(len(sentences) - width + 1):
            if set().union(*found[at : at + width]) == all_of_it:
                return sentences[at : at + width]
    return sentences


@dataclass
class WrittenClaims:
    """Hold one text with its claims."""

    sentences: list[str]
    claims: list[tuple[str, int, str]]

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> WrittenClaims:
        """Take a row of `claims.jsonl.gz`."""
        claims = [(squeeze(one), SUPPORTED, "supported") for one in row["supported"]]
        claims += [(squeeze(one), CONTRADICTED, kind) for kind, one in row["changed"]]
        claims += [(squeeze(one), NEUTRAL, "neutral") for one in row["neutral"]]
        return cls(split_sentences(squeeze(row["text"]))[:12], claims)


def format_sentences(sentences: list[str], rng: random.Random) -> list[str]:
    """Write evidence as Markdown: a heading, a list, quotes."""
    kind = rng.randrange(3)
    if kind == 0:
        return [f"- {one}" for one in sentences]
    if kind == 1:
        return ["## " + " ".join(sentences[0].split()[:4]), *sentences]
    return [f"> {one}" for one in sentences]


def vary_claim(claim: str, rng: random.Random) -> str:
    """Say a claim in other words by one rule, in some cases."""
    return paraphrase_sentence(claim, rng, steps=1) if rng.random() < 0.25 else claim


def add_written_claims(rows: Any, repeats: int) -> None:
    """Add every claim `repeats` times: whole text, evidence cut, distractors, joined, changed."""
    rng: random.Random = rows.rng
    texts = [WrittenClaims.from_row(row) for row in read_written("claims")]
    others = [one for text in texts for one in text.sentences if 25 < len(one) < 320]
    for turn in range(repeats):
        for text in texts:
            for claim, known, kind in text.claims:
                evidence, label = text.sentences, known
                if turn and rng.random() < 0.5:
                    evidence = cut_evidence(claim, evidence)
                    label = NOT_SUPPORTED if known != SUPPORTED else known
                if turn and rng.random() < 0.15:
                    evidence = format_sentences(evidence, rng)
                rows.add(vary_claim(claim, rng), evidence, label, f"written {kind}", near=others)
            add_joined_and_changed(rows, text, others)
            stranger = rng.choice(rng.choice(texts).claims)[0]
            if stranger not in {claim for claim, _, _ in text.claims}:
                rows.add(stranger, text.sentences, NEUTRAL, "written, another text", near=others)


def add_joined_and_changed(rows: Any, text: WrittenClaims, others: list[str]) -> None:
    """Add two claims in one, and true claims changed by rule."""
    from training.verifier import join_claims

    rng: random.Random = rows.rng
    true = [claim for claim, label, _ in text.claims if label == SUPPORTED]
    false = [claim for claim, label, _ in text.claims if label != SUPPORTED]
    if len(true) < 2 or not false:
        return
    first, second = rng.sample(true, 2)
    rows.add(join_claims(first, second), text.sentences, SUPPORTED, "written, two", near=others)
    pair = [first, rng.choice(false)]
    rng.shuffle(pair)
    rows.add(join_claims(*pair), text.sentences, NOT_SUPPORTED, "written, two, one false")
    for claim in rng.sample(true, 2):
        for kind, changed in change_sentence(claim, rng, [], most=2):
            if kind in SAFE_CHANGES:
                rows.add(changed, text.sentences, NOT_SUPPORTED, "written, rule", near=others)
                break


def add_single_sentences(rows: Any) -> None:
    """Add each claim with single sentences of its text, which only the teacher judges."""
    for row in read_written("claims"):
        text = WrittenClaims.from_row(row)
        for claim, _, _ in text.claims:
            for at in range(min(len(text.sentences), 5)):
                rows.packer.add_row(VERIFY, claim, text.sentences[at : at + 1], label=-1)


def main() -> None:
    from training.reader import ReadRows
    from training.verifier import VerifyRows, list_distractors, read_passages
    from training.written_reads import add_written_reads

    settings = load_settings(__doc__)
    rng = random.Random(settings.seed + 2)
    packer = Packer(open_tokenizer(settings))
    reads = ReadRows(packer, rng, settings.reader.share)
    add_written_reads(reads, settings.reader.written)
    claims = VerifyRows(packer, rng, list_distractors(read_passages(settings)))
    add_written_claims(claims, settings.verifier.written)
    add_single_sentences(claims)
    for kind, count in sorted((reads.counts + claims.counts).items()):
        print(f"{count:>8} {kind}")
    write_pack(packer, settings, "written")


if __name__ == "__main__":
    main()
