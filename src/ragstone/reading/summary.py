"""Write summaries, comparisons, overviews and lists of documents in the documents' own words.

outline and sources → text with markers. Every statement is a sentence of a source, word for word.
Headings and lines that end with a colon come from the catalog and cite nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ragstone.protocols import Embedder, Vectors
from ragstone.reading.layout import LEAD_IN, clean_for_reading, find_blocks
from ragstone.reading.units import escape_markers, has_instructions, split_units
from ragstone.text import find_sentence_spans
from ragstone.types import NO_ANSWER, DocumentEntry, DocumentGroup, Outline, Source

NEEDS_MODEL = (
    "Without a language model Ragstone only quotes: it cannot write, rewrite or translate a text. "
    "Set LLM_PROVIDER to connect a model; the page “Ground” of the documentation says how."
)
# So many sentences are embedded at most, each cut to so many characters: about 100 CPU ms.
_MAX_EMBEDDED = 56
_MAX_CHARS_EMBEDDED = 160
_MAX_SECTIONS = 8
_MAX_SECTIONS_COMPARED = 12
_FEW_SECTIONS = 4
_PARTS_WITHOUT_HEADINGS = 5
_MIN_WORDS, _MAX_WORDS = 5, 60
_SAME = 0.92
# Two sections are compared when they are about the same.
_MIN_ALIKE = 0.5
_MAX_NAMES = 12
_ITEM_MARK = re.compile(r"^\s*(?:[-*+•▪◦–]|\d{1,3}[.)]|\(?[a-z]\))\s+")
_SENTENCE_END = re.compile(r"[.!?…。！？]['\"”’»)\]]*$")
# "This lease is made between …" stands alone; "This means …" does not.
_POINTS_BACK = re.compile(
    r"^(?:(?:it|its|they|their|he|his|she|her|such|otherwise|however|but|so|then|there|also|and|or|"
    r"for example|es|er|sie|danach|il|elle|ils|cela|esto|eso|ciò)\b"
    r"|(?:this|that|these|those|dies\w*)\s+(?:is|are|was|were|means?|can|could|will|would|has|have|"
    r"had|may|must|should|makes?|allows?|applies|ensures?|includes?|also|does|do|ist|sind|kann)\b)",
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


def write_outline(outline: Outline, sources: Sequence[Source], embedder: Embedder) -> Iterator[str]:
    """Yield the pieces of the answer to a request about documents as a whole."""
    if not outline.documents:
        yield f"{NO_ANSWER}\n\n{name_what_there_is(outline)}"
    elif outline.kind == "overview":
        yield from _write_overview(outline, sources, embedder)
    elif outline.kind == "catalog":
        yield from _write_list(outline, sources, embedder)
    elif outline.kind == "comparison":
        yield from _write_comparison(outline, sources, embedder)
    else:
        yield from _write_summary(outline, sources, embedder)


def name_what_there_is(outline: Outline) -> str:
    """Say that the documents asked for were not found, and which there are."""
    names = [
        _name_group(group) if group.count > 1 else name_document(group.documents[0])
        for group in outline.groups
    ]
    listed = "; ".join(names[:_MAX_NAMES])
    more = "; …" if len(names) > _MAX_NAMES else ""
    return (
        f"No document on “{outline.subject}” was found. "
        f"There are {_count_documents(outline.total)}: {listed}{more}."
    )


def name_document(entry: DocumentEntry) -> str:
    """Return the title of a document, else its file name."""
    return _clean_label(entry.title or entry.name.rsplit("/", 1)[-1]) or entry.name


def _name_in_full(entry: DocumentEntry) -> str:
    title = name_document(entry)
    return title if title == entry.name else f"{title} ({entry.name})"


def _count_documents(count: int) -> str:
    return f"{count} document{'' if count == 1 else 's'}"


def _name_group(group: DocumentGroup) -> str:
    names = list(dict.fromkeys(name_document(one) for one in group.documents))
    more = ", …" if group.count > len(names) else ""
    name = f"{group.name}: " if group.name else "others: "
    return f"{name}{_count_documents(group.count)} ({', '.join(names)}{more})"


def list_sentences(source: Source) -> list[Sentence]:
    """List the sentences of a source that can stand alone; its first row where there are none."""
    text = clean_for_reading(source.text).text
    found: list[Sentence] = []
    for block in find_blocks(text):
        if block.kind not in ("paragraph", "item"):
            continue
        body = text[block.start : block.end]
        for start, end in find_sentence_spans(body):
            plain = _strip_emphasis(" ".join(_ITEM_MARK.sub("", body[start:end]).split()))
            if _can_stand_alone(plain):
                found.append(Sentence(source.number, plain, block.kind == "item"))
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
            own = sections.setdefault(label, Section(_clean_label(label), []))
            own.sentences += list_sentences(source)
    found = [one for one in sections.values() if one.sentences]
    if len(found) > 1 or not found:
        return found
    return _split_by_place(found[0])


def _clean_label(label: str) -> str:
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


def _split_by_document(outline: Outline, sources: Sequence[Source]) -> list[Section]:
    found = []
    for entry in outline.documents:
        own = [s for s in sources if s.hit.chunk.document_id == entry.id]
        sentences = [one for source in own for one in list_sentences(source)]
        if sentences:
            found.append(Section(name_document(entry), sentences))
    return found


def embed_sections(sections: Sequence[Section], embedder: Embedder) -> None:
    """Embed the sentences of all sections in one batch: of each the first, the rest spread."""
    limit = max(3, _MAX_EMBEDDED // (len(sections) or 1))
    for section in sections:
        section.sentences = _take_spread(section.sentences, limit)
    texts = [one.text[:_MAX_CHARS_EMBEDDED] for section in sections for one in section.sentences]
    vectors = embedder.embed(texts)
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
    own = _normalize(section.vectors.mean(axis=0))
    scores: Vectors = 0.5 * (section.vectors @ own) + 0.3 * (section.vectors @ whole)
    for place, one in enumerate(section.sentences):
        scores[place] += begins / (1 + place)
        scores[place] -= 0.15 * bool(_POINTS_BACK.match(one.text)) + 0.05 * one.is_item
    return scores


def _normalize(vector: Vectors) -> Vectors:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector


def _write_summary(
    outline: Outline, sources: Sequence[Source], embedder: Embedder
) -> Iterator[str]:
    documents = outline.documents
    is_one = len(documents) == 1
    sections = split_sections(sources) if is_one else _split_by_document(outline, sources)
    if not sections:
        has_none = f"{_name_in_full(documents[0])} has no sentences to quote."
        yield f"{NO_ANSWER}\n\n{name_what_there_is(outline) if outline.groups else has_none}"
        return
    kept = _keep_longest(sections, _MAX_SECTIONS)
    embed_sections(kept, embedder)
    whole = _normalize(np.concatenate([one.vectors for one in kept]).mean(axis=0))
    of = _name_in_full(documents[0]) if is_one else _count_documents(len(sections))
    part = f" ({len(kept)} of {len(sections)} sections)" if len(kept) < len(sections) else ""
    own = "the document's" if is_one else "their"
    about = "" if is_one else f" on “{outline.subject}”" if outline.subject else ""
    yield f"Extractive summary of {of}{about}{part}, in {own} own words:"
    per_section = 2 if len(kept) <= _FEW_SECTIONS and any(one.label for one in kept) else 1
    said: list[Vectors] = []
    for section in kept:
        chosen = _choose_central(section, whole, per_section, said)
        if chosen:
            yield "\n" + _format_section(section.label, chosen)


def _keep_longest(sections: Sequence[Section], limit: int) -> list[Section]:
    """Keep the longest sections, and the first one, in reading order."""
    order = sorted(range(len(sections)), key=lambda at: (at > 0, -sections[at].size))
    return [sections[at] for at in sorted(order[:limit])]


def _choose_central(
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


def _format_section(label: str, sentences: Sequence[Sentence]) -> str:
    heading = f"\n**{label}**" if label else ""
    return heading + "".join(f"\n- {one.format()}" for one in sentences)


def _write_comparison(
    outline: Outline, sources: Sequence[Source], embedder: Embedder
) -> Iterator[str]:
    """Put the sections of two documents that are about the same side by side."""
    names = [name_document(entry) for entry in outline.documents]
    halves = [
        split_sections([s for s in sources if s.hit.chunk.document_id == entry.id])
        for entry in outline.documents
    ]
    if not all(halves):
        yield f"{NO_ANSWER}\n\nThere is nothing to compare in {names[0]} and {names[1]}."
        return
    kept = [_keep_longest(half, _MAX_SECTIONS_COMPARED) for half in halves]
    embed_sections([*kept[0], *kept[1]], embedder)
    pairs = pair_sections(kept[0], kept[1], embedder)
    yield f"Comparison of {names[0]} and {names[1]}, in their own words:"
    for one, other in pairs:
        first, second = _choose_pair(one, other)
        heading = one.label if _is_same_label(one, other) else f"{one.label} / {other.label}"
        yield "\n" + (f"\n**{heading}**" if heading.strip(" /") else "")
        yield f"\n- {first.format()}\n- {second.format()}"
    for name, half, place in ((names[0], kept[0], 0), (names[1], kept[1], 1)):
        paired = {id(pair[place]) for pair in pairs}
        alone = [s.label for s in half if id(s) not in paired and s.label]
        if alone:
            yield f"\n\n**Only in {name}: {', '.join(alone)}**"


def pair_sections(
    left: Sequence[Section], right: Sequence[Section], embedder: Embedder
) -> list[tuple[Section, Section]]:
    """Pair sections with the same heading or the same subject, each at most once."""
    labels = [one.label or one.sentences[0].text for one in (*left, *right)]
    heads = embedder.embed([label[:_MAX_CHARS_EMBEDDED] for label in labels])
    means = np.stack([_normalize(one.vectors.mean(axis=0)) for one in (*left, *right)])
    count = len(left)
    alike = 0.5 * (heads[:count] @ heads[count:].T) + 0.5 * (means[:count] @ means[count:].T)
    found: list[tuple[int, int]] = []
    for flat in np.argsort(-alike, axis=None, kind="stable").tolist():
        one, other = divmod(flat, len(right))
        is_free = all(one != a and other != b for a, b in found)
        if is_free and (alike[one, other] >= _MIN_ALIKE or _is_same_label(left[one], right[other])):
            found.append((one, other))
    return [(left[one], right[other]) for one, other in sorted(found)]


def _is_same_label(one: Section, other: Section) -> bool:
    return one.label.casefold() == other.label.casefold()


def _choose_pair(one: Section, other: Section) -> tuple[Sentence, Sentence]:
    """Choose the two sentences that say most on the same point; figures count more."""
    scores = one.vectors @ other.vectors.T
    for section, axis in ((one, 0), (other, 1)):
        own = score_sentences(section, _normalize(section.vectors.mean(axis=0)))
        figures = [0.15 * any(c.isdigit() for c in s.text) for s in section.sentences]
        extra = 0.5 * own + np.array(figures, np.float32)
        scores = scores + (extra[:, None] if axis == 0 else extra[None, :])
    first, second = divmod(int(scores.argmax()), len(other.sentences))
    return one.sentences[first], other.sentences[second]


def choose_openings(
    entries: Sequence[DocumentEntry], sources: Sequence[Source], embedder: Embedder
) -> dict[str, Sentence]:
    """Choose for each document the sentence of its beginning that is nearest to its title."""
    sections: dict[str, Section] = {}
    for entry in entries:
        own = [s for s in sources if s.hit.chunk.document_id == entry.id]
        sentences = [one for source in own for one in list_sentences(source)]
        if sentences:
            limit = max(3, _MAX_EMBEDDED // len(entries))
            sections[entry.id] = Section(name_document(entry), sentences[:limit])
    if not sections:
        return {}
    embed_sections(list(sections.values()), embedder)
    titles = embedder.embed([one.label for one in sections.values()])
    found: dict[str, Sentence] = {}
    for (document_id, section), title in zip(sections.items(), titles, strict=True):
        # Twice the title: a beginning also holds dates of issue and names of authors.
        scores = score_sentences(section, title, begins=0.05) + 0.3 * (section.vectors @ title)
        found[document_id] = section.sentences[int(scores.argmax())]
    return found


def _write_overview(
    outline: Outline, sources: Sequence[Source], embedder: Embedder
) -> Iterator[str]:
    openings = choose_openings(outline.documents, sources, embedder)
    yield f"Overview of {_count_documents(outline.total)}, from their titles and folders:"
    for group in outline.groups:
        main = group.documents[0]
        name = _name_in_full(main) if group.count == 1 else _name_group(group)
        yield _format_entry(name, openings.get(main.id))


def _write_list(outline: Outline, sources: Sequence[Source], embedder: Embedder) -> Iterator[str]:
    openings = choose_openings(outline.documents, sources, embedder)
    count, total = outline.count, outline.total
    if count == total:
        yield f"There are {_count_documents(total)}:"
    else:
        verb = "matches" if count == 1 else "match"
        yield f"{count} of {_count_documents(total)} {verb} “{outline.subject}”:"
    for entry in outline.documents:
        if entry.id in openings:
            yield _format_entry(_name_in_full(entry), openings[entry.id])
    rest = [_name_in_full(one) for one in outline.documents if one.id not in openings]
    hidden = count - len(outline.documents)
    if rest or hidden:
        names = [*rest, *([f"{hidden} more"] if hidden else [])]
        yield f"\n\n**Also: {'; '.join(names).replace('*', '')}**"


def _format_entry(name: str, opening: Sentence | None) -> str:
    plain = escape_markers(name.replace("*", ""))
    if opening is None:
        return f"\n\n**{plain}**"
    return f"\n\n**{plain}:**\n- {opening.format()}"
