"""Build a query from a question and its options.

Both are validated, and options that are left out come from the settings.
"""

from __future__ import annotations

import difflib
import unicodedata
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, get_args

from ragstone.errors import InputError
from ragstone.files import check_collection
from ragstone.filters import Filter, parse_filter
from ragstone.query.understand.long_message import split_long_message
from ragstone.settings import Settings
from ragstone.text import is_storable
from ragstone.types import (
    DEFAULT_COLLECTION,
    CitationStyle,
    Expansion,
    Message,
    Query,
    RetrievalMethod,
)


class QueryOptions(TypedDict, total=False):
    """Set options of a question. An option that is left out or None comes from the settings.

    Example:

        from ragstone import Engine, QueryOptions

        engine = Engine()
        options: QueryOptions = {"collection": "default", "top_k": 3, "method": "keyword"}
        print(engine.ask_sync("How much is the rent?", **options).text)
        engine.close()
    """

    collection: str
    """The collection to search."""
    rag_enabled: bool | None
    """False: a plain chat; the model gets the messages as they are, without documents."""
    upload_id: str | None
    """Search only the documents of this upload."""
    document_ids: Sequence[str]
    """Search only these documents."""
    filters: Mapping[str, Any] | Filter | None
    """Search only documents with such metadata: `{"year": {"gte": 2020}}`."""
    method: RetrievalMethod | None
    """The search method: semantic, keyword or hybrid."""
    top_k: int | None
    """The number of hits that reach the prompt."""
    mmr_lambda: float | None
    """Relevance (1) against diversity (0) of those hits."""
    temperature: float | None
    """Sampling temperature of the model that writes."""
    history: Sequence[Message]
    """Earlier messages, if there is no session."""
    as_typed: bool
    """Search the question as it is typed: what was said before does not complete it."""
    is_chat: bool
    """A message of a chat: 1 to 32,000 characters, with pasted text if it is long."""
    citation_style: CitationStyle
    """The form of the citations in the text: `source` or `chunk`."""
    hold_markers: bool
    """Stream a sentence only when its markers are right."""
    mark_claims: bool
    """Stream a first verdict on each sentence as soon as it is written (`ClaimsChecked`)."""
    model: str | None
    """The model that writes."""
    choice: str | None
    """The provider that writes, `PROVIDER` or `PROVIDER:MODEL`: one of `Engine.model_choices`."""
    session_id: str | None
    """The conversation that this question continues; the answer is added to it."""
    owner: str
    """The owner of the session and the history entry."""
    request_id: str
    """The id of the trace; one is made when it is left out."""


def build_query(question: str, options: QueryOptions, settings: Settings) -> Query:
    """Validate a question and its options; raise an InputError if they cannot be used."""
    _check_options(options)
    rag_enabled = options.get("rag_enabled")
    is_plain = not (settings.retrieve.enabled if rag_enabled is None else rag_enabled)
    text, before, notes = _read_message(question, options.get("is_chat") or False, settings)
    expansions = tuple(Expansion("variant", one.content[:_PASTED_SEARCHED]) for one in before)
    if is_plain:
        # A plain chat goes to the model as it is, white space and all.
        before, notes, expansions = (Message("user", question),), (), ()
    mmr_lambda, temperature = options.get("mmr_lambda"), options.get("temperature")
    filters = options.get("filters")
    named = (options.get("upload_id"), options.get("model"), options.get("choice"))
    names = (*named, *(options.get("document_ids") or ()))
    if not all(is_storable(name) for name in names if name):
        raise InputError(
            "An upload id, document id or model name holds a NUL or surrogate character.",
            hint="Remove that character.",
        )
    return Query(
        id=uuid.uuid4().hex,
        text=text,
        collection=check_collection(options.get("collection") or DEFAULT_COLLECTION),
        upload_id=_check_upload_id(options.get("upload_id")),
        document_ids=tuple(options.get("document_ids") or ()),
        filter=parse_filter(filters) if isinstance(filters, Mapping) else filters,
        method=options.get("method") or settings.retrieve.method,
        top_k=options.get("top_k") or settings.refine.top_k,
        mmr_lambda=settings.refine.mmr_lambda if mmr_lambda is None else mmr_lambda,
        temperature=settings.temperature if temperature is None else temperature,
        history=(*(options.get("history") or ()), *before),
        expansions=expansions,
        mode="plain" if is_plain else "refined",
        as_typed=options.get("as_typed") or False,
        notes=notes,
        citation_style=options.get("citation_style") or "source",
        model=options.get("model") or "",
        hold_markers=options.get("hold_markers") or False,
    )


# Of pasted text so many characters go along with the question, and the first ones are searched.
_MAX_PASTED = 8_000
_PASTED_SEARCHED = 600


def _read_message(
    message: str, is_chat: bool, settings: Settings
) -> tuple[str, tuple[Message, ...], tuple[str, ...]]:
    """Return the question, the text pasted around it, and what the reader should know of that."""
    limits = settings.understand
    if not is_chat:
        text = clean_question(message, min_chars=limits.min_chars, max_chars=limits.max_chars)
        return text, (), ()
    most = limits.max_message_chars
    text = clean_question(message, min_chars=1, max_chars=most)
    if len(text) <= limits.max_chars:
        return text, (), ()
    found, rest = split_long_message(message, max_chars=limits.max_chars)
    text = clean_question(found, min_chars=1, max_chars=limits.max_chars)
    rest = "".join(char for char in rest if _is_text(char))
    notes = [f"The question was found in a longer message: “{text}”"]
    if len(rest) > _MAX_PASTED:
        notes.append(f"The rest of the message was cut to {_MAX_PASTED:,} characters.")
    pasted = Message("system", f"The user pasted this text:\n{rest[:_MAX_PASTED]}")
    return text, (pasted,), tuple(notes)


_CHOICES: dict[str, tuple[str, ...]] = {
    "method": get_args(RetrievalMethod),
    "citation_style": get_args(CitationStyle),
}
_RANGES: dict[str, tuple[float, float]] = {
    "top_k": (1, 1000),
    "mmr_lambda": (0, 1),
    "temperature": (0, 2),
}


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse an unknown option, and a value that no setting would allow."""
    for name, value in options.items():
        if name not in QueryOptions.__annotations__:
            near = difflib.get_close_matches(name, QueryOptions.__annotations__, 1)
            raise InputError(
                f"There is no option '{name}'.",
                hint=f"Did you mean {near[0]}?" if near else "See QueryOptions for all of them.",
            )
        if value is None:
            continue
        if name in _CHOICES and value not in _CHOICES[name]:
            raise InputError(
                f"Invalid {name} {value!r}.", hint=f"Use one of: {', '.join(_CHOICES[name])}."
            )
        if name in _RANGES:
            low, high = _RANGES[name]
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not low <= value <= high:
                raise InputError(
                    f"Invalid {name} {value!r}.", hint=f"Use a number from {low} to {high}."
                )


def _check_upload_id(upload_id: str | None) -> str | None:
    """Check the form of an upload id; the search finds out whether it exists."""
    if upload_id is not None and (len(upload_id) > 200 or not upload_id.isprintable()):
        raise InputError(
            f"Invalid upload id {upload_id[:200]!r}. Use at most 200 printable characters.",
            hint="Use the upload_id from the reply to an upload.",
        )
    return upload_id


def clean_question(text: str, *, min_chars: int, max_chars: int) -> str:
    """Drop control characters, trim, and check the length."""
    if not text.isprintable():  # most questions are printable: one check for all characters
        text = "".join(" " if char in "\t\n\r" else char for char in text if _is_text(char))
    question = " ".join(text.split())
    if len(question) < min_chars:
        raise InputError(
            f"The question has {len(question)} characters; at least {min_chars} are needed.",
            hint="Ask a whole question.",
        )
    if len(question) > max_chars:
        raise InputError(
            f"The question has {len(question):,} characters; at most {max_chars:,} are allowed.",
            hint="Shorten it, or raise RAGSTONE_UNDERSTAND_MAX_CHARS "
            "(in a chat RAGSTONE_UNDERSTAND_MAX_MESSAGE_CHARS).",
        )
    return question


def _is_text(char: str) -> bool:
    # Cc: control, Cs: lone surrogates, Co: private use. Format characters (Cf) join emoji and
    # shape Arabic, so they stay.
    return char in "\t\n\r" or unicodedata.category(char) not in ("Cc", "Cs", "Co")
