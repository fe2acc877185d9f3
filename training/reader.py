"""Make the rows of the read and rank heads: question, passage → span or no answer; relevance.

    python -m training.reader --settings training/settings/data.toml

Beside the rows of the sets: the nearest passages without the answer, the passage with its answer
taken away, questions changed so that the passage no longer answers them, several passages in one
context, Markdown around the text, questions as people type them, and pairs without a label that
only the teacher judges. Every pair of this file also gets a relevance target from the base model.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import bm25s
import Stemmer

from training.exchanges import change_sentence, find_names
from training.pack import NO_ANSWER, NO_SPAN, RANK, READ, UNLABELLED, Packer
from training.rows import (
    digest,
    find_answer,
    is_held_back,
    plain,
    read_lines,
    read_set,
    sample_rows,
    split_sentences,
    squeeze,
    type_question,
)
from training.settings import Settings, load_settings, open_tokenizer, write_pack

Span = tuple[int, int]


@dataclass
class Question:
    """Hold a question with the passages that answer it and those that are known not to."""

    text: str
    answered: dict[str, Span | None] = field(default_factory=dict)
    unanswered: set[str] = field(default_factory=set)
    answers: set[str] = field(default_factory=set)

    def is_answered_by(self, passage: str) -> bool:
        """Tell whether a passage may answer the question: it is known to, or has the string."""
        if passage in self.answered:
            return True
        words = f" {plain(passage)} "
        return any(f" {answer} " in words for answer in self.answers)


def read_questions(name: str, settings: Settings, most: int) -> list[Question]:
    """Collect the rows of a set by question."""
    questions: dict[str, Question] = {}
    for row in sample_rows(list(read_set(name, settings.data)), most):
        question = questions.setdefault(row["question"], Question(squeeze(row["question"])))
        passage = squeeze(row["context"] or row["text"])
        if row["label"] == 0:
            if not row["context"]:
                question.unanswered.add(passage)
            continue
        if name == "t1/iirc" and not find_answer(passage, str(row["answer"])):
            continue  # the answer stands in a linked page that the row does not have
        if row["answer"] and plain(row["answer"]):
            question.answers.add(plain(row["answer"]))
        question.answered.setdefault(passage, None)
        if question.answered[passage] is None:
            question.answered[passage] = keep_short(locate_answer(row, passage), passage)
    return list(questions.values())


def keep_short(span: Span | None, passage: str) -> Span | None:
    """Drop spans of more than 12 words: half of four sets; they taught the model long answers."""
    if span and len(passage[span[0] : span[1]].split()) > 12:
        return None
    return span


def locate_answer(row: dict[str, object], passage: str) -> Span | None:
    """Find the answer inside its sentence if the row has one, else in the passage."""
    answer = squeeze(str(row["answer"])) if row["answer"] else ""
    if not row["context"]:
        return find_answer(passage, answer) if answer and answer not in {"yes", "no"} else None
    sentence = squeeze(str(row["text"]))
    at = passage.find(sentence)
    if at < 0:
        return find_answer(passage, answer) if answer else None
    inner = find_answer(sentence, answer) if answer else (0, len(sentence))
    return (at + inner[0], at + inner[1]) if inner else None


def read_squad2(settings: Settings) -> list[Question]:
    """Collect the questions of the titles that are not held back."""
    folder = settings.data / "squad2-dev-half"
    passages = {row["_id"]: row for row in read_lines(folder / "corpus.jsonl")}
    questions = []
    for row in read_lines(folder / "qa.jsonl"):
        passage = passages[row["passage_id"]]
        if is_held_back(passage["title"]):
            continue
        question = Question(squeeze(row["question"]))
        text = squeeze(passage["text"])
        if row["is_impossible"]:
            question.unanswered.add(text)
        else:
            answer = min(row["answers"], key=len)
            question.answers = {plain(one) for one in row["answers"] if plain(one)}
            question.answered[text] = find_answer(text, answer)
        questions.append(question)
    return questions


class ReadRows:
    """Collect read rows."""

    def __init__(self, packer: Packer, rng: random.Random, share: dict[str, float]) -> None:
        self.packer, self.rng, self.share = packer, rng, share
        self.counts: Counter[str] = Counter()

    def add(
        self,
        question: str,
        passage: str,
        span: Span | None,
        kind: str,
        *,
        none: int = NO_ANSWER,
        before: Sequence[str] = (),
        after: Sequence[str] = (),
    ) -> None:
        """Add a row; without a span, `none` says what is known."""
        place = (len(before), *span) if span else None
        self.packer.add_row(READ, question, [*before, passage, *after], span=place, state=none)
        self.counts[kind] += 1

    def word_question(self, question: str) -> str:
        """Return the question, in some cases as people type it."""
        if self.rng.random() < self.share["typed"]:
            return type_question(question, self.rng)
        return question

    def add_question(self, question: Question, near: list[str], unlabelled: list[str]) -> None:
        """Add all rows of one question."""
        rng, share = self.rng, self.share
        for passage, span in list(question.answered.items())[:4]:
            text = self.word_question(question.text)
            if span is None:
                self.add(text, passage, None, "answered, no span", none=NO_SPAN)
                continue
            self.add(text, passage, span, "answered")
            if near and rng.random() < share["several"]:
                self.add_several(question, passage, span, near)
            if rng.random() < share["format"]:
                self.add_formatted(question, passage, span, near)
            if rng.random() < share["removed"]:
                self.add_removed(question, passage)
            if rng.random() < share["misleading"]:
                self.add_misleading(question, passage)
        for passage in sorted(question.unanswered, key=digest)[:3]:
            self.add(self.word_question(question.text), passage, None, "judged without answer")
        for passage in near:
            self.add(self.word_question(question.text), passage, None, "nearest without answer")
        for passage in unlabelled:
            self.add(question.text, passage, None, "unlabelled", none=UNLABELLED)

    def add_several(self, question: Question, passage: str, span: Span, near: list[str]) -> None:
        """Put passages without the answer before or after the one that has it."""
        before = [cut_text(near[0], self.rng)] if self.rng.random() < 0.6 else []
        after = [cut_text(near[-1], self.rng)] if not before or self.rng.random() < 0.5 else []
        self.add(question.text, passage, span, "several passages", before=before, after=after)

    def add_formatted(self, question: Question, passage: str, span: Span, near: list[str]) -> None:
        """Write the passage as Markdown: a heading, a list, a table row, code beside it."""
        before, answer, after = split_around(passage, span)
        kind = self.rng.randrange(4)
        noise = near[0] if near else "See below."
        heading = "## " + " ".join(noise.split()[:4])
        if kind == 0:
            parts = [heading, *(f"- {one}" for one in before), f"- {answer[0]}"], 2
            tail = [f"- {one}" for one in after]
        elif kind == 1:
            parts = [heading, *before, answer[0]], 0
            tail = [*after, "```\n$ run --all --verbose\n```"]
        elif kind == 2:
            parts = (
                [
                    "| name | text |\n| --- | --- |",
                    *(f"| {one} |" for one in before),
                    f"| {answer[0]} |",
                ],
                2,
            )
            tail = [f"| {one} |" for one in after]
        else:
            parts = ["```\nimport sys\nprint(sys.argv)\n```", *before, answer[0]], 0
            tail = ["1. " + one for one in after]
        pieces, shift = parts
        start, end = answer[1]
        self.packer.add_row(
            READ,
            self.word_question(question.text),
            [*pieces, *tail],
            span=(len(pieces) - 1, start + shift, end + shift),
        )
        self.counts["formatted"] += 1

    def add_removed(self, question: Question, passage: str) -> None:
        """Take the sentences with the answer away: same subject, no answer."""
        sentences = split_sentences(passage)
        left = [one for one in sentences if not question.is_answered_by(one)]
        if 2 <= len(left) < len(sentences):
            self.add(self.word_question(question.text), " ".join(left), None, "answer removed")

    def add_misleading(self, question: Question, passage: str) -> None:
        """Change the question so that the passage no longer answers it."""
        names = [m[0] for m in find_names(passage) if m[0] not in question.text]
        names = [n for n in names if plain(n) not in question.answers and m_words(n) < 4]
        changed = change_sentence(question.text, self.rng, names, most=1)
        kinds = {
            "another name",
            "number",
            "antonym",
            "comparative",
            "time order",
            "quantifier",
            "unit",
            "month",
            "number word",
            "negation",
            "names exchanged",
        }
        if changed and changed[0][0] in kinds:
            self.add(changed[0][1], passage, None, "misleading")


def m_words(text: str) -> int:
    """Count words."""
    return len(text.split())


def cut_text(text: str, rng: random.Random) -> str:
    """Keep the first sentences, at most about 90 words."""
    words = text.split()
    return " ".join(words[: rng.randint(30, 90)])


def split_around(passage: str, span: Span) -> tuple[list[str], tuple[str, Span], list[str]]:
    """Cut a passage into sentences before, with and after a span."""
    begin = 0
    before, after = [], []
    middle: tuple[str, Span] | None = None
    for sentence in split_sentences(passage):
        at = passage.index(sentence, begin)
        begin = at + len(sentence)
        if middle is None and at <= span[0] and span[1] <= begin:
            middle = (sentence, (span[0] - at, span[1] - at))
        elif middle is None:
            before.append(sentence)
        else:
            after.append(sentence)
    return (before, middle, after) if middle else ([], (passage, span), [])


def find_near(
    questions: list[Question], passages: list[str], near: int, unlabelled: int
) -> list[tuple[list[str], list[str]]]:
    """Rank the passages of a set for each question; nearest without the answer, then others."""
    stemmer = Stemmer.Stemmer("english")
    index = bm25s.BM25()
    index.index(bm25s.tokenize(passages, stemmer=stemmer, show_progress=False), show_progress=False)
    wanted = bm25s.tokenize([q.text for q in questions], stemmer=stemmer, show_progress=False)
    depth = min(len(passages), near + unlabelled + 8)
    found, _ = index.retrieve(wanted, k=depth, show_progress=False)
    result = []
    for question, row in zip(questions, found, strict=True):
        ranked = [passages[i] for i in row]
        # A set without answer strings cannot tell whether a near passage answers: unlabelled.
        wrong = [p for p in ranked if question.answers and not question.is_answered_by(p)]
        chosen = [p for p in wrong if p not in question.unanswered][:near]
        rest = [
            p
            for p in ranked
            if p not in chosen and p not in question.answered and p not in question.unanswered
        ]
        result.append((chosen, rest[:unlabelled]))
    return result


def list_passages(questions: list[Question]) -> list[str]:
    """List every passage of a set once."""
    seen: dict[str, None] = {}
    for question in questions:
        for passage in [*question.answered, *sorted(question.unanswered, key=digest)]:
            if len(passage) > 60:
                seen[passage] = None
    return list(seen)


def add_rank_rows(rows: ReadRows, settings: Settings) -> None:
    """Add the pairs of the t3 sets: relevance alone."""
    for name, most in settings.reader.rank_sets.items():
        chosen = sample_rows(list(read_set(name, settings.data)), most)
        for row in chosen:
            label = int(row["label"] >= 0.5)
            text = squeeze(row["text"]) if "code" not in name else row["text"]
            query = squeeze(row["query"])
            rows.packer.add_row(RANK, query, [text], state=UNLABELLED, label=label)
            rows.counts[name] += 1


YES_NO = frozenset({"yes", "no"})


def main() -> None:
    settings = load_settings(__doc__)
    rng = random.Random(settings.seed)
    rows = ReadRows(Packer(open_tokenizer(settings)), rng, settings.reader.share)
    sets: dict[str, list[Question]] = defaultdict(list)
    for name, most in settings.reader.sets.items():
        sets[name] = read_questions(name, settings, most)
    sets["squad2"] = read_squad2(settings)
    for name, questions in sets.items():
        for question in questions:
            question.answers -= YES_NO
        passages = list_passages(questions)
        spans = sum(span is not None for q in questions for span in q.answered.values())
        few = 0 if name in {"t1/privacyqa", "t1/tweetqa", "t1/friendsqa"} else settings.reader.near
        more = settings.reader.unlabelled if len(passages) > 400 else 2
        found = find_near(questions, passages, few, more)
        for question, (near, unlabelled) in zip(questions, found, strict=True):
            rows.add_question(question, near, unlabelled)
            if name == "squad2":  # the only set with misleading questions written by people
                rows.add_question(
                    Question(
                        type_question(question.text, rng),
                        question.answered,
                        question.unanswered,
                        question.answers,
                    ),
                    [],
                    [],
                )
        print(
            f"{name:<32} {len(questions):>6} questions {len(passages):>6} passages {spans:>6} spans"
        )
    add_rank_rows(rows, settings)
    for kind, count in rows.counts.most_common():
        print(f"{count:>8} {kind}")
    write_pack(rows.packer, settings, "read")


if __name__ == "__main__":
    main()
