"""Ask real questions, small talk and second questions, and count what each is taken for.

    python bench/conversations.py [--half dev|report] [--part NAME] [--show] [--examples]
    python bench/conversations.py --detect    # layers 0 and 1 alone, without documents

The packs and their rules are in `bench/packs/README.md`. Questions with a passage are asked of a
collection that holds all passages; those without one, and small talk, of the Kubernetes
documentation, which answers none of them. Each later turn of a dialogue is asked inside its
session, and its standalone form alone. No model writes: the answers are quoted. The documents are
ingested once into bench/cache/conversations.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import statistics
import sys
import tarfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "packs"))

from matching import find_missing  # noqa: E402

from ragstone import Engine  # noqa: E402
from ragstone.errors import InputError  # noqa: E402
from ragstone.query.understand.small_talk import (  # noqa: E402
    classify_small_talk,
    match_small_talk,
)
from ragstone.settings import load_settings  # noqa: E402
from ragstone.types import SMALL_TALK, Answer  # noqa: E402

DATA = HERE.parent.parent / "shared" / "data"
CACHE = HERE / "cache" / "conversations"
PARTS = ("questions", "smalltalk", "clapnq", "dialogues")
K8S_FOLDERS = ("concepts/", "tasks/")
_CLAPNQ_QUESTIONS = 300
_MARKER = re.compile(r"\s*\[Source \d+\]")

# What users met: a first question, or the turns of a conversation, over the samples.
EXAMPLES: tuple[tuple[str, ...], ...] = (
    ("How many people work at the company?",),
    ("Are you hiring?",),
    ("Where are you located?",),
    ("hi",),
    ("ok",),
    ("你好",),
    ("How much is the rent of the ridge?", "And who is the landlord?"),
    ("Who is the landlord of the ridge?", "And what is the rent?"),
    ("What is the focal length of the refractor?", "I meant the Morrow"),
    ("When is the observatory open in summer?", "and in winter?"),
    ("When was the mirror recoated?", "Why?"),
)


@dataclass(frozen=True)
class Turn:
    """One later turn: its reply inside the session, and that of its standalone form."""

    id: str
    kind: str
    question: str
    stands_alone: bool
    right: bool
    standalone_right: bool
    repeats: bool
    searched_as: str
    text: str
    status: str
    standalone_text: str
    first_ms: float
    later_ms: float


def get_half(key: str) -> str:
    """Return the half of the pack that a line belongs to, by its id, or its text without one."""
    return "report" if int(hashlib.sha256(key.encode()).hexdigest()[0], 16) % 2 else "dev"


def read_pack(name: str, half: str) -> list[dict[str, Any]]:
    lines = (HERE / f"packs/{name}.jsonl").read_text("utf-8").splitlines()
    rows = list(map(json.loads, lines))
    return [row for row in rows if half in ("all", get_half(row.get("id") or row["text"]))]


def read_small_talk(half: str) -> list[dict[str, Any]]:
    """Read lines of small talk: one pack was fitted on, the other is only reported."""
    if half == "dev":
        return read_pack("smalltalk", "all")
    return [row for row in read_pack("talk_report", "all") if row["label"] == "smalltalk"]


def read_questions(half: str) -> list[dict[str, Any]]:
    """Read questions in ten languages, with the passage that answers them where there is one."""
    rows = read_pack("questions_languages", half)
    asked = read_pack("talk_report", "all") if half == "report" else []
    return rows + [
        row | {"question": row["text"], "holds": None}
        for row in asked
        if row["label"] == "question"
    ]


def is_small_talk(answer: Answer) -> bool:
    """Tell whether the reply is small talk and not an answer or an abstention."""
    return answer.provider == "none" and answer.detected_intent in SMALL_TALK


async def ingest_collections(engine: Engine, data: Path, cache: Path) -> None:
    k8s, passages = cache / "documents/k8s", cache / "documents/passages"
    if not k8s.exists():
        with tarfile.open(data / "docs-k8s.tar.gz") as archive:
            for member in archive.getmembers():
                inside = member.name.partition("en/docs/")[2]
                if inside.endswith(".md") and inside.startswith(K8S_FOLDERS):
                    place = k8s / inside
                    place.parent.mkdir(parents=True, exist_ok=True)
                    stream = archive.extractfile(member)
                    assert stream is not None
                    place.write_bytes(stream.read())
    passages.mkdir(parents=True, exist_ok=True)
    for row in read_pack("questions_languages", "all"):
        if row["holds"]:
            (passages / f"{row['id']}.txt").write_text(row["holds"], "utf-8")
    samples = HERE.parent / "src/ragstone/samples/documents"
    for name, place in (("k8s", k8s), ("passages", passages), ("samples", samples)):
        report = await engine.ingest([place], collection=name)
        print(f"{name}: {len(report.files)} files, {len(report.of('failed'))} failed", flush=True)


async def ask_questions(engine: Engine, half: str) -> list[dict[str, Any]]:
    return [
        row | await _ask(engine, row["question"], "passages" if row["holds"] else "k8s")
        for row in read_questions(half)
    ]


async def ask_small_talk(engine: Engine, half: str) -> list[dict[str, Any]]:
    return [row | await _ask(engine, row["text"], "k8s") for row in read_small_talk(half)]


async def ask_clapnq(engine: Engine, data: Path) -> list[dict[str, Any]]:
    lines = (data / "clapnq/qa.jsonl").read_text("utf-8").splitlines()[:_CLAPNQ_QUESTIONS]
    return [
        {"question": row["input"]} | await _ask(engine, row["input"], "samples")
        for row in map(json.loads, lines)
    ]


async def _ask(engine: Engine, text: str, collection: str) -> dict[str, Any]:
    try:
        answer = await engine.ask(text, collection=collection, **_short_allowed())
    except InputError as error:
        return {"small_talk": False, "status": "error", "intent": "", "reply": str(error)}
    return {
        "small_talk": is_small_talk(answer),
        "status": answer.status,
        "intent": answer.detected_intent,
        "intent_confidence": answer.intent_confidence,
        "reply": answer.text,
    }


def _short_allowed() -> dict[str, Any]:
    """Return the option of chats, whose messages may have one character."""
    from ragstone.query.request import QueryOptions

    return {"is_chat": True} if "is_chat" in QueryOptions.__annotations__ else {}


async def ask_dialogues(engine: Engine, half: str) -> list[Turn]:
    found: list[Turn] = []
    for row in read_pack("dialogues", half):
        collection, session = row["collection"], f"{row['id']}-{time.time_ns()}"
        replies: list[tuple[Answer, float]] = []
        for turn in row["turns"]:
            before = time.process_time()
            answer = await engine.ask(
                turn["question"], collection=collection, session_id=session, **_short_allowed()
            )
            replies.append((answer, 1000 * (time.process_time() - before)))
        for at, turn in enumerate(row["turns"][1:], start=1):
            alone = await engine.ask(turn["standalone"], collection=collection)
            answer = replies[at][0]
            found.append(
                Turn(
                    id=f"{row['id']}:{at + 1}",
                    kind=row["kind"] if at == len(row["turns"]) - 1 else "between",
                    question=turn["question"],
                    stands_alone=turn["question"] == turn["standalone"],
                    right=_is_right(answer, turn["must"]),
                    standalone_right=_is_right(alone, turn["must"]),
                    repeats=answer.text == replies[at - 1][0].text and answer.status == "answered",
                    searched_as=getattr(answer, "searched_as", ""),
                    text=answer.text,
                    status=answer.status,
                    standalone_text=alone.text,
                    first_ms=replies[0][1],
                    later_ms=replies[at][1],
                )
            )
    return found


def _is_right(answer: Answer, must: Sequence[Sequence[str]]) -> bool:
    short = getattr(answer, "short_answer", "") or ""
    text = f"{short} {_MARKER.sub('', answer.text)}"
    return answer.status == "answered" and not find_missing(text, must)


def print_detected(data: Path, half: str) -> None:
    """Print what the greetings and the classifier take for small talk, before any search."""
    threshold = load_settings(environ={}).settings.understand.intent_confidence
    clapnq = (data / "clapnq/qa.jsonl").read_text("utf-8").splitlines()[:_CLAPNQ_QUESTIONS]
    for name, texts in (
        ("small talk", [row["text"] for row in read_small_talk(half)]),
        ("questions", [row["question"] for row in read_questions(half)]),
        ("clapnq", [json.loads(line)["input"] for line in clapnq]),
    ):
        exact = sum(match_small_talk(text) is not None for text in texts)
        found = [(match_small_talk(text), classify_small_talk(text)) for text in texts]
        either = sum(
            phrase is not None or (talk is not None and talk.probability >= threshold)
            for phrase, talk in found
        )
        print(f"{name}: {len(texts)}, taken for small talk {either}, {exact} of them word for word")


def print_questions(rows: Sequence[dict[str, Any]]) -> None:
    for name, some in (
        ("with a passage", [row for row in rows if row["holds"]]),
        ("without an answer", [row for row in rows if not row["holds"]]),
    ):
        wrong = [row for row in some if row["small_talk"]]
        answered = sum(row["status"] == "answered" for row in some)
        print(f"questions {name}: {len(some)}, taken for small talk {len(wrong)}, "
              f"answered {answered}")  # fmt: skip
        for row in wrong:
            print(f"    {row['id']} {row['question']} → {row['intent']}")


def print_small_talk(rows: Sequence[dict[str, Any]], *, show: bool) -> None:
    right = sum(row["small_talk"] for row in rows)
    print(f"small talk: {len(rows)}, answered as such {right} ({right / max(len(rows), 1):.1%})")
    for field in ("language", "kind"):
        total = Counter(row[field] for row in rows)
        good = Counter(row[field] for row in rows if row["small_talk"])
        print("    " + ", ".join(f"{name} {good[name]}/{total[name]}" for name in total))
    if show:
        for row in rows:
            if not row["small_talk"]:
                print(
                    f"    {row['language']} {row['text']} → {row['status']} {row['reply'][:90]!r}"
                )


def print_dialogues(turns: Sequence[Turn]) -> None:
    groups: dict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        groups["stands alone" if turn.stands_alone else "depends"].append(turn)
        groups[turn.kind].append(turn)
    print(
        f"\n{'turns':18}{'asked':>6}{'alone':>6}{'right':>6}{'kept':>6}{'share':>8}{'repeats':>9}"
    )
    for name in ("depends", "stands alone", *sorted(set(groups) - {"depends", "stands alone"})):
        some = groups.get(name, [])
        known = [turn for turn in some if turn.standalone_right]
        kept = sum(turn.right for turn in known)
        share = f"{kept / len(known):.1%}" if known else "–"
        right, repeats = sum(turn.right for turn in some), sum(turn.repeats for turn in some)
        print(f"{name:18}{len(some):6}{len(known):6}{right:6}{kept:6}{share:>8}{repeats:9}")
    first, later = [turn.first_ms for turn in turns], [turn.later_ms for turn in turns]
    print(f"CPU ms, mean and median: first question {statistics.mean(first):.0f} "
          f"{statistics.median(first):.0f}, later one {statistics.mean(later):.0f} "
          f"{statistics.median(later):.0f}, ratio of the means "
          f"{statistics.mean(later) / statistics.mean(first):.2f}")  # fmt: skip


def print_turns(turns: Sequence[Turn]) -> None:
    for turn in turns:
        mark = "right" if turn.right else "WRONG" if turn.standalone_right else "wrong alone too"
        print(f"\n--- {turn.id} {turn.kind} {mark}: {turn.question}\n  as: {turn.searched_as}\n"
              f"  {turn.status}: {turn.text[:300]}")  # fmt: skip
        if not turn.right:
            print(f"  alone: {turn.standalone_text[:300]}")


async def print_examples(engine: Engine) -> None:
    """Print the replies to the questions that went wrong once."""
    for number, example in enumerate(EXAMPLES):
        session = f"example-{number}-{time.time_ns()}"
        for question in example:
            try:
                answer = await engine.ask(
                    question, collection="samples", session_id=session, **_short_allowed()
                )
            except Exception as error:  # noqa: BLE001  an error is what users meet as well
                print(f"{question}\n    {type(error).__name__}: {error}")
                continue
            searched = getattr(answer, "searched_as", "")
            said = f" (searched as: {searched})" if searched else ""
            print(f"{question}{said}\n    {answer.status} {answer.confidence}: {answer.text[:200]}")


async def run(options: argparse.Namespace) -> None:
    flags = {"data.directory": options.cache / "data", "data.answer_cache": 0}
    loaded = load_settings(flags=flags, environ={})
    out: dict[str, Any] = {}
    async with Engine(loaded.settings) as engine:
        await ingest_collections(engine, options.data, options.cache)
        if options.examples:
            await print_examples(engine)
        parts = options.part or (() if options.examples else PARTS)
        if "questions" in parts:
            print_questions(out.setdefault("questions", await ask_questions(engine, options.half)))
        if "smalltalk" in parts:
            rows = out["smalltalk"] = await ask_small_talk(engine, options.half)
            print_small_talk(rows, show=options.show)
        if "clapnq" in parts:
            rows = out["clapnq"] = await ask_clapnq(engine, options.data)
            taken = [row["question"] for row in rows if row["small_talk"]]
            print(f"clapnq: {len(rows)}, taken for small talk {len(taken)} {taken}")
        if "dialogues" in parts:
            turns = await ask_dialogues(engine, options.half)
            out["dialogues"] = [asdict(turn) for turn in turns]
            if options.show:
                print_turns(turns)
            print_dialogues(turns)
    name = f"{options.half}-{'-'.join(parts)}.json"
    (options.cache / name).write_text(json.dumps(out, ensure_ascii=False, indent=1), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--half", choices=("dev", "report"), default="report")
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--show", action="store_true", help="print every turn and missed line")
    parser.add_argument("--examples", action="store_true", help="print replies to known failures")
    parser.add_argument("--detect", action="store_true", help="count layers 0 and 1 alone")
    options = parser.parse_args()
    if options.detect:
        print_detected(options.data, options.half)
    else:
        asyncio.run(run(options))


if __name__ == "__main__":
    main()
