"""Write summaries, comparisons, overviews and lists of documents in the documents' own words.

outline and sources → text with markers. Every statement is a sentence of a source, word for word:
the one nearest to the mean of its section and of the whole text, by the embedder. Headings come
from the catalog and cite nothing.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ragstone.models.cache import embed_sentences
from ragstone.outline import DocumentEntry, DocumentGroup, Outline
from ragstone.protocols import Embedder, Vectors
from ragstone.reading.injection import has_instructions
from ragstone.reading.layout import clean_for_reading
from ragstone.reading.markers import escape_markers
from ragstone.reading.units import list_units
from ragstone.text import LIST_MARK
from ragstone.types import NO_ANSWER, Source

NEEDS_MODEL = (
    "Without a language model Ragstone only quotes: it cannot write, rewrite or translate a text. "
    "Set LLM_PROVIDER to connect a model; the page “Ground” of the documentation says how."
)
# So many sentences are embedded at most, each cut to so many characters: about 130 CPU ms.
MAX_EMBEDDED, _MAX_CHARS_EMBEDDED = 44, 160
_MAX_SECTIONS, _MAX_SECTIONS_COMPARED, _PARTS_WITHOUT_HEADINGS = 8, 12, 5
# A document with so few sections gets two sentences of each.
_FEW_SECTIONS = 4
_MIN_WORDS, _MAX_WORDS = 5, 60
_SAME = 0.92
# A sentence is about a topic when it is at least so similar to it as the most similar one.
_ON_TOPIC = 0.5
# Two sections are compared when they are about the same.
_MIN_ALIKE = 0.45
_NAMES_IN_GROUP, _MAX_NAME_CHARS = 5, 60
_NUMBERING = re.compile(r"^(?:§\s*)?\d+(?:\.\d+)*[.):]?\s+(?=\S)")
_ITEM_MARK = re.compile(rf"^\s*{LIST_MARK}\s+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence that can be quoted alone, and the number of its source."""

    text: str
    source: int
    start: int
    end: int

    def format(self) -> str:
        return f"\n- {escape_markers(self.text)} [Source {self.source}]"


@dataclass(frozen=True, slots=True)
class Section:
    """The sentences under one heading, in reading order, with their vectors."""

    label: str
    sentences: Sequence[Sentence]
    document_id: str
    vectors: Vectors = field(default_factory=lambda: np.empty((0, 0), np.float32))

    @property
    def mean(self) -> Vectors:
        return _normalize(self.vectors.mean(axis=0))

    def quote_central(self, direction: Vectors, count: int, said: list[Vectors]) -> str:
        """Quote the sentences nearest to the mean of the section and to a direction."""
        first = 0.15 / np.arange(1, len(self.sentences) + 1, dtype=np.float32)
        scores = self.vectors @ (0.5 * self.mean + 0.3 * direction) + first
        return self.quote_best(scores, count, said)

    def quote_best(self, scores: Vectors, count: int, said: list[Vectors]) -> str:
        """Quote the best sentences that do not repeat what was said, in reading order."""
        places: list[int] = []
        for place in np.argsort(-scores, kind="stable").tolist():
            vector = self.vectors[place]
            is_new = all(float(vector @ other) <= _SAME for other in said)
            if is_new and scores[place] > 0 and len(places) < count:
                said.append(vector)
                places.append(place)
        return "".join(self.sentences[place].format() for place in sorted(places))


def _normalize(vector: Vectors) -> Vectors:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector


def write_outline(outline: Outline, sources: Sequence[Source], embedder: Embedder) -> Iterator[str]:
    """Yield the pieces of the answer to a request about documents as a whole."""
    if not outline.documents:
        return _write_not_found(outline)
    write = {
        "overview": _write_overview,
        "catalog": _write_list,
        "comparison": _write_comparison,
        "summary": _write_topic if outline.is_topic else _write_summary,
    }[outline.kind]
    return write(outline, sources, embedder)


def _write_not_found(outline: Outline) -> Iterator[str]:
    yield f"{NO_ANSWER}\n\nNo document on “{clean_label(outline.subject)}” was found."
    names = ", ".join(f"{group.name or 'others'} ({group.count})" for group in outline.groups)
    yield f" There are {_count_documents(outline.total)}: {names}."


def name_document(entry: DocumentEntry) -> str:
    """Return the title of a document, else its file name."""
    return clean_label(entry.title or entry.name.rsplit("/", 1)[-1]) or entry.name


def clean_label(label: str) -> str:
    """Return a heading as a label: on one line, without its number and without markup."""
    plain = _NUMBERING.sub("", " ".join(clean_for_reading(label).split()).strip(" #:;.*_"))
    return escape_markers(plain.replace(". ", " ").replace("*", ""))


def _name_in_full(entry: DocumentEntry) -> str:
    title = name_document(entry)
    return title if title == entry.name else f"{title} ({entry.name})"


def _count_documents(count: int) -> str:
    return f"{count} document{'' if count == 1 else 's'}"


def _write_summary(
    outline: Outline, sources: Sequence[Source], embedder: Embedder
) -> Iterator[str]:
    documents = outline.documents
    is_one = len(documents) == 1
    groups = _group_by_heading(sources) if is_one else _group_by_document(documents, sources)
    if not groups:
        yield f"{NO_ANSWER}\n\n{_name_in_full(documents[0])} has no sentences to quote."
        return
    kept = _embed_sections(groups, embedder, _MAX_SECTIONS)
    of = _name_in_full(documents[0]) if is_one else _count_documents(len(groups))
    part = f" ({len(kept)} of {len(groups)} sections)" if len(kept) < len(groups) else ""
    yield f"Key sentences of {of}{part}, in {'its' if is_one else 'their'} own words:"
    whole = _normalize(np.concatenate([section.vectors for section in kept]).mean(axis=0))
    count = 2 if len(kept) <= _FEW_SECTIONS and any(section.label for section in kept) else 1
    said: list[Vectors] = []
    for section in kept:
        if quoted := section.quote_central(whole, count, said):
            yield _format_heading(section.label) + quoted


def _write_topic(outline: Outline, sources: Sequence[Source], embedder: Embedder) -> Iterator[str]:
    """Quote what the passages say on a topic, under their headings."""
    groups = _group_by_heading(sources)
    if not groups:
        yield NO_ANSWER
        return
    sections = _embed_sections(groups, embedder, len(groups))
    topic = embedder.embed([outline.subject])[0]
    yield f"Key sentences of the documents on “{clean_label(outline.subject)}”, in their own words:"
    scores = [section.vectors @ topic for section in sections]
    floor = _ON_TOPIC * max(float(own.max()) for own in scores)
    count = 2 if len(sections) <= _FEW_SECTIONS else 1
    said: list[Vectors] = []
    for section, own in zip(sections, scores, strict=True):
        if quoted := section.quote_best(np.where(own < floor, 0, own), count, said):
            label = section.label or name_document(outline.documents[0])
            yield _format_heading(label) + quoted


def _write_comparison(
    outline: Outline, sources: Sequence[Source], embedder: Embedder
) -> Iterator[str]:
    """Put the sections of two documents that are about the same side by side."""
    names = [name_document(entry) for entry in outline.documents]
    own = [
        [source for source in sources if source.hit.chunk.document_id == entry.id]
        for entry in outline.documents
    ]
    groups = [_group_by_heading(half) if half else [] for half in own]
    if not all(groups):
        yield f"{NO_ANSWER}\n\nThere is nothing to compare in {names[0]} and {names[1]}."
        return
    left, right = (
        _embed_sections(half, embedder, _MAX_SECTIONS_COMPARED, MAX_EMBEDDED // 2)
        for half in groups
    )
    yield f"Comparison of {names[0]} and {names[1]}, in their own words:"
    pairs = pair_sections(left, right)
    for one, other in pairs:
        labels = {label.casefold(): label for label in (other.label, one.label) if label}
        middle = _normalize(one.mean + other.mean)
        yield _format_heading(" / ".join(reversed(labels.values())) or f"{names[0]} / {names[1]}")
        yield one.quote_central(middle, 1, []) + other.quote_central(middle, 1, [])
    for name, half, place in ((names[0], left, 0), (names[1], right, 1)):
        paired = [id(pair[place]) for pair in pairs]
        if alone := [s.label for s in half if s.label and id(s) not in paired]:
            yield f"\n\n**Only in {name}: {', '.join(alone)}**"


def pair_sections(
    left: Sequence[Section], right: Sequence[Section]
) -> list[tuple[Section, Section]]:
    """Pair sections with the same heading or the same subject, each at most once."""
    alike = np.stack([s.mean for s in left]) @ np.stack([s.mean for s in right]).T
    for (at, one), (to, other) in itertools.product(enumerate(left), enumerate(right)):
        alike[at, to] += bool(one.label) and one.label.casefold() == other.label.casefold()
    found: dict[int, int] = {}
    for flat in np.argsort(-alike, axis=None, kind="stable").tolist():
        at, to = divmod(flat, len(right))
        if alike[at, to] >= _MIN_ALIKE and at not in found and to not in found.values():
            found[at] = to
    return [(left[at], right[to]) for at, to in sorted(found.items())]


def _write_overview(
    outline: Outline, sources: Sequence[Source], embedder: Embedder
) -> Iterator[str]:
    openings = _choose_openings(outline.documents, sources, embedder)
    yield f"Overview of {_count_documents(outline.total)}, from their titles and folders:"
    for group in outline.groups:
        main = group.documents[0]
        yield _format_entry(_name_group(group), openings.get(main.id, ""))


def _name_group(group: DocumentGroup) -> str:
    if group.count == 1:
        return _name_in_full(group.documents[0])
    names = dict.fromkeys(name_document(entry)[:_MAX_NAME_CHARS] for entry in group.documents)
    shown = list(names)[:_NAMES_IN_GROUP]
    more = ", …" if group.count > len(shown) else ""
    return f"{group.name or 'others'}: {_count_documents(group.count)} ({', '.join(shown)}{more})"


def _write_list(outline: Outline, sources: Sequence[Source], embedder: Embedder) -> Iterator[str]:
    openings = _choose_openings(outline.documents, sources, embedder)
    count, total = outline.count, outline.total
    if count == total:
        yield f"There are {_count_documents(total)}:"
    else:
        verb = "matches" if count == 1 else "match"
        yield f"{count} of {_count_documents(total)} {verb} “{clean_label(outline.subject)}”:"
    for entry in outline.documents:
        yield _format_entry(_name_in_full(entry), openings.get(entry.id, ""))
    if hidden := count - len(outline.documents):
        yield f"\n\n**{hidden} more**"


def _choose_openings(
    entries: Sequence[DocumentEntry], sources: Sequence[Source], embedder: Embedder
) -> dict[str, str]:
    """Quote of each document the sentence of its beginning that is nearest to its title."""
    groups = _group_by_document(entries, sources)
    if not groups:
        return {}
    sections = _embed_sections(groups, embedder, len(groups))
    titles = embedder.embed([section.label for section in sections])
    return {
        section.document_id: section.quote_central(title, 1, [])
        for section, title in zip(sections, titles, strict=True)
    }


def _format_heading(label: str) -> str:
    return f"\n\n**{label}**" if label else "\n"


def _format_entry(name: str, opening: str) -> str:
    plain = escape_markers(name.replace("*", ""))
    return f"\n\n**{plain}:**{opening}" if opening else f"\n\n**{plain}**"


def list_sentences(source: Source) -> list[Sentence]:
    """List the sentences of a source that can be quoted alone; its first row where there are
    none."""
    found, rows = [], []
    for unit in list_units(source):
        text = " ".join(clean_for_reading(_ITEM_MARK.sub("", unit.sentence)).split())
        if text.count("*") % 2:  # emphasis that begins or ends in another sentence
            text = text.strip("*")
        sentence = Sentence(text, source.number, unit.start, unit.end)
        if unit.kind == "row":
            rows.append(sentence)
        elif unit.kind in ("sentence", "item") and unit.lead is None and _is_whole(text):
            found.append(sentence)
    chosen = found or rows[:1]
    return [sentence for sentence in chosen if not has_instructions(sentence.text)]


def _is_whole(text: str) -> bool:
    words = max(len(text.split()), len(text) // 8)
    is_statement = text.rstrip("\"'”’»)]*").endswith((".", "!", "…", "。", "！"))
    return is_statement and _MIN_WORDS <= words <= _MAX_WORDS


def _group_by_document(
    entries: Sequence[DocumentEntry], sources: Sequence[Source]
) -> list[Section]:
    found = []
    for entry in entries:
        own = [source for source in sources if source.hit.chunk.document_id == entry.id]
        if sentences := [sentence for source in own for sentence in list_sentences(source)]:
            found.append(Section(name_document(entry), sentences, entry.id))
    return found


def _group_by_heading(sources: Sequence[Source]) -> list[Section]:
    """Group sentences by the main headings of one document; without any, by place."""
    paths = [source.hit.chunk.heading_path for source in sources]
    depth = count_shared([path for path in paths if path])
    groups: dict[str, list[Sentence]] = defaultdict(list)
    for source, path in zip(sources, paths, strict=True):
        if sentences := list_sentences(source):
            groups[clean_label(path[depth]) if len(path) > depth else ""] += sentences
    document_id = sources[0].hit.chunk.document_id
    if len(groups) != 1:
        return [Section(label, own, document_id) for label, own in groups.items()]
    (sentences,) = groups.values()
    parts = min(_PARTS_WITHOUT_HEADINGS, max(1, len(sentences) // 3))
    edges = [round(at * len(sentences) / parts) for at in range(parts + 1)]
    return [Section("", sentences[a:b], document_id) for a, b in itertools.pairwise(edges)]


def count_shared(paths: Iterable[Sequence[str]]) -> int:
    """Count the parts that all paths begin with."""
    levels = zip(*paths, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda parts: len(set(parts)) == 1, levels))


def _embed_sections(
    sections: Sequence[Section], embedder: Embedder, limit: int, total: int = MAX_EMBEDDED
) -> list[Section]:
    """Embed sentences of the first and the longest sections, evenly spread over each."""
    order = sorted(sections, key=lambda section: -sum(len(s.text) for s in section.sentences))
    longest = {id(section) for section in (sections[0], *order)[:limit]}
    most = max(3, total // len(longest))
    kept = [
        replace(section, sentences=section.sentences[:: -(-len(section.sentences) // most)])
        for section in sections
        if id(section) in longest
    ]
    texts = [s.text[:_MAX_CHARS_EMBEDDED] for section in kept for s in section.sentences]
    owners = [section.document_id for section in kept for _ in section.sentences]
    ends = itertools.accumulate(len(section.sentences) for section in kept)
    vectors = np.split(embed_sentences(embedder, texts, owners), list(ends)[:-1])
    return [replace(section, vectors=own) for section, own in zip(kept, vectors, strict=True)]
