"""Find the documents that a question names: "the notice period in the lease", "under the GPL"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragstone.index.analyze import extract_terms
from ragstone.types import Source

_SEPARATOR = re.compile(r"[\W_]+|(?<=[^\W\d_]{2})v?(?=\d)")


def find_named_documents(question: str, sources: Sequence[Source]) -> set[str]:
    """Return the document whose file name has no word that the question lacks; empty for none or
    several.

    Numbers may be left out, but where both have some ("QPL 2", `QPL-3.txt`) one must be the same.
    """
    asked = _list_terms(question)
    named: set[str] = set()
    for chunk in {source.hit.chunk.document_id: source.hit.chunk for source in sources}.values():
        stem, _, ending = chunk.document_name.rpartition("/")[2].rpartition(".")
        terms = _list_terms(stem or ending)
        words, numbers = _drop_numbers(terms), terms - _drop_numbers(terms)
        other_numbers = numbers and asked - _drop_numbers(asked) and not numbers & asked
        if words and words <= asked and not other_numbers:
            named.add(chunk.document_id)
    return named if len(named) == 1 else set()


def _list_terms(text: str) -> set[str]:
    return set(extract_terms(_SEPARATOR.sub(" ", text)))


def _drop_numbers(terms: set[str]) -> set[str]:
    return {term for term in terms if not term.isdigit()}
