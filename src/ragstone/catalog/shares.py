"""Store links that show one answer to others, in the catalog's database.

A token is 192 random bits: who has the link may read that one answer and what it quotes.
"""

from __future__ import annotations

import secrets
import time
from typing import Any

from sqlalchemy import exists, select

from ragstone.catalog.schema import queries, shares
from ragstone.errors import NotFoundError
from ragstone.protocols import Catalog

_TOKEN_BYTES = 24


class SqlShares:
    """Read and write the table `shares`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def create(self, query_id: str) -> str:
        """Return the token of a query's link; a second call returns the same one."""
        with self._catalog.write_transaction() as connection:
            is_gone = ~exists().where(queries.c.id == shares.c.query_id)
            connection.execute(shares.delete().where(is_gone))
            known = connection.scalar(select(shares.c.token).where(shares.c.query_id == query_id))
            if known is not None:
                return str(known)
            token = secrets.token_urlsafe(_TOKEN_BYTES)
            values = {"token": token, "query_id": query_id, "created_at": time.time()}
            connection.execute(shares.insert().values(values))
            return token

    def find_query(self, token: str) -> dict[str, Any]:
        """Return the query that a link shows."""
        with self._catalog.read_transaction() as connection:
            query_id = connection.scalar(select(shares.c.query_id).where(shares.c.token == token))
        if query_id is None:
            raise share_not_found()
        try:
            return self._catalog.query(query_id)
        except NotFoundError:
            raise share_not_found() from None

    def delete(self, query_id: str) -> None:
        """Delete the link of a query, if it has one."""
        with self._catalog.write_transaction() as connection:
            connection.execute(shares.delete().where(shares.c.query_id == query_id))


def share_not_found() -> NotFoundError:
    return NotFoundError(
        "This link shows nothing any more, or never did.",
        hint="Ask the sender for a new link: the answer may have been deleted.",
    )
