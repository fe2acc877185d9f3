"""Make the rows of the verify head: claim, evidence → supported, contradicted, neutral.

    python -m training.verifier --settings training/settings/data.toml

Judged rows of the t2 sets; made-up claims from real sentences (changed, paraphrased, joined, or
with their sentence taken away); made-up facts of `templates`. Evidence has one to six sentences.
"""

from __future__ import annotations

import random
from collections import Counter

import bm25s
import Stemmer

from training.exchanges import change_sentence, find_names, paraphrase_sentence
from training.pack import (
    CONTRADICTED,
    NEUTRAL,
    NOT_SUPPORTED,
    SUPPORTED,
    VERIFY,
    Packer,
)
from training.rows import digest, read_set, sample_rows, split_sentences, squeeze
from training.settings import Settings, load_settings, open_tokenizer, write_pack
from training.templates import make_fact

LABELS = {
    "supported": SUPPORTED, "contradicted": CONTRADICTED, "neutral": NEUTRAL,
    "not_supported": NOT_SUPPORTED,
}  # fmt: skip
FULL_FRAMES = frozenset(
    {"roles", "cause", "time order", "modality", "quantifier", "comparative", "negation", "number"}
)


class VerifyRows:
    """Collect verify rows with distractor sentences around the evidence."""

    def __init__(self, packer: Packer, rng: random.Random, distractors: list[str]) -> None:
        self.packer, self.rng, self.distractors = packer, rng, distractors
        self.counts: Counter[str] = Counter()

    def add(
        self,
        claim: str,
        evidence: list[str],
        label: int,
        kind: str,
        *,
        near: list[str] | None = None,
    ) -> None:
        """Add a row; half of them get one to three sentences before or after the evidence."""
        rng = self.rng
        pieces = list(evidence)
        if rng.random() < 0.5 and len(pieces) < 6:
            pool = near if near and rng.random() < 0.6 else self.distractors
            for _ in range(rng.randint(1, 3)):
                extra = rng.choice(pool)
                if extra not in pieces and extra != claim:
                    pieces.insert(0 if rng.random() < 0.5 else len(pieces), extra)
        self.packer.add_row(VERIFY, claim, pieces, label=label)
        self.counts[f"{kind}: {label}"] += 1


def read_passages(settings: Settings) -> list[list[str]]:
    """Read passages of the t1 sets as sentences, for made-up claims."""
    passages: dict[str, list[str]] = {}
    for name, most in settings.verifier.passage_sets.items():
        texts: dict[str, None] = {}
        for row in read_set(name, settings.data):
            texts[squeeze(row["context"] or row["text"])] = None
        chosen = sorted(texts, key=digest)[:most]
        for text in chosen:
            sentences = [s for s in split_sentences(text) if 25 < len(s) < 320]
            if len(sentences) >= 2:
                passages[text] = sentences[:10]
    return list(passages.values())


def list_distractors(passages: list[list[str]]) -> list[str]:
    """Return sentences to set around evidence."""
    return [s for p in passages for s in p[:2]][:20_000]


def add_judged(rows: VerifyRows, settings: Settings) -> None:
    """Add the judged rows of the t2 sets."""
    for name, most in settings.verifier.sets.items():
        judged = sample_rows(list(read_set(name, settings.data)), most)
        own = [s for row in judged[:3000] for s in split_sentences(squeeze(row["evidence"]))[:2]]
        for row in judged:
            evidence = split_sentences(squeeze(row["evidence"]))[:12]
            if not evidence:
                continue
            claim, label = squeeze(row["claim"]), LABELS[row["label"]]
            rows.add(claim, evidence, label, name, near=own)
            if name in settings.verifier.twice:  # a paraphrase holds in both directions
                turned = name == "t2/paws_wiki"
                first, second = (" ".join(evidence), [claim]) if turned else (claim, evidence)
                rows.add(first, second, label, name, near=own)


def add_from_passages(rows: VerifyRows, passages: list[list[str]], settings: Settings) -> None:
    """Add made-up claims from real sentences."""
    rng = rows.rng
    names = sorted({m[0] for p in passages for s in p for m in find_names(s)[-1:] if m.start() > 0})
    for sentences in passages:
        for at in rng.sample(
            range(len(sentences)), min(len(sentences), settings.verifier.per_passage)
        ):
            sentence = sentences[at]
            around = [s for i, s in enumerate(sentences) if i != at]
            lo = max(0, at - rng.randint(0, 3))
            window = sentences[lo : at + 1 + rng.randint(0, 2)]
            evidence = [sentence] if rng.random() < 0.45 else window
            same = paraphrase_sentence(sentence, rng, steps=rng.randint(1, 3))
            rows.add(same, evidence, SUPPORTED, "paraphrase", near=around)
            for kind, changed in change_sentence(sentence, rng, names, most=2):
                claim = (
                    changed if rng.random() < 0.5 else paraphrase_sentence(changed, rng, steps=1)
                )
                label = (
                    NOT_SUPPORTED
                    if kind in {"only", "roles", "cause", "modality"}
                    else CONTRADICTED
                )
                rows.add(claim, evidence, label, f"changed {kind}", near=around)
            if around and rng.random() < 0.35:
                near = around[: rng.randint(1, 5)]
                rows.add(same, near, NOT_SUPPORTED, "sentence removed")
        if len(sentences) >= 4 and rng.random() < 0.5:
            add_joined(rows, sentences, names)


def join_claims(first: str, second: str) -> str:
    """Set two statements as one claim."""
    plain_start = second[:4] in {"The ", "It i", "In t", "He w"}
    start = second[:1].lower() if plain_start else second[:1]
    return f"{first.rstrip('.')}, and {start}{second[1:]}"


def add_joined(rows: VerifyRows, sentences: list[str], names: list[str]) -> None:
    """Add claims with two facts: both there, one changed, one missing."""
    rng = rows.rng
    i, j = sorted(rng.sample(range(len(sentences)), 2))
    first, second = (paraphrase_sentence(sentences[k], rng, steps=1) for k in (i, j))
    evidence = [s for k, s in enumerate(sentences) if k in {i, j} or rng.random() < 0.4][:7]
    if sentences[i] not in evidence or sentences[j] not in evidence:
        return
    rows.add(join_claims(first, second), evidence, SUPPORTED, "two facts")
    changed = change_sentence(second if rng.random() < 0.5 else first, rng, names, most=1)
    if changed:
        other = changed[0][1]
        pair = (first, other) if rng.random() < 0.5 else (other, second)
        if other not in (first, second):
            pair = (first, other) if other != second and len(set(other) & set(second)) else pair
        rows.add(join_claims(*pair), evidence, NOT_SUPPORTED, "two facts, one changed")
    missing = [s for s in evidence if s != sentences[j]]
    if missing:
        rows.add(join_claims(first, second), missing, NOT_SUPPORTED, "two facts, one missing")


def add_facts(rows: VerifyRows, count: int) -> None:
    """Add made-up facts: paraphrases and changes in number, alone and two at a time."""
    rng = rows.rng
    for _ in range(count):
        fact, other = make_fact(rng), make_fact(rng)
        full = len(fact.same) if fact.kind in FULL_FRAMES else 2
        evidence = [fact.same[rng.randrange(full)]]
        neighbours = [make_fact(rng).same[0] for _ in range(rng.choice((0, 0, 1, 2, 3)))]
        if rng.random() < 0.35:
            evidence += neighbours
            rng.shuffle(evidence)
        claims = [one for one in fact.same if one not in evidence]
        if claims:
            rows.add(rng.choice(claims), evidence, SUPPORTED, f"fact {fact.kind}")
        claim, label = rng.choice(fact.changed)
        rows.add(claim, evidence, label, f"fact changed {fact.kind}")
        if rng.random() < 0.25:
            both = [*evidence, other.same[0]]
            rng.shuffle(both)
            rows.add(
                join_claims(rng.choice(fact.same), rng.choice(other.same)),
                both,
                SUPPORTED,
                "two made-up facts",
            )
            rows.add(
                join_claims(rng.choice(fact.same), rng.choice(other.changed)[0]),
                both,
                NOT_SUPPORTED,
                "two made-up facts, one changed",
            )
            rows.add(
                join_claims(rng.choice(fact.same), other.same[0]),
                evidence,
                NOT_SUPPORTED,
                "two made-up facts, one missing",
            )
        elif rng.random() < 0.1:
            rows.add(other.same[0], evidence, NEUTRAL, "fact missing")


def add_conclusions(rows: VerifyRows, settings: Settings) -> None:
    """Add abstracts with their own conclusion, a changed one, and one of another abstract."""
    rng = rows.rng
    abstracts: dict[str, list[str]] = {}
    for row in read_set("t1/pubmedqa", settings.data):
        if row["label"] == 1:
            abstracts.setdefault(row["group"], []).append(squeeze(row["text"]))
    pairs = [(texts[0], texts[1]) for texts in abstracts.values() if len(texts) == 2]
    pairs = [(max(pair, key=len), min(pair, key=len)) for pair in pairs]
    endings = [split_sentences(end)[0] for _, end in pairs]
    for (abstract, _), claim in zip(pairs, endings, strict=True):
        evidence = split_sentences(abstract)
        evidence = evidence[-rng.randint(4, 9) :] if rng.random() < 0.5 else evidence
        if not 25 < len(claim) < 320:
            continue
        packer = rows.packer
        packer.add_row(VERIFY, claim, evidence, label=SUPPORTED)
        for kind, changed in change_sentence(claim, rng, [], most=1):
            label = (
                CONTRADICTED if kind in {"antonym", "negation", "comparative"} else NOT_SUPPORTED
            )
            packer.add_row(VERIFY, changed, evidence, label=label)
        packer.add_row(VERIFY, rng.choice(endings), evidence, label=NEUTRAL)
        rows.counts["conclusion"] += 3


def add_open_pairs(rows: VerifyRows, settings: Settings, most: int) -> None:
    """Add pairs that only the teacher judges: claims with the nearest evidence of other rows."""
    for name in ("t2/vitaminc_real", "t2/te_new_protocols", "t2/fever_pairs_dev", "t2/scitail"):
        judged = sample_rows(list(read_set(name, settings.data)), 20_000)
        evidence = list(dict.fromkeys(squeeze(row["evidence"]) for row in judged))
        claims = list(dict.fromkeys(squeeze(row["claim"]) for row in judged))
        chosen = sorted(claims, key=digest)[: most // 8]
        stemmer = Stemmer.Stemmer("english")
        index = bm25s.BM25()
        index.index(
            bm25s.tokenize(evidence, stemmer=stemmer, show_progress=False), show_progress=False
        )
        wanted = bm25s.tokenize(chosen, stemmer=stemmer, show_progress=False)
        found, _ = index.retrieve(wanted, k=4, show_progress=False)
        for claim, near in zip(chosen, found, strict=True):
            for i in near[1:3]:
                rows.packer.add_row(VERIFY, claim, split_sentences(evidence[i])[:8], label=-1)


def main() -> None:
    settings = load_settings(__doc__)
    rng = random.Random(settings.seed + 1)
    packer = Packer(open_tokenizer(settings))
    passages = read_passages(settings)
    rows = VerifyRows(packer, rng, list_distractors(passages))
    add_judged(rows, settings)
    add_conclusions(rows, settings)
    add_from_passages(rows, passages, settings)
    add_facts(rows, settings.verifier.facts)
    add_open_pairs(rows, settings, settings.verifier.open)
    for kind, count in sorted(rows.counts.items()):
        print(f"{count:>8} {kind}")
    write_pack(packer, settings, "verify")


if __name__ == "__main__":
    main()
