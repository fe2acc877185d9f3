"""Shape the events of the engine into the JSON of each endpoint.

One loop (`shape_events`) reads the events of `ragstone.events`; a skin per endpoint says
what each of them looks like there. A skin may answer one event with no value or with several.
Citations link to the page that opens a source at its place.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote

from ragstone.events import (
    ClaimsChecked,
    Comparison,
    Event,
    Finished,
    SideEvent,
    SideName,
    SourcesFound,
    Token,
)
from ragstone.query.ground.cite import Marker, Notation, Statement, split_statements
from ragstone.reading.markers import MARKER_BY_CHUNK, MARKER_BY_NUMBER
from ragstone.server.schemas import (
    ChatData,
    CitationReply,
    ClaimReply,
    ComparedData,
    CompletionUsage,
    QueryReply,
    SourceReply,
    name_finish,
)
from ragstone.settings import Settings
from ragstone.types import Answer, Citation, Claim, Source

Fields: TypeAlias = dict[str, Any]
FieldsStream: TypeAlias = AsyncGenerator[Fields, None]


REPLACED_NOTICE = "\n\n---\nThe text above is withdrawn: the check replaced it.\n\n"


def _has_same_words(shown: str, final: str) -> bool:
    """Return True when two texts differ at most in markers and white space."""

    def strip(text: str) -> str:
        return "".join(MARKER_BY_CHUNK.sub("", MARKER_BY_NUMBER.sub("", text)).split())

    return strip(shown) == strip(final)


class Skin(Protocol):
    """Say what the events of a stream look like at one endpoint."""

    def shape_start(self) -> Iterable[Fields]: ...

    def shape_sources(self, sources: tuple[Source, ...]) -> Iterable[Fields]: ...

    def shape_token(self, token: Token) -> Iterable[Fields]: ...

    def shape_answer(self, answer: Answer) -> Iterable[Fields]: ...


async def shape_events(events: AsyncGenerator[Event, None], skin: Skin) -> FieldsStream:
    """Turn each event into the JSON values of a skin."""
    for fields in skin.shape_start():
        yield fields
    async with aclosing(events):
        async for event in events:
            for fields in _shape_event(event, skin):
                yield fields


def _shape_event(event: Event, skin: Skin) -> Iterable[Fields]:
    if isinstance(event, Token):
        return skin.shape_token(event)
    if isinstance(event, SourcesFound):
        return skin.shape_sources(event.sources)
    if isinstance(event, ClaimsChecked):
        return skin.shape_verdicts(event) if isinstance(skin, QuerySkin) else ()
    return skin.shape_answer(event.answer)


class _EventSkin:
    """Share what Ragstone's own streams have in common: values with a `type`."""

    def shape_start(self) -> Iterable[Fields]:
        return ()

    def __init__(self) -> None:
        self._shown = ""

    def shape_sources(self, sources: tuple[Source, ...]) -> Iterable[Fields]:
        return ({"type": "sources", "sources": _dump_sources(sources)},)

    def shape_token(self, token: Token) -> Iterable[Fields]:
        self._shown += token.text
        return ({"type": "token", "content": token.text},)

    def announce_replacement(self, answer: Answer) -> Iterable[Fields]:
        """Say that the finished answer is another text than the tokens, if it is."""
        if self._shown.strip() != answer.text.strip():
            yield {"type": "replaced", "content": answer.text}


class QuerySkin(_EventSkin):
    """Shape the stream of `POST /v1/query`: sources, tokens, verdicts, claims, done."""

    def shape_token(self, token: Token) -> Iterable[Fields]:
        for fields in super().shape_token(token):
            yield {**fields, "verified": token.verified}

    def shape_verdicts(self, event: ClaimsChecked) -> Iterable[Fields]:
        if event.claims:
            yield {"type": "verdicts", "claims": _dump_claims(event.claims)}
        if event.withheld:
            yield {"type": "withheld", "sentences": event.withheld}

    def shape_answer(self, answer: Answer) -> Iterable[Fields]:
        yield from self.announce_replacement(answer)
        yield {
            "type": "claims",
            "answer": answer.text,
            "claims": _dump_claims(answer.claims),
            "citations": _dump_citations(answer),
        }
        yield {"type": "done", **QueryReply.of(answer).model_dump(mode="json")}


class ChatSkin(_EventSkin):
    """Shape the stream of `POST /api/chat/stream`: sources, tokens, done with the whole reply."""

    def shape_answer(self, answer: Answer) -> Iterable[Fields]:
        yield from self.announce_replacement(answer)
        yield _shape_chat_end(ChatData.of(answer))


class ChatRoomSkin(_EventSkin):
    """Shape the stream of `POST /chat/{chat_id}/stream`: tokens, sources, done."""

    def __init__(self, session_id: str) -> None:
        super().__init__()
        self._session_id = session_id

    def shape_sources(self, sources: tuple[Source, ...]) -> Iterable[Fields]:
        return ()  # sent after the last token

    def shape_answer(self, answer: Answer) -> Iterable[Fields]:
        yield from self.announce_replacement(answer)
        yield {"type": "sources", "sources": _dump_sources(answer.sources)}
        yield {
            "type": "done",
            "is_grounded": answer.is_grounded,
            "groundedness_score": answer.groundedness_score,
            "confidence": answer.confidence,
            "status": answer.status,
            "answer": answer.text,
            "searched_as": answer.searched_as,
            "citations": _dump_citations(answer),
            "degraded": list(answer.degraded),
            "cached": answer.cached,
            "detected_intent": answer.detected_intent,
            "query_id": answer.query_id,
            "session_id": self._session_id,
        }


class CompletionSkin:
    """Shape the stream of `POST /v1/chat/completions`: chunks of OpenAI's protocol."""

    def __init__(
        self,
        *,
        completion_id: str,
        model: str,
        base_url: str,
        count_usage: Callable[[Answer], CompletionUsage] | None,
    ) -> None:
        self._completion_id = completion_id
        self._model = model
        self._base_url = base_url
        self._count_usage = count_usage
        self._created = int(time.time())
        self._content = ""

    def shape_start(self) -> Iterable[Fields]:
        return (self._build_delta({"role": "assistant", "content": ""}),)

    def shape_sources(self, sources: tuple[Source, ...]) -> Iterable[Fields]:
        return ()

    def shape_token(self, token: Token) -> Iterable[Fields]:
        self._content += token.text
        return (self._build_delta({"content": token.text}),)

    def shape_answer(self, answer: Answer) -> Iterable[Fields]:
        if not _has_same_words(self._content, answer.text):
            # What was received cannot be taken back; the answer that counts follows it.
            notice = f"{REPLACED_NOTICE}{answer.text}" if self._content.strip() else answer.text
            self._content += notice
            yield self._build_delta({"content": notice})
        annotations = annotate_citations(answer, self._content, self._base_url)
        end = self._build_delta({"annotations": annotations}, finish_reason=name_finish(answer))
        yield end | {"searched_as": answer.searched_as, "cached": answer.cached}
        if self._count_usage is not None:
            yield self._build_chunk([]) | {"usage": self._count_usage(answer).model_dump()}

    def _build_delta(self, delta: Fields, finish_reason: str | None = None) -> Fields:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return self._build_chunk([choice])

    def _build_chunk(self, choices: list[Fields]) -> Fields:
        return {
            "id": self._completion_id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            "choices": choices,
        }


async def shape_comparison(
    events: AsyncGenerator[SideEvent, None], settings: Settings
) -> FieldsStream:
    """Shape two answers that are written side by side: each event names its side but the last."""
    skins = {"baseline": ChatSkin(), "enhanced": ChatSkin()}
    answers: dict[SideName, Answer] = {}
    async for one in events:
        if isinstance(one.event, Finished):
            answers[one.side] = one.event.answer
            for fields in skins[one.side].announce_replacement(one.event.answer):
                yield {**fields, "side": one.side}
            continue
        for fields in _shape_event(one.event, skins[one.side]):
            yield {**fields, "side": one.side}
    yield _shape_chat_end(ComparedData.of(Comparison(**answers), settings))


def shape_tool_answer(answer: Answer, base_url: str) -> Fields:
    """Shape an answer for an assistant (the tool `ask` of the Model Context Protocol)."""
    return {
        "answer": answer.text,
        "searched_as": answer.searched_as,
        "status": answer.status,
        "confidence": answer.confidence,
        "is_grounded": answer.is_grounded,
        "cached": answer.cached,
        "citations": [
            {
                "id": citation.chunk_id,
                "title": citation.document_name,
                "url": link_source(base_url, citation.document_id, citation.start, citation.end),
                "snippet": citation.snippet,
                "verdict": citation.verdict,
            }
            for citation in answer.citations
        ],
    }


def _shape_chat_end(data: ChatData | ComparedData) -> Fields:
    return {"type": "done", "success": True, "data": data.model_dump(mode="json")}


def _dump_sources(sources: tuple[Source, ...]) -> list[Fields]:
    return [SourceReply.of(source).model_dump() for source in sources]


def _dump_claims(claims: Iterable[Claim]) -> list[Fields]:
    return [ClaimReply.model_validate(claim).model_dump() for claim in claims]


def _dump_citations(answer: Answer) -> list[Fields]:
    return [CitationReply.model_validate(citation).model_dump() for citation in answer.citations]


def link_source(base_url: str, document_id: str, start: int, end: int) -> str:
    """Build the address at which the page shows a span of a document."""
    return f"{base_url}/#/source/{quote(document_id, safe='')}/{start}/{end}"


def annotate_citations(answer: Answer, content: str, base_url: str) -> list[dict[str, Any]]:
    """Place each citation at its marker in `content`, or at its sentence if the marker is missing.

    `content` is what the client received; a checked answer may differ from it.
    """
    notation = Notation(answer.sources)
    sentences, markers = split_statements(content, notation), list(notation.find_markers(content))
    annotations = []
    rest = list(answer.citations)
    for claim in answer.claims:
        if _shares_marker(claim, sentences):
            continue
        for number in claim.citations:
            citation = _pop_citation(rest, number)
            span = _find_span(claim, number, sentences, markers)
            if citation is not None and span is not None:
                annotations.append(_build_annotation(citation, span, base_url))
    return annotations


def _shares_marker(claim: Claim, sentences: list[Statement]) -> bool:
    """Return True for an item of a list whose marker stands after a later item."""
    sentence = next((one for one in reversed(sentences) if one.text == claim.text), None)
    return sentence is not None and not sentence.all_numbers and bool(sentence.shared_numbers)


def _pop_citation(rest: list[Citation], number: int) -> Citation | None:
    """Take the next citation with this number: they are in the order of the claims."""
    for position, citation in enumerate(rest):
        if citation.number == number:
            return rest.pop(position)
    return None


def _find_span(
    claim: Claim, number: int, sentences: list[Statement], markers: list[Marker]
) -> tuple[int, int] | None:
    # From the end: after a provider failed half way, the same sentence may be there twice.
    sentence = next((one for one in reversed(sentences) if one.text == claim.text), None)
    if sentence is None:
        return None
    own = (
        m
        for m in markers
        if sentence.start <= m.start < sentence.next_start and number in m.numbers
    )
    return next(((m.start, m.end) for m in own), (sentence.start, sentence.end))


def _build_annotation(citation: Citation, span: tuple[int, int], base_url: str) -> dict[str, Any]:
    page = f", page {citation.page}" if citation.page else ""
    return {
        "type": "url_citation",
        "url_citation": {
            "start_index": span[0],
            "end_index": span[1],
            "url": link_source(base_url, citation.document_id, citation.start, citation.end),
            "title": f"{citation.document_name}{page}",
        },
    }
