"""Build the values that tests of the stages need: a chunk, a hit, sources, a query."""

from __future__ import annotations

from ragstone.types import Chunk, Hit, Query, Scores, Source


def chunk(text: str = "Text.", *, key: int = 1, start: int = 0, document: str = "doc") -> Chunk:
    return Chunk(
        document_id=document,
        index=key,
        text=text,
        start=start,
        end=start + len(text),
        document_name=f"{document}.txt",
        key=key,
    )


def hit(
    text: str = "Text.", *, key: int = 1, score: float = 1.0, similarity: float | None = None
) -> Hit:
    return Hit(chunk(text, key=key), score, "hybrid", Scores(similarity=similarity))


def sources(*texts: str, start: int = 0) -> tuple[Source, ...]:
    return tuple(
        Source(number, Hit(chunk(text, key=number, start=start), 1.0, "hybrid"), text)
        for number, text in enumerate(texts, start=1)
    )


def query(text: str = "Is it so?", **options: object) -> Query:
    return Query(id="q", text=text, **options)  # type: ignore[arg-type]
