"""Answers to questions that were asked before, as long as their collection has not changed.

Only answers that would be the same again are kept: quoted ones, and those of a model at
temperature 0.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace

from ragstone.errors import StoreError
from ragstone.stages import Catalog, Index, Provider
from ragstone.trace import Trace
from ragstone.types import Answer, Event, Finished, Query, SourcesFound, Token


class RepeatedAnswers:
    """The `most` recent answers by question and everything that limits its search."""

    def __init__(self, catalog: Catalog, index: Index, provider: Provider, *, most: int) -> None:
        self._catalog = catalog
        self._index = index
        self._quotes = provider.name == "extractive"
        self._most = most
        self._answers: OrderedDict[str, tuple[int, Answer]] = OrderedDict()

    def version(self, query: Query) -> int | None:
        """The state of the collection that an answer will rest on; None: it is not kept."""
        if not self._most or not (self._quotes or query.temperature == 0):
            return None
        version = self._catalog.last_change(query.collection)
        try:
            seen = self._index.last_change(query.collection)
        except StoreError:  # the search meets it again, and knows what to do without
            return None
        # An index follows the catalog; what it finds before it has caught up is soon out of date.
        return version if seen == version else None

    def find(self, query: Query, version: int | None) -> Answer | None:
        key = _key(query)
        held, answer = self._answers.get(key, (None, None))
        if answer is None or version is None or held != version:
            return None
        self._answers.move_to_end(key)
        return answer

    def keep(self, query: Query, version: int | None, answer: Answer) -> None:
        """A degraded answer is not kept: the next one may be whole."""
        if version is None or answer.degraded:
            return
        self._answers[_key(query)] = (version, answer)
        if len(self._answers) > self._most:
            self._answers.popitem(last=False)


def replay(query: Query, answer: Answer, trace: Trace) -> Iterator[Event]:
    """The events of an answer that is there already, under the id of this query."""
    with trace.span("repeat") as span:
        span.count(first_asked_as=answer.query_id)
    # The way of the chunks is that of the first time: nothing has changed since.
    record = {**trace.as_dict(), "waterfall": answer.trace.get("waterfall", {})}
    yield SourcesFound(answer.sources)
    yield Token(answer.text)
    yield Finished(replace(answer, query_id=query.id, trace=record))


def _key(query: Query) -> str:
    return repr(replace(query, id=""))
