"""Store who may read what: API keys, and links that show one answer, in the catalog's database.

A key is 256 random bits and cannot be guessed, so its plain SHA-256 is stored: a slow hash would
only slow down every request. The token of a link is 192 random bits: who has it may read that one
answer and what it quotes.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from sqlalchemy import exists, select

from ragstone.catalog.schema import keys as table
from ragstone.catalog.schema import queries, shares
from ragstone.errors import InputError, NotFoundError
from ragstone.protocols import Catalog

Role: TypeAlias = Literal["reader", "writer", "admin"]
ROLES: tuple[Role, ...] = ("reader", "writer", "admin")

_PREFIX = "rs"
# A revoked key is refused everywhere within this time; reading the database at every request would
# cost as much as a keyword search.
_CACHE_S = 1.0


@dataclass(frozen=True, slots=True)
class Key:
    """Describe a key; the key itself was shown once and is not stored."""

    id: str
    owner: str
    role: Role
    collections: tuple[str, ...]
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None

    @property
    def state(self) -> Literal["active", "expired", "revoked"]:
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= time.time():
            return "expired"
        return "active"


class KeyRing:
    """Read and write the keys of a catalog; cache them for a second."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._known: dict[str, tuple[str, Key]] = {}
        self._read_at = float("-inf")

    def create(
        self, owner: str, *, role: Role, collections: Sequence[str], expires_in_s: float | None
    ) -> tuple[str, Key]:
        """Create a key; return the key, to be shown once, and its description."""
        if not owner.strip() or len(owner) > 100 or not owner.isprintable():
            raise InputError(
                f"Invalid key owner {owner[:100]!r}. Use a name of 1 to 100 printable characters.",
                hint="Try: ragstone keys create alice",
            )
        now = time.time()
        expires_at = None if expires_in_s is None else now + expires_in_s
        key = Key(secrets.token_hex(4), owner, role, tuple(collections), now, expires_at)
        secret = f"{_PREFIX}_{key.id}_{secrets.token_urlsafe(32)}"
        with self.catalog.write_transaction() as connection:
            values = asdict(key) | {"collections": list(collections), "digest": _hash(secret)}
            connection.execute(table.insert().values(values))
        self._read_at = float("-inf")
        return secret, key

    def list(self) -> list[Key]:
        """List all keys, newest first, including expired and revoked ones."""
        newest = table.c.created_at.desc(), table.c.id
        with self.catalog.read_transaction() as connection:
            return [_to_key(row) for row in connection.execute(select(table).order_by(*newest))]

    def revoke(self, key_id: str) -> Key:
        now = time.time()
        with self.catalog.write_transaction() as connection:
            wanted = table.c.id == key_id
            connection.execute(
                table.update().where(wanted, table.c.revoked_at.is_(None)).values(revoked_at=now)
            )
            row = connection.execute(select(table).where(wanted)).first()
        if row is None:
            raise NotFoundError(
                f"There is no key with the id '{key_id}'.",
                hint="List the keys: ragstone keys list",
            )
        self._read_at = float("-inf")
        return _to_key(row)

    def find_key(self, secret: str) -> Key | None:
        """Return the key that a client sent, in any state; None if it is unknown."""
        key_id = secret[len(_PREFIX) + 1 :].partition("_")[0]
        self._refresh(_CACHE_S if key_id in self._known else 0)  # a new key works at once
        digest, key = self._known.get(key_id, ("", None))
        return key if hmac.compare_digest(digest, _hash(secret)) else None

    def has_keys(self) -> bool:
        """Return whether a key was ever created.

        Revoked keys count: revoking the last key must not open the server to everybody.
        """
        self._refresh()
        return bool(self._known)

    def _refresh(self, max_age_s: float = _CACHE_S) -> None:
        if time.monotonic() - self._read_at < max_age_s:
            return
        with self.catalog.read_transaction() as connection:
            rows = connection.execute(select(table)).all()
        self._known = {row.id: (row.digest, _to_key(row)) for row in rows}
        self._read_at = time.monotonic()


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _to_key(row: Any) -> Key:
    fields = {name: value for name, value in row._asdict().items() if name != "digest"}
    return Key(**fields | {"collections": tuple(row.collections)})


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
