"""What may be said with a question, and the query that it becomes: checked, with the settings'
values for everything that was left out."""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from ragstone.errors import InputError
from ragstone.filters import Filter, parse_filter
from ragstone.settings import Settings
from ragstone.text import is_storable
from ragstone.types import DEFAULT_COLLECTION, CitationStyle, Message, Query, RetrievalMethod


class QueryOptions(TypedDict, total=False):
    """Say more with a question. What is left out or None comes from the settings.

    Example:

        from ragstone import Engine, QueryOptions

        engine = Engine()
        options: QueryOptions = {"collection": "default", "top_k": 3, "method": "keyword"}
        print(engine.ask_sync("How much is the rent?", **options).text)
        engine.close()
    """

    collection: str
    """Where to search."""
    upload_id: str | None
    """Search only what came with this upload."""
    document_ids: Sequence[str]
    """Search only these documents."""
    filters: Mapping[str, Any] | Filter | None
    """Search only where the metadata fit: `{"year": {"gte": 2020}}`."""
    method: RetrievalMethod | None
    """How to search: semantic, keyword or hybrid."""
    top_k: int | None
    """How many hits reach the prompt."""
    mmr_lambda: float | None
    """Relevance (1) against diversity (0) of those hits."""
    temperature: float | None
    """Sampling temperature of the model that writes."""
    history: Sequence[Message]
    """What was said before, where no session remembers it."""
    citation_style: CitationStyle
    """How the answer cites."""
    model: str | None
    """The model that writes."""
    session_id: str | None
    """The conversation that this question continues; it is remembered from then on."""
    owner: str
    """Whose session and history this is."""
    request_id: str
    """The id of the trace; one is made when it is left out."""


_COLLECTION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def build_query(question: str, options: QueryOptions, settings: Settings) -> Query:
    """A question with its options filled in, or a refusal."""
    limits = settings.understand
    text = clean_question(question, min_chars=limits.min_chars, max_chars=limits.max_chars)
    mmr_lambda, temperature = options.get("mmr_lambda"), options.get("temperature")
    filters = options.get("filters")
    names = (options.get("upload_id"), options.get("model"), *(options.get("document_ids") or ()))
    if not all(is_storable(name) for name in names if name):
        raise InputError("A name holds a character that is no text.", hint="Leave it out.")
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
        temperature=settings.ground.temperature if temperature is None else temperature,
        history=tuple(options.get("history") or ()),
        citation_style=options.get("citation_style") or "source",
        model=options.get("model") or "",
    )


def _check_upload_id(upload_id: str | None) -> str | None:
    """Whether there is such an upload is the search's to find; that it can be one, is ours."""
    if upload_id is not None and (len(upload_id) > 200 or not upload_id.isprintable()):
        raise InputError(
            "An upload's id has at most 200 printable characters.",
            hint="Use the upload_id that the reply to an upload names.",
        )
    return upload_id


def check_collection(name: str) -> str:
    """A collection's name becomes a folder's name, so it must be a plain one."""
    if not _COLLECTION_NAME.fullmatch(name) or name.endswith(".lock"):
        raise InputError(
            f"'{name}' cannot be the name of a collection.",
            hint="Use letters, digits, dots, dashes and underscores; at most 100.",
        )
    return name


def clean_question(text: str, *, min_chars: int, max_chars: int) -> str:
    """Drop control characters, trim, and hold the length to its limits."""
    if not text.isprintable():  # most questions are: one look for all of their characters
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
            hint="Shorten it, or raise RAGSTONE_UNDERSTAND_MAX_CHARS.",
        )
    return question


def _is_text(char: str) -> bool:
    # Cc: control, Cs: lone surrogates, Co: private use. Format characters (Cf) join emoji and
    # shape Arabic, so they stay.
    return char in "\t\n\r" or unicodedata.category(char) not in ("Cc", "Cs", "Co")
