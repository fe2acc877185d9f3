"""Read the rows that the classifier is fitted on, for each of its heads.

Written by hand: `training/written/` (talk, routes, alone, several, instructions) and the packs that
are not for reporting. The rest are questions and text of public sets (`training/manifest.toml`).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragstone.reading.classifier import HEADS
from ragstone.text import normalize_words
from training.rows import ROOT

PACKS = ROOT / "bench/packs"
WRITTEN = ROOT / "training/written"

# The kinds of the written lines and packs, and the intents of clinc150, as labels of the intent.
_LABELS = {
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
LABEL_OF = {name: label for label, names in _LABELS.items() for name in names.split()}
# Said to a voice assistant: neither a question to documents nor small talk.
_UNCLEAR = frozenset(
    """
    yes no maybe cancel repeat fun_fact flip_coin roll_dice change_ai_name change_user_name
    user_name change_accent change_language change_speed change_volume whisper_mode
    """.split()  # noqa: SIM905  a list of words reads better as text
)
_SECOND = ("followup", "follow_up")
_MIXED = ("mixed_greeting", "mixed_remark", "mixed_thanks", "greeting_plus_question")
SHARES: dict[str, dict[str, float]] = {
    "intent": {
        "talk": 7500, "phrases": 1500, "pack talk": 600, "clinc talk": 600, "joined talk": 700,
        "hard questions": 7200, "second questions": 800, "pack questions": 1500,
        "joined questions": 2000, "clinc tasks": 600, "routes": 1000,
        "questions": 4000, "headings": 700, "words": 700,
    },
    "stands_alone": {
        "alone": 3000, "second questions": 2500, "dialogues": 1000, "hard questions": 3000,
        "questions": 3000, "routes": 1500, "headings": 500,
    },
    "route": {
        "routes": 6000, "hard questions": 3000, "pack questions": 1000, "questions": 3000,
        "headings": 1000, "talk": 500, "second questions": 500,
    },
    "questions": {
        "several": 2500, "joined": 3000, "hard questions": 2500, "questions": 2500, "routes": 1500,
    },
    "injection": {
        "instructions": 6000, "near": 2500, "messages": 1000, "text": 10_000, "k8s": 4200,
        "languages": 6000,
    },
}  # fmt: skip
"""How much the rows of each source count together."""


@dataclass(frozen=True)
class Row:
    """A text, its label for one head, and where it comes from."""

    text: str
    label: str
    source: str
    language: str = ""
    is_hard: bool = False
    """It decides, among ordinary rows, where the threshold lies."""
    group: str = ""
    """What a row was made from: rows made from the same one are never on both sides of a fit."""


def is_report(text: str) -> bool:
    return int(hashlib.sha256(text.encode()).hexdigest()[0], 16) % 2 == 1


def read_lines(path: Path) -> list[dict[str, Any]]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.decode().splitlines()]


def read_written(name: str) -> list[dict[str, Any]]:
    return read_lines(WRITTEN / f"{name}.jsonl.gz")


def read_rows(head: str, data: Path) -> list[Row]:
    """Read the rows of a head once each; what stands in a pack for reporting is left out."""
    rows = {row.text: row for row in _READERS[head](data) if row.text.strip()}
    return [row for row in rows.values() if row.source in SHARES[head]]


def read_talk() -> Iterator[Row]:
    """Read the messages written for the intent, and the packs that are not for reporting."""
    for row in read_written("talk"):
        if row["label"] == "smalltalk":
            yield Row(row["text"], LABEL_OF[row["kind"]], "talk", row["language"])
        else:
            asked = "second questions" if row["kind"] in _SECOND else "hard questions"
            is_hard = row["kind"] not in _SECOND
            yield Row(row["text"], "question", asked, row["language"], is_hard)
    for row in read_written("phrases"):
        yield Row(row["text"], row["label"], "phrases", row["language"])
    for row in read_lines(PACKS / "smalltalk.jsonl"):
        yield Row(row["text"], LABEL_OF[row["kind"]], "pack talk", row["language"])
    for row in read_lines(PACKS / "questions_languages.jsonl"):
        if not is_report(row["id"]):
            yield Row(row["question"], "question", "pack questions", row["language"], is_hard=True)


def read_clinc(data: Path) -> Iterator[Row]:
    """Read small talk and tasks; the half that bench/classifier.py reports on is left out."""
    for row in read_lines(data / "smalltalk-vs-question/train.jsonl"):
        digest = hashlib.sha256(row["text"].encode()).digest()
        is_talk = row["label"] == "smalltalk"
        if digest[0] % 2 or row["intent"] in _UNCLEAR or (digest[1] % 4 and not is_talk):
            continue
        label = LABEL_OF[row["intent"]] if is_talk else "question"
        source = "clinc talk" if label != "question" else "clinc tasks"
        yield Row(row["text"], label, "questions" if row["label"] == "question" else source, "en")


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
    for language, text in read_pages(data):
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


def read_pages(data: Path) -> Iterator[tuple[str, str]]:
    """Read the pages of the Kubernetes documentation with their language."""
    with tarfile.open(data / "docs-k8s.tar.gz") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.name.endswith(".md") else None
            if stream is not None:
                yield member.name.split("/")[1], stream.read().decode("utf-8", "replace")


def join_talk(rows: Sequence[Row]) -> Iterator[Row]:
    """Join small talk with a question of its language: a question. Two lines of talk: talk."""
    rng = random.Random(18)
    talk: dict[str, list[Row]] = {}
    asked: dict[str, list[Row]] = {}
    for row in rows:
        if row.source in ("hard questions", "pack questions"):
            asked.setdefault(row.language, []).append(row)
        elif row.label in ("greeting", "gratitude", "acknowledgement", "farewell"):
            talk.setdefault(row.language, []).append(row)
    for language in sorted(talk):
        lines = [row for row in talk[language] if len(row.text) < 30]
        for question in asked.get(language, []) * 2:
            mark = rng.choice((", ", " ", "! ", ". "))
            text = rng.choice(lines).text.rstrip(".!?") + mark + question.text
            yield Row(text, "question", "joined questions", language)
        for _ in range(min(80, len(lines))):
            first, second = rng.sample(lines, 2)
            if (first.label, second.label) != ("farewell", "greeting"):
                label = max(first.label, second.label, key=HEADS["intent"].index)
                text = first.text.rstrip(".!?") + rng.choice((", ", " ", "! ")) + second.text
                yield Row(text, label, "joined talk", language)


def read_intents(data: Path) -> Iterator[Row]:
    reported = [row["question"] for row in read_lines(PACKS / "questions_languages.jsonl")
                if is_report(row["id"])]  # fmt: skip
    reported += [row["text"] for row in read_lines(PACKS / "talk_report.jsonl")]
    held_back = {normalize_words(text) for text in reported} - {()}
    own = list(read_talk())
    said = {normalize_words(row.text) for row in own if row.label != "question"}
    own = [row for row in own if row.label != "question" or normalize_words(row.text) not in said]
    yield from own
    yield from join_talk(own)
    routes = [Row(row["text"], "question", "routes", row["language"])
              for row in read_written("routes")]  # fmt: skip
    for row in (*routes, *read_clinc(data), *read_questions(data), *read_headings(data)):
        words = normalize_words(row.text)
        if words not in held_back and (row.label != "question" or words not in said):
            yield row


def _relabel(rows: Iterator[Row], label: str, *sources: str) -> Iterator[Row]:
    for row in rows:
        if row.source in sources:
            yield Row(row.text, label, row.source, row.language, row.is_hard)


def read_routes(data: Path) -> Iterator[Row]:
    talk = list(read_talk())
    # Some of the questions written for the intent are wishes of these kinds.
    routed = {row["text"] for row in read_written("routes")}
    talk = [row for row in talk if row.text not in routed]
    yield from _relabel(iter(talk), "ask", "hard questions", "pack questions", "second questions",
                        "talk")  # fmt: skip
    yield from _relabel(read_questions(data), "ask", "questions")
    yield from _relabel(read_headings(data), "ask", "headings")
    for row in read_written("routes"):
        yield Row(row["text"], row["label"], "routes", row["language"], is_hard=True)


def read_alone(data: Path) -> Iterator[Row]:
    more = {row["text"] for row in read_written("alone") if row["label"] == "more"}
    for row in read_written("talk"):
        if row["label"] != "question" or row["text"] in more:
            continue
        if row["kind"] in _SECOND:
            yield Row(row["text"], "no", "second questions", row["language"])
        elif row["kind"] not in (*_MIXED, "mixed_thanks"):
            yield Row(row["text"], "yes", "hard questions", row["language"])
    yield from _relabel(read_questions(data), "yes", "questions")
    yield from _relabel(read_headings(data), "yes", "headings")
    for row in read_written("routes"):
        yield Row(row["text"], "yes", "routes", row["language"])
    for row in read_lines(PACKS / "dialogues.jsonl"):
        for turn in row["turns"] if not is_report(row["id"]) else ():
            yield Row(turn["standalone"], "yes", "dialogues", is_hard=True)
            label = "yes" if turn["question"] == turn["standalone"] else "no"
            yield Row(turn["question"], label, "dialogues", is_hard=label == "yes")
    for row in read_written("alone"):
        yield Row(row["text"], row["label"], "alone", row["language"], row["label"] == "yes")


def read_several(data: Path) -> Iterator[Row]:
    """Read messages with one question and with two; two of one language are also joined."""
    single = list(_relabel(read_talk(), "one", "hard questions"))
    single += list(_relabel(read_questions(data), "one", "questions"))
    yield from single
    for row in read_written("routes"):
        yield Row(row["text"], "one", "routes", row["language"])
    rng = random.Random(7)
    by_language: dict[str, list[Row]] = {}
    for row in single:
        if 10 < len(row.text) < 90:
            by_language.setdefault(row.language, []).append(row)
    joints = {"en": "and", "de": "und", "es": "y", "fr": "et", "it": "e", "pt": "e", "nl": "en",
              "ru": "и", "pl": "i", "tr": "ve", "zh": "，"}  # fmt: skip
    for language, word in joints.items():
        known = by_language.get(language, [])
        for _ in range(min(300, len(known) // 2)):
            first, second = (row.text for row in rng.sample(known, 2))
            lower = second[:1].lower() + second[1:]
            text = rng.choice((
                f"{first.rstrip('?')}? {second}", f"{first.rstrip('?')}, {word} {lower}",
                f"{first.rstrip('?')} {word} {lower}", f"{first.rstrip('?')}? {word} {lower}",
            ))  # fmt: skip
            yield Row(text, "two", "joined", language)
    for row in read_written("several"):
        yield Row(row["text"], row["label"], "several", row["language"], is_hard=True)


# The pages of the first three are many. Of languages without instructions, fewer sentences are
# fitted.
_LARGE = ("en", "zh-cn", "ja")
_INSTRUCTED = (*_LARGE, "de", "fr", "es", "it", "pt-br", "nl", "ru", "pl", "uk")
# So often are other words put in the place of the topic of a sentence.
_OTHER_TOPICS = 3


def split_for_reading(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])\s+|[\n。！？]+", text) if part.strip()]


def hide_in_text(rows: Sequence[dict[str, Any]], parts: Sequence[str]) -> Iterator[Row]:
    """Put words of ordinary text beside instructions, and beside sentences near to them.

    Where a row names its topic, other words also take the place of that.
    """
    rng = random.Random(5)
    for row in rows:
        near = row["label"] == "text"
        source = "near" if near else "instructions"
        for _ in range(1 if near else 4):
            words = rng.choice(parts).split()
            begin = rng.randrange(max(1, len(words) - 4))
            some = " ".join(words[begin : begin + rng.randint(3, 9)])
            mark = rng.choice((" ", ", ", ": ", "; ", " - "))
            bare = row["text"].rstrip(".!?。")
            hidden = f"{some}{mark}{bare}" if rng.random() < 0.3 else f"{bare}{mark}{some}"
            yield Row(hidden, row["label"], source, row["language"], group=row["text"])
        for _ in range(_OTHER_TOPICS if row.get("topic") else 0):
            words = re.findall(r"[\w'-]+", rng.choice(parts))
            begin = rng.randrange(max(1, len(words) - 4))
            some = " ".join(words[begin : begin + rng.randint(1, 6)])
            text = row["text"].replace(row["topic"], some, 1)
            yield Row(text, row["label"], source, row["language"], group=row["text"])


def read_sentences(data: Path) -> Iterator[Row]:
    """Read instructions to a model, text that is near to them, and a large amount of other text."""
    for row in read_written("instructions"):
        near = row["label"] == "text"
        yield Row(row["text"], row["label"], "near" if near else "instructions", row["language"])
    for row in _relabel(read_talk(), "text", "hard questions", "pack questions", "talk"):
        yield Row(row.text, "text", "messages", row.language)
    parts = [part[:600] for name in ("pool", "reads") for row in read_written(name)
             for part in split_for_reading(row["text"])]  # fmt: skip
    for part in parts:
        yield Row(part, "text", "text", is_hard=True)
    yield from hide_in_text(read_written("instructions"), parts)
    for number, (language, text) in enumerate(read_pages(data)):
        # Every fourth page is fitted; the others are what false alarms are counted on.
        if number % 4 == 0:
            source = "k8s" if language in _LARGE else "languages"
            for part in split_for_reading(text)[:: 1 if language in _INSTRUCTED else 3]:
                yield Row(part[:600], "text", source, language, is_hard=True)
    for language in ("de", "es", "ru"):
        for row in read_lines(data / f"xquad/{language}/corpus.jsonl"):
            for part in split_for_reading(row["text"]):
                yield Row(part, "text", "languages", language, is_hard=True)


_READERS = {
    "intent": read_intents, "stands_alone": read_alone, "route": read_routes,
    "questions": read_several, "injection": read_sentences,
}  # fmt: skip
