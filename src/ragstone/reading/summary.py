"""Write summaries, comparisons, overviews and lists of documents in the documents' own words.

outline and sources → text with markers. Every statement is a sentence of a source, word for word.
Headings and lines that end with a colon come from the catalog and cite nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragstone.outline import DocumentEntry, DocumentGroup, Outline
from ragstone.protocols import Embedder, Vectors
from ragstone.reading.markers import escape_markers
from ragstone.reading.sections import (
    MAX_EMBEDDED,
    Section,
    Sentence,
    choose_central,
    choose_on_topic,
    choose_pair,
    clean_label,
    embed_sections,
    find_center,
    is_same_label,
    keep_longest,
    list_sentences,
    pair_sections,
    score_sentences,
    split_sections,
)
from ragstone.types import NO_ANSWER, Source

NEEDS_MODEL = (
    "Without a language model Ragstone only quotes: it cannot write, rewrite or translate a text. "
    "Set LLM_PROVIDER to connect a model; the page “Ground” of the documentation says how."
)
_MAX_SECTIONS, _MAX_SECTIONS_COMPARED = 8, 12
# A document with so few sections gets two sentences of each.
_FEW_SECTIONS = 4
_MAX_NAMES = 15
_NAMES_IN_GROUP, _MAX_NAME_CHARS = 5, 60


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
        name_document(group.documents[0])
        if group.count == 1
        else f"{group.name or 'others'} ({group.count})"
        for group in outline.groups
    ]
    if outline.total <= _MAX_NAMES:
        names = [name_document(one) for group in outline.groups for one in group.documents]
    return (
        f"No document on “{clean_label(outline.subject)}” was found. "
        f"There are {_count_documents(outline.total)}: {', '.join(names)}."
    )


def name_document(entry: DocumentEntry) -> str:
    """Return the title of a document, else its file name."""
    return clean_label(entry.title or entry.name.rsplit("/", 1)[-1]) or entry.name


def _name_in_full(entry: DocumentEntry) -> str:
    title = name_document(entry)
    return title if title == entry.name else f"{title} ({entry.name})"


def _count_documents(count: int) -> str:
    return f"{count} document{'' if count == 1 else 's'}"


def _name_group(group: DocumentGroup) -> str:
    names = list(dict.fromkeys(_shorten(name_document(one)) for one in group.documents))
    more = ", …" if group.count > len(names[:_NAMES_IN_GROUP]) else ""
    name = group.name or "others"
    count = _count_documents(group.count)
    return f"{name}: {count} ({', '.join(names[:_NAMES_IN_GROUP])}{more})"


def _shorten(name: str) -> str:
    return name if len(name) <= _MAX_NAME_CHARS else f"{name[:_MAX_NAME_CHARS].rstrip()}…"


def _split_by_document(outline: Outline, sources: Sequence[Source]) -> list[Section]:
    found = []
    for entry in outline.documents:
        own = [s for s in sources if s.hit.chunk.document_id == entry.id]
        sentences = [one for source in own for one in list_sentences(source)]
        if sentences:
            found.append(Section(name_document(entry), sentences))
    return found


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
    if outline.is_topic:
        yield from _write_topic(outline, sections, embedder)
        return
    kept = keep_longest(sections, _MAX_SECTIONS)
    embed_sections(kept, embedder)
    whole = find_center(kept)
    of = _name_in_full(documents[0]) if is_one else _count_documents(len(sections))
    part = f" ({len(kept)} of {len(sections)} sections)" if len(kept) < len(sections) else ""
    own = "the document's" if is_one else "their"
    about = "" if is_one else f" on “{clean_label(outline.subject)}”" if outline.subject else ""
    yield f"Extractive summary of {of}{about}{part}, in {own} own words:"
    per_section = 2 if len(kept) <= _FEW_SECTIONS and any(one.label for one in kept) else 1
    said: list[Vectors] = []
    for section in kept:
        chosen = choose_central(section, whole, per_section, said)
        if chosen:
            yield "\n" + _format_section(section.label, chosen)


def _write_topic(
    outline: Outline, sections: Sequence[Section], embedder: Embedder
) -> Iterator[str]:
    """Quote what the passages say on a topic, under their headings."""
    embed_sections(sections, embedder)
    subject = clean_label(outline.subject)
    yield f"Extractive summary of what the documents say on “{subject}”, in their own words:"
    chosen = choose_on_topic(sections, embedder.embed([subject])[0])
    only = name_document(outline.documents[0])
    for section, sentences in zip(sections, chosen, strict=True):
        if sentences:
            yield "\n" + _format_section(section.label or only, sentences)


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
    kept = [keep_longest(half, _MAX_SECTIONS_COMPARED) for half in halves]
    embed_sections([*kept[0], *kept[1]], embedder, prefer_figures=True)
    pairs = pair_sections(kept[0], kept[1], embedder)
    yield f"Comparison of {names[0]} and {names[1]}, in their own words:"
    said: list[Sentence] = []
    for name, half in zip(names, kept, strict=True):
        said += choose_central(half[0], find_center(half), 1, [])
        yield "\n" + _format_section(name, said[-1:])
    for one, other in pairs:
        first, second = choose_pair(one, other)
        if first in said or second in said:
            continue
        labels = [one.label] if is_same_label(one, other) else [one.label, other.label]
        heading = " / ".join(filter(None, labels))
        yield "\n" + (f"\n**{heading}**" if heading else "")
        yield f"\n- {first.format()}\n- {second.format()}"
    for name, half, place in ((names[0], kept[0], 0), (names[1], kept[1], 1)):
        paired = {id(pair[place]) for pair in pairs}
        alone = [s.label for s in half if id(s) not in paired and s.label]
        if alone:
            yield f"\n\n**Only in {name}: {', '.join(alone)}**"


def choose_openings(
    entries: Sequence[DocumentEntry], sources: Sequence[Source], embedder: Embedder
) -> dict[str, Sentence]:
    """Choose for each document the sentence of its beginning that is nearest to its title."""
    sections: dict[str, Section] = {}
    for entry in entries:
        own = [s for s in sources if s.hit.chunk.document_id == entry.id]
        sentences = [one for source in own for one in list_sentences(source)]
        if sentences:
            limit = max(3, MAX_EMBEDDED // len(entries))
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
        yield f"{count} of {_count_documents(total)} {verb} “{clean_label(outline.subject)}”:"
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
