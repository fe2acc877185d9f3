"""Make read rows from the questions written by hand over documentation, with near passages.

Nearest passages by BM25 come from `training/written/pool.jsonl.gz`. One of another page that lacks
the answer's words counts as "no answer"; one of the same page is judged by the teacher alone.
"""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import bm25s
import Stemmer

from training.pack import NO_SPAN, UNLABELLED
from training.rows import plain, squeeze
from training.written import FOLDER, read_written


def read_pool() -> list[dict[str, str]]:
    """Read the passages of documentation that questions are searched in."""
    with gzip.open(FOLDER / "pool.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def search_pool(pool: list[dict[str, str]], questions: list[str], depth: int) -> list[list[int]]:
    """Rank the pool for each question by BM25."""
    stemmer = Stemmer.Stemmer("english")
    index = bm25s.BM25()
    texts = bm25s.tokenize([one["text"] for one in pool], stemmer=stemmer, show_progress=False)
    index.index(texts, show_progress=False)
    wanted = bm25s.tokenize(questions, stemmer=stemmer, show_progress=False)
    found, _ = index.retrieve(wanted, k=depth, show_progress=False)
    return [[int(i) for i in row] for row in found]


def split_near(
    row: dict[str, Any], answer: str, ranked: list[dict[str, str]]
) -> tuple[list[str], list[str]]:
    """Return near passages without the answer, and those whose label is not known."""
    words = plain(answer)
    wrong, open_ = [], []
    for one in ranked:
        known = one["source"] != row["source"] and f" {words} " not in f" {plain(one['text'])} "
        (wrong if known else open_).append(one["text"])
    return wrong, open_


def find_places(answer: str, passage: str) -> list[tuple[int, int]]:
    """Find the answer as whole words."""
    pattern = rf"(?<![\w.,])(?<!\w[-']){re.escape(answer)}(?![\w]|[.,-]\w)"
    return [found.span() for found in re.finditer(pattern, passage)]


def add_written_reads(rows: Any, repeats: int) -> None:
    """Add every question `repeats` times: as typed, among other passages, near ones, Markdown."""
    from training.reader import Question

    written = read_written("reads")
    pool = read_pool()
    asked = [(row, q, a) for row in written for q, a in row["answered"]]
    asked += [(row, q, "") for row in written for q in row["unanswered"]]
    ranked = search_pool(pool, [q for _, q, _ in asked], 12)
    texts = [squeeze(row["text"]) for row in written]
    for turn in range(repeats):
        for (row, wording, answer), found in zip(asked, ranked, strict=True):
            passage = squeeze(row["text"])
            near, other = split_near(row, answer or "?", [pool[i] for i in found])
            question = Question(squeeze(wording))
            text = question.text if turn % 2 == 0 else rows.word_question(question.text)
            if not answer:
                rows.add(text, passage, None, "written, no answer")
                if turn == 0:
                    add_open(rows, question.text, [*near, *other][:8])
                continue
            places = find_places(squeeze(answer), passage)
            if not places:
                continue
            if len(places) > 1:  # which row of a table is meant is not written down
                rows.add(text, passage, None, "written, answered somewhere", none=NO_SPAN)
                continue
            span = places[0]
            rows.add(text, passage, span, "written, answered")
            question.answers = {plain(answer)}
            if turn % 2 and near:
                rows.add_several(question, passage, span, near[turn : turn + 2] or near[:1])
            if turn % 3 == 1:
                rows.add_formatted(question, passage, span, near)
            if turn % 3 == 2:
                rows.add_removed(question, passage)
            for one in near[turn : turn + 2]:
                rows.add(text, one, None, "written, near without answer")
            stranger = texts[rows.rng.randrange(len(texts))]
            if stranger != passage and turn % 2:
                rows.add(text, stranger, None, "written, another passage")
            if turn == 0:
                add_open(rows, question.text, [*other, *near][:8])


def add_open(rows: Any, question: str, passages: list[str]) -> None:
    """Add pairs that only the teacher judges."""
    for one in passages:
        rows.add(question, one, None, "unlabelled", none=UNLABELLED)
