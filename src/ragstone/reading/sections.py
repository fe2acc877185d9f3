"""Split documents into sections, and find the sentences that stand for each.

sources → sections with sentences that can be read alone. Centrality is the similarity of a
sentence to its section and to the whole text, by the embedder.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ragstone.models.cache import embed_sentences
from ragstone.protocols import Embedder, Vectors
from ragstone.reading.injection import has_instructions
from ragstone.reading.layout import LEAD_IN, clean_for_reading, find_blocks
from ragstone.reading.markers import escape_markers
from ragstone.reading.units import split_units
from ragstone.text import LIST_MARK, find_sentence_spans
from ragstone.types import Source

# So many sentences are embedded at most, each cut to so many characters: about 130 CPU ms.
MAX_EMBEDDED = 44
_MAX_CHARS_EMBEDDED = 160
_PARTS_WITHOUT_HEADINGS = 5
_MIN_WORDS, _MAX_WORDS = 5, 60
_SAME = 0.92
# A sentence is about a topic when it is nearly as similar to it as the most similar one.
_ON_TOPIC, _MAX_ON_TOPIC = 0.7, 6
# Two sections are compared when they are about the same.
_MIN_ALIKE = 0.45
_ITEM_MARK = re.compile(rf"^\s*{LIST_MARK}\s+")
_SENTENCE_END = re.compile(r"[.!?…。！？]['\"”’»)\]]*$")
# "This lease is made between …" stands alone; "This means …" does not.
_POINTS_BACK = re.compile(
    r"^(?:\d+(?:\.\d+)*[.)]?\s+)?(?:(?:it|its|they|their|he|his|she|her|such|otherwise|however|but|"
    r"so|then|there|also|and|or|for example|es|er|sie|danach|il|elle|ils|cela|esto|eso|ciò)\b"
    r"|(?:this|that|these|those|dies\w*)\s+(?:is|are|was|were|means?|can|could|will|would|has|have|"
    r"had|may|must|should|makes?|allows?|applies|ensures?|includes?|also|does|do|ist|sind|kann)\b)",
    re.IGNORECASE,
)
# What stands elsewhere cannot be read in a summary.
_POINTS_ELSEWHERE = re.compile(
    r"\b(?:following|below|above|see|refer to|learn (?:more|about|how)|for more information|siehe|"
    r"folgende\w*|voir|ci-dessous|véase|siguiente\w*)\b",
    re.IGNORECASE,
)
_NUMBERING = re.compile(r"^(?:§\s*)?\d+(?:\.\d+)*[.):]?\s+(?=\S)")
_STOP_INSIDE = re.compile(r"[.!?](?=\s)")
# Sections that lead elsewhere.
_ELSEWHERE = re.compile(
    r"^(?:\W*|\d+[.)]?\s*)(?:what(?:'s|’s|s| is) next|.*\bwhatsnext\b.*|next steps|see also|"
    r"references?|related\b.*|further reading|(?:table of )?contents|index|links|literatur|"
    r"siehe auch|voir aussi|véase también|bibliograph\w*)\W*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """Hold a sentence that can stand alone, and the number of its source."""

    number: int
    text: str
    is_item: bool = False
    document_id: str = ""

    @property
    def has_figures(self) -> bool:
        """Return True when it holds a number, beside that of its clause."""
        return any(c.isdigit() for c in _NUMBERING.sub("", self.text))

    def format(self) -> str:
        return f"{escape_markers(self.text)} [Source {self.number}]"


@dataclass(slots=True)
class Section:
    """Hold the sentences under one heading, in reading order, with their vectors."""

    label: str
    sentences: list[Sentence]
    vectors: Vectors = field(default_factory=lambda: np.empty((0, 0), np.float32))

    @property
    def size(self) -> int:
        return sum(len(one.text) for one in self.sentences)


def list_sentences(source: Source) -> list[Sentence]:
    """List the sentences of a source that can stand alone; its first row where there are none."""
    text = clean_for_reading(source.text).text
    document_id = source.hit.chunk.document_id
    found: list[Sentence] = []
    for block in find_blocks(text):
        if block.kind not in ("paragraph", "item"):
            continue
        body = text[block.start : block.end]
        for start, end in find_sentence_spans(body):
            # Once more on one line: a link may have been broken over two.
            plain = " ".join(_ITEM_MARK.sub("", body[start:end]).split())
            plain = _strip_emphasis(clean_for_reading(plain).text.strip())
            if _can_stand_alone(plain):
                found.append(Sentence(source.number, plain, block.kind == "item", document_id))
    if found:
        return found
    rows = [unit.sentence for unit in split_units(text) if unit.header]
    return [Sentence(source.number, row) for row in rows[:1] if not has_instructions(row)]


def _strip_emphasis(text: str) -> str:
    """Remove a mark of emphasis that opens or closes outside the sentence."""
    for mark in ("**", "*", "_"):
        if text.count(mark) % 2:
            text = text.removeprefix(mark) if text.startswith(mark) else text.removesuffix(mark)
    return text


def _can_stand_alone(text: str) -> bool:
    words = len(text.split())
    if (
        text.startswith(("#", "|", "```"))
        or not _MIN_WORDS <= max(words, len(text) // 8) <= _MAX_WORDS
    ):
        return False
    if not _SENTENCE_END.search(text) or text.endswith("?") or LEAD_IN.search(text):
        return False
    return not has_instructions(text)


def split_sections(sources: Sequence[Source]) -> list[Section]:
    """Group sentences by the main headings of one document; without headings, by place."""
    paths = [source.hit.chunk.heading_path for source in sources]
    depth = 0
    while len({path[: depth + 1] for path in paths}) == 1 and len(paths[0]) > depth:
        depth += 1
    # A title over all sections is not a section, but what stands right below it is.
    while depth and len({path[:depth] for path in paths if path}) > 1:
        depth -= 1
    titles = {path[0] for path in paths if len(path) == 1}
    if not depth and len(titles) == 1 and all(path[:1] == tuple(titles) for path in paths if path):
        depth = 1
    sections: dict[str, Section] = {}
    for source, path in zip(sources, paths, strict=True):
        label = path[depth] if len(path) > depth else ""
        if not _ELSEWHERE.match(label):
            own = sections.setdefault(label, Section(clean_label(label), []))
            own.sentences += list_sentences(source)
    found = [one for one in sections.values() if one.sentences]
    if len(found) > 1 or not found:
        return found
    return _split_by_place(found[0])


def clean_label(label: str) -> str:
    """Return a heading as a label: without its number, and without the end of a sentence."""
    plain = " ".join(clean_for_reading(label).text.split()).strip(" #:;.*_")
    return escape_markers(_STOP_INSIDE.sub("", _NUMBERING.sub("", plain)).replace("*", ""))


def _split_by_place(section: Section) -> list[Section]:
    """Cut a text without headings into parts of about the same number of sentences."""
    sentences = section.sentences
    parts = min(_PARTS_WITHOUT_HEADINGS, max(1, len(sentences) // 3))
    edges = [round(at * len(sentences) / parts) for at in range(parts + 1)]
    cut = [sentences[a:b] for a, b in itertools.pairwise(edges)]
    return [Section("", one) for one in cut]


def embed_sections(
    sections: Sequence[Section], embedder: Embedder, *, prefer_figures: bool = False
) -> None:
    """Embed the sentences of all sections in one batch: of each the first, the rest spread."""
    limit = max(3, MAX_EMBEDDED // (len(sections) or 1))
    for section in sections:
        sentences = section.sentences
        if prefer_figures and len(sentences) > limit:
            figures = [one for one in sentences[1:] if one.has_figures]
            others = [one for one in sentences[1:] if not one.has_figures]
            first = [sentences[0], *figures, *others][:limit]
            sentences = sorted(first, key=section.sentences.index)
        section.sentences = _take_spread(sentences, limit)
    texts = [one.text[:_MAX_CHARS_EMBEDDED] for section in sections for one in section.sentences]
    owners = [one.document_id for section in sections for one in section.sentences]
    vectors = embed_sentences(embedder, texts, owners)
    at = 0
    for section in sections:
        section.vectors = vectors[at : at + len(section.sentences)]
        at += len(section.sentences)


def _take_spread(sentences: list[Sentence], limit: int) -> list[Sentence]:
    if len(sentences) <= limit:
        return sentences
    first = limit // 2
    rest = sentences[first:]
    step = len(rest) / (limit - first)
    return sentences[:first] + [rest[int(at * step)] for at in range(limit - first)]


def score_sentences(section: Section, whole: Vectors, *, begins: float = 0.15) -> Vectors:
    """Score sentences by how near they are to their section and to the whole text.

    The first sentences of a section count more; one that points back, and an item, count less.
    """
    own = normalize(section.vectors.mean(axis=0))
    scores: Vectors = 0.5 * (section.vectors @ own) + 0.3 * (section.vectors @ whole)
    for place, one in enumerate(section.sentences):
        scores[place] += begins / (1 + place)
        is_incomplete = _POINTS_BACK.match(one.text) or _POINTS_ELSEWHERE.search(one.text)
        scores[place] -= 0.15 * bool(is_incomplete) + 0.05 * one.is_item
    return scores


def find_center(sections: Sequence[Section]) -> Vectors:
    """Return the direction of the mean of all sentences."""
    return normalize(np.concatenate([one.vectors for one in sections]).mean(0, np.float32))


def normalize(vector: Vectors) -> Vectors:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector


def keep_longest(sections: Sequence[Section], limit: int) -> list[Section]:
    """Keep the longest sections, and the first one, in reading order."""
    order = sorted(range(len(sections)), key=lambda at: (at > 0, -sections[at].size))
    return [sections[at] for at in sorted(order[:limit])]


def choose_central(
    section: Section, whole: Vectors, count: int, said: list[Vectors]
) -> list[Sentence]:
    """Choose the most central sentences that do not repeat what was said, in reading order."""
    scores = score_sentences(section, whole)
    places: list[int] = []
    for place in np.argsort(-scores, kind="stable").tolist():
        vector = section.vectors[place]
        if any(float(vector @ other) > _SAME for other in said):
            continue
        said.append(vector)
        places.append(place)
        if len(places) == count:
            break
    return [section.sentences[place] for place in sorted(places)]


def pair_sections(
    left: Sequence[Section], right: Sequence[Section], embedder: Embedder
) -> list[tuple[Section, Section]]:
    """Pair sections with the same heading or the same subject, each at most once."""
    labels = [one.label or one.sentences[0].text for one in (*left, *right)]
    heads = embedder.embed([label[:_MAX_CHARS_EMBEDDED] for label in labels])
    means = np.stack([normalize(one.vectors.mean(axis=0)) for one in (*left, *right)])
    count = len(left)
    alike = 0.5 * (heads[:count] @ heads[count:].T) + 0.5 * (means[:count] @ means[count:].T)
    found: list[tuple[int, int]] = []
    for flat in np.argsort(-alike, axis=None, kind="stable").tolist():
        one, other = divmod(flat, len(right))
        is_free = all(one != a and other != b for a, b in found)
        # What stands before the first heading has no counterpart under one.
        is_free = is_free and bool(left[one].label) == bool(right[other].label)
        if is_free and (alike[one, other] >= _MIN_ALIKE or is_same_label(left[one], right[other])):
            found.append((one, other))
    return [(left[one], right[other]) for one, other in sorted(found)]


def is_same_label(one: Section, other: Section) -> bool:
    return bool(one.label) and one.label.casefold() == other.label.casefold()


def choose_on_topic(sections: Sequence[Section], topic: Vectors) -> list[list[Sentence]]:
    """Choose for each section the sentences that are about a topic; for some there are none."""
    scores = [one.vectors @ topic for one in sections]
    best = max(float(own.max()) for own in scores)
    ranked = sorted(
        ((float(own[at]), n, at) for n, own in enumerate(scores) for at in range(len(own))),
        reverse=True,
    )
    taken: list[tuple[int, int]] = []
    for score, n, at in ranked:
        vector = sections[n].vectors[at]
        is_new = all(float(vector @ sections[m].vectors[b]) <= _SAME for m, b in taken)
        if score >= _ON_TOPIC * best and is_new and len(taken) < _MAX_ON_TOPIC:
            taken.append((n, at))
    return [
        [sentence for at, sentence in enumerate(one.sentences) if (n, at) in taken]
        for n, one in enumerate(sections)
    ]


def choose_pair(one: Section, other: Section) -> tuple[Sentence, Sentence]:
    """Choose the two sentences that say most on the same point; figures count more."""
    scores = one.vectors @ other.vectors.T
    for section, axis in ((one, 0), (other, 1)):
        own = score_sentences(section, normalize(section.vectors.mean(axis=0)))
        figures = [0.15 * s.has_figures for s in section.sentences]
        extra = 0.5 * own + np.array(figures, np.float32)
        scores = scores + (extra[:, None] if axis == 0 else extra[None, :])
    first, second = divmod(int(scores.argmax()), len(other.sentences))
    return one.sentences[first], other.sentences[second]
