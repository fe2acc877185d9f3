"""Fit the classifier that tells small talk from questions, and write its weights.

    python -m training.small_talk           # figures on rows kept out of the fit
    python -m training.small_talk --write   # then fit on everything, write small_talk.npz

A multinomial logistic regression over hashed pieces of words (`list_pieces`), with an L2 penalty,
fitted by L-BFGS. Each quarter of the rows is scored by a fit to the other three; the bias of
`question` is then moved so that the share `_MAX_TAKEN` of the hard questions, most of them worded
like small talk, lies above the threshold of the product. The last fit takes all rows.
No pack for reporting is read for the fit, nor a question of clapnq; `bench/packs/README.md` says
how many of its lines others have written word for word.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import re
import tarfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from ragstone.query.understand.small_talk import KINDS, compute_features, hash_line
from ragstone.settings import load_settings
from ragstone.text import normalize_words
from training.rows import DATA, ROOT

UNDERSTAND = ROOT / "src/ragstone/query/understand"
PACKS = ROOT / "bench/packs"
WEIGHTS = UNDERSTAND / "small_talk.npz"
_PENALTY = 2e-6
_COLUMNS = 80_000
_MAX_TAKEN = 0.015
_FOLDS = 4

# The kinds of the written lines and packs, and the intents of clinc150, as classes.
_CLASSES = {
    "greeting": "greeting how_are_you wellbeing",
    "gratitude": "gratitude thanks compliment thank_you mixed",
    "farewell": "farewell goodbye wish",
    "help": "help capability what_can_you_do what_can_i_ask_you",
    "acknowledgement": "acknowledgement yes_no affirmation_negation apology wait filler emoji "
    "frustration",
    "chitchat": "chitchat chat identity laughter day question_remark joke who_are_you joke_chat "
    "laughter_filler personal_remark remark meaning_of_life where_are_you_from who_made_you "
    "do_you_have_pets who_do_you_work_for what_is_your_name what_are_your_hobbies are_you_a_bot "
    "tell_joke how_old_are_you test",
}
KIND_OF = {name: kind for kind, names in _CLASSES.items() for name in names.split()}
# Said to a voice assistant: neither a question to documents nor small talk.
_UNCLEAR = frozenset(
    """
    yes no maybe cancel repeat fun_fact flip_coin roll_dice change_ai_name change_user_name
    user_name change_accent change_language change_speed change_volume whisper_mode
    """.split()  # noqa: SIM905  a list of words reads better as text
)
# Asked within a conversation only, where the search decides.
_SECOND = ("followup", "follow_up")
# The questions that decide where the threshold lies.
_HARD = ("hard questions", "pack questions")
# How much the rows of each source count together.
_COUNTS = {
    "talk": 6000, "pack talk": 600, "phrases": 1500, "clinc talk": 600, "joined talk": 700,
    "hard questions": 7200, "second questions": 800, "pack questions": 1500,
    "joined questions": 2000, "clinc tasks": 600,
    "questions": 4000, "headings": 700, "words": 700,
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A text, its class and where it comes from."""

    text: str
    kind: str
    source: str
    language: str = ""


def is_report(text: str) -> bool:
    return int(hashlib.sha256(text.encode()).hexdigest()[0], 16) % 2 == 1


def read_lines(path: Path) -> list[dict[str, str]]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.decode().splitlines()]


def read_written() -> Iterator[Row]:
    """Read what was written for this model, and the packs that are not for reporting."""
    for row in read_lines(ROOT / "training/written/talk.jsonl.gz"):
        is_talk = row["label"] == "smalltalk"
        kind = KIND_OF[row["kind"]] if is_talk else "question"
        asked = "second questions" if row["kind"] in _SECOND else "hard questions"
        yield Row(row["text"], kind, "talk" if is_talk else asked, row["language"])
    for row in read_lines(PACKS / "smalltalk.jsonl"):
        yield Row(row["text"], KIND_OF[row["kind"]], "pack talk", row["language"])
    for row in read_lines(PACKS / "questions_languages.jsonl"):
        if not is_report(row["id"]):
            yield Row(row["question"], "question", "pack questions", row["language"])


def read_shipped() -> Iterator[Row]:
    """Read the phrases and exemplars of the package."""
    for name in ("phrases", "exemplars"):
        tables = tomllib.loads((UNDERSTAND / f"{name}.toml").read_text("utf-8"))
        for intent, by_language in tables.items():
            for language, texts in by_language.items():
                for text in texts if intent != "filler" else ():
                    kind = KIND_OF.get(intent, "question")
                    source = "phrases" if kind != "question" else "hard questions"
                    yield Row(text, kind, source, language)


def read_clinc(data: Path) -> Iterator[Row]:
    """Read small talk and tasks; the half that bench/intent.py reports on is left out."""
    for row in read_lines(data / "smalltalk-vs-question/train.jsonl"):
        digest = hashlib.sha256(row["text"].encode()).digest()
        is_talk = row["label"] == "smalltalk"
        if digest[0] % 2 or row["intent"] in _UNCLEAR or (digest[1] % 4 and not is_talk):
            continue
        kind = KIND_OF[row["intent"]] if is_talk else "question"
        source = "clinc talk" if kind != "question" else "clinc tasks"
        yield Row(row["text"], kind, "questions" if row["label"] == "question" else source, "en")


def read_questions(data: Path) -> Iterator[Row]:
    """Read questions in four languages, as written and as people type them."""
    texts = [(row["text"], code) for code in ("de", "en", "es", "ru")
             for row in read_lines(data / f"xquad/{code}/queries.jsonl")[::2]]  # fmt: skip
    squad = read_lines(data / "train/t1/squad11_train_part.jsonl.gz")
    texts += [(text, "en") for text in sorted({row["question"] for row in squad})[::40]]
    for at, (text, code) in enumerate(texts):
        yield Row(text, "question", "questions", code)
        if at % 2:
            yield Row(text.lower().rstrip("?").lstrip("¿"), "question", "questions", code)


def read_headings(data: Path) -> Iterator[Row]:
    """Read headings of the Kubernetes documentation in 17 languages, and their rarer words."""
    counts: dict[str, Counter[str]] = {}
    words: dict[str, set[str]] = {}
    with tarfile.open(data / "docs-k8s.tar.gz") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.name.endswith(".md") else None
            if stream is None:
                continue
            text, language = stream.read().decode("utf-8", "replace"), member.name.split("/")[1]
            for heading in re.findall(r"(?m)^(?:#{1,4}|title:) +(.+)$", text):
                plain = re.sub(r"\{[{#].*|[`*\"]", "", heading).strip()
                if 0 < len(plain) < 90:
                    counts.setdefault(language, Counter())[plain] += 1
            body = re.sub(r"(?s)^---.*?---|```.*?```|\{\{.*?\}\}|<[^>]*>", " ", text)
            words.setdefault(language, set()).update(re.findall(r"\b[^\W\d_]{4,20}\b", body))
    for language in sorted(counts):
        rng = random.Random(language)
        for heading in rng.sample(sorted(counts[language]), min(200, len(counts[language]))):
            yield Row(heading, "question", "headings", language)
        for word in rng.sample(sorted(words[language]), min(200, len(words[language]))):
            yield Row(word, "question", "words", language)


def join_rows(rows: Sequence[Row]) -> Iterator[Row]:
    """Join small talk with a question of its language: a question. Two lines of talk: talk."""
    rng = random.Random(18)
    talk: dict[str, list[Row]] = {}
    asked: dict[str, list[Row]] = {}
    for row in rows:
        if row.kind == "question" and row.source in ("hard questions", "pack questions"):
            asked.setdefault(row.language, []).append(row)
        elif row.kind in ("greeting", "gratitude", "acknowledgement", "farewell"):
            talk.setdefault(row.language, []).append(row)
    for language in sorted(talk):
        lines = [row for row in talk[language] if len(row.text) < 30]
        for question in asked.get(language, []) * 2:
            first = rng.choice(lines)
            mark = rng.choice((", ", " ", "! ", ". "))
            yield Row(first.text.rstrip(".!?") + mark + question.text, "question",
                      "joined questions", language)  # fmt: skip
        for _ in range(min(80, len(lines))):
            one, other = rng.sample(lines, 2)
            if (one.kind, other.kind) != ("farewell", "greeting"):
                rank = min(one.kind, other.kind, key=KINDS.index)
                text = one.text.rstrip(".!?") + rng.choice((", ", " ", "! ")) + other.text
                yield Row(text, rank, "joined talk", language)


def read_rows(data: Path) -> list[Row]:
    """Read all rows once; what stands in a pack for reporting is left out.

    What was written for this model stays: its writers saw no pack, and people do say the same.
    """
    asked = read_lines(PACKS / "questions_languages.jsonl")
    reported = [row["question"] for row in asked if is_report(row["id"])]
    reported += [row["text"] for row in read_lines(PACKS / "talk_report.jsonl")]
    held_back = {normalize_words(text) for text in reported}
    own = [*read_written(), *read_shipped()]
    said = {normalize_words(row.text) for row in own if row.kind != "question"}
    own = [row for row in own if row.kind != "question" or normalize_words(row.text) not in said]
    others = [*read_clinc(data), *read_questions(data)]
    talk = said | {normalize_words(row.text) for row in others if row.kind != "question"}
    others += [row for row in read_headings(data) if normalize_words(row.text) not in talk]
    rows = [*own, *join_rows(own)]
    rows += [row for row in others if normalize_words(row.text) not in held_back - {()}]
    return list(
        {(row.text, row.kind == "question"): row for row in rows if row.text.strip()}.values()
    )


def build_matrix(texts: Sequence[str]) -> tuple[csr_matrix, NDArray[np.uint32]]:
    """Return the values of each text's features, and the hash of each column."""
    found = [compute_features(text) for text in texts]
    all_hashes = np.concatenate([hashes for hashes, _ in found])
    known, columns = np.unique(all_hashes, return_inverse=True)
    starts = np.cumsum([0, *(len(hashes) for hashes, _ in found)])
    values = np.concatenate([some for _, some in found])
    return csr_matrix((values, columns, starts), shape=(len(texts), len(known))), known


def choose_columns(
    matrix: csr_matrix, target: NDArray[np.int64], weights: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Choose the columns that differ most between small talk and questions, each in two rows."""
    present = matrix.copy()
    present.data = np.ones_like(present.data)
    is_talk = target > 0
    talk = present[is_talk].T @ (weights[is_talk] / weights[is_talk].sum())
    asked = present[~is_talk].T @ (weights[~is_talk] / weights[~is_talk].sum())
    rows = np.asarray(present.sum(axis=0)).ravel()
    score = np.where(rows > 1, (talk - asked) ** 2 / (talk + asked + 1e-12), -1)
    return np.sort(np.argsort(-score, kind="stable")[:_COLUMNS])


def weigh(rows: Sequence[Row]) -> NDArray[np.float64]:
    total = Counter(row.source for row in rows)
    weights = np.array([_COUNTS[row.source] / total[row.source] for row in rows])
    return np.asarray(weights / weights.sum())


def fit(
    matrix: csr_matrix, target: NDArray[np.int64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit weights and biases."""
    classes, width = len(KINDS), matrix.shape[1]
    wanted = np.eye(classes)[target]

    def compute_loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        table = flat.reshape(width + 1, classes)
        logits = matrix @ table[:-1] + table[-1]
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        error = (np.exp(logits) - wanted) * weights[:, None]
        gradient = np.vstack([matrix.T @ error, error.sum(axis=0)])
        gradient[:-1] += 2 * _PENALTY * table[:-1]
        loss = -(weights * logits[np.arange(len(target)), target]).sum()
        return float(loss + _PENALTY * (table[:-1] ** 2).sum()), gradient.ravel()

    begin = np.zeros((width + 1, classes))
    found = minimize(
        compute_loss, begin.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 80}
    )
    table = found.x.reshape(width + 1, classes)
    return table[:-1], table[-1]


def compute_odds(
    matrix: csr_matrix, weights: NDArray[np.float64], bias: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log odds of small talk against a question."""
    logits = matrix @ weights + bias
    return np.asarray(np.logaddexp.reduce(logits[:, 1:], axis=1) - logits[:, 0])


def find_shift(odds: NDArray[np.float64]) -> float:
    """Return what to add to the odds so that few hard questions reach the product's threshold."""
    threshold = load_settings(environ={}).settings.understand.intent_confidence
    return float(np.log(threshold / (1 - threshold)) - np.quantile(odds, 1 - _MAX_TAKEN))


def score_rows(
    matrix: csr_matrix, target: NDArray[np.int64], rows: Sequence[Row]
) -> NDArray[np.float64]:
    """Return the odds of each row by a fit to the rows of the other folds."""
    fold = np.array([hashlib.sha256(row.text.encode()).digest()[2] % _FOLDS for row in rows])
    odds = np.zeros(len(rows))
    for number in range(_FOLDS):
        fitted, others = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        some = [rows[at] for at in fitted]
        odds[others] = compute_odds(
            matrix[others], *fit(matrix[fitted], target[fitted], weigh(some))
        )
    return odds


def print_figures(rows: Sequence[Row], odds: NDArray[np.float64], *, show: bool) -> None:
    threshold = load_settings(environ={}).settings.understand.intent_confidence
    taken = odds >= np.log(threshold / (1 - threshold))
    for source in dict.fromkeys(row.source for row in rows):
        mine = [at for at, row in enumerate(rows) if row.source == source]
        print(f"{source}: {sum(taken[mine])} of {len(mine)} taken for small talk")
    for at in np.argsort(odds) if show else ():
        if taken[at] == (rows[at].kind == "question"):
            print(f"    {odds[at]:6.2f} {rows[at].source}: {rows[at].text}")


def list_lines(rows: Sequence[Row]) -> NDArray[np.uint32]:
    """List the hashes of the small talk that was written line by line."""
    sources = ("talk", "pack talk", "phrases")
    return np.unique([hash_line(row.text) for row in rows
                      if row.source in sources and normalize_words(row.text)])  # fmt: skip


def quantize(weights: NDArray[np.float64]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round each column to 127 steps of its largest weight."""
    scale = np.abs(weights).max(axis=0) / 127
    return np.rint(weights / scale).astype(np.int8), scale.astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--show", action="store_true", help="print the rows that go wrong")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = read_rows(options.data)
    print(f"{len(rows)} rows", flush=True)
    matrix, hashes = build_matrix([row.text for row in rows])
    target = np.array([KINDS.index(row.kind) for row in rows])
    columns = choose_columns(matrix, target, weigh(rows))
    matrix, hashes = matrix[:, columns], hashes[columns]
    odds = score_rows(matrix, target, rows)
    shift = find_shift(odds[[row.source in _HARD for row in rows]])
    print(f"odds moved by {shift:.2f}")
    print_figures(rows, odds + shift, show=options.show)
    if options.write:
        weights, bias = fit(matrix, target, weigh(rows))
        bias[0] -= shift
        small, scale = quantize(weights)
        np.savez_compressed(
            WEIGHTS, hashes=hashes, weights=small, scale=scale, bias=bias.astype(np.float32),
            lines=list_lines(rows),
        )  # fmt: skip
        print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size} bytes")


if __name__ == "__main__":
    main()
