"""Ask users before anything that they ask is stored: REQUIRE_CONSENT.

A consent belongs to the owner of a key and to the settings that were shown. It is checked in the
transaction that writes: a question that was running when its user withdrew is not stored.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, select

from ragstone.catalog.schema import consents as table
from ragstone.errors import InputError
from ragstone.protocols import Catalog
from ragstone.settings import JournalSettings

_LEVELS = ("off", "metadata", "full")


@dataclass(frozen=True, slots=True)
class Consent:
    """State when somebody agreed, and to which settings of the journal."""

    owner: str
    agreed_at: float
    query_log: str
    retention_days: int

    def covers(self, options: JournalSettings) -> bool:
        """Return False when more is stored now, or for longer, than was agreed to."""
        is_enough = _LEVELS.index(self.query_log) >= _LEVELS.index(options.query_log)
        days = options.retention_days
        return is_enough and (not self.retention_days or 0 < days <= self.retention_days)


def describe_storage(options: JournalSettings) -> str:
    """Say in one sentence what is stored of a user, and for how long."""
    if options.query_log == "off":
        return "Nothing that you ask is stored."
    days = options.retention_days
    time_limit = (
        "until you delete them" if not days else "for 1 day" if days == 1 else f"for {days} days"
    )
    if options.query_log == "metadata":
        return (
            "The time of each question, its figures and the documents of its answer are stored "
            f"{time_limit}; no text of question or answer."
        )
    return f"Your questions, their answers and your conversations are stored {time_limit}."


class SqlConsents:
    """Read and write the table `consents`."""

    def __init__(self, catalog: Catalog, options: JournalSettings) -> None:
        self._catalog = catalog
        self.options = options

    @property
    def is_required(self) -> bool:
        return self.options.require_consent and self.options.query_log != "off"

    def find(self, owner: str) -> Consent | None:
        """Return the consent of an owner, if it covers what is stored now."""
        with self._catalog.read_transaction() as connection:
            return self._read(connection, owner)

    def may_store(self, connection: Connection, owner: str) -> bool:
        """Check inside a transaction if something of an owner may be written."""
        return not self.is_required or self._read(connection, owner) is not None

    def agree(self, owner: str) -> Consent:
        """Store the consent of an owner to the settings of now; one that is valid stays."""
        self.require_setting()
        with self._catalog.write_transaction() as connection:
            if known := self._read(connection, owner):
                return known
            options = self.options
            given = Consent(owner, time.time(), options.query_log, options.retention_days)
            delete_consent(connection, owner)
            connection.execute(table.insert().values(asdict(given)))
            return given

    def require_setting(self) -> None:
        """Refuse to agree or to withdraw where nobody is asked."""
        if not self.is_required:
            raise InputError(
                "This installation does not ask for consent.",
                hint="Set REQUIRE_CONSENT=true to ask; delete what is stored with "
                "`ragstone sessions delete --all` or DELETE /v1/sessions.",
            )

    def _read(self, connection: Connection, owner: str) -> Consent | None:
        row = connection.execute(select(table).where(table.c.owner == owner)).first()
        found = Consent(**row._asdict()) if row else None
        return found if found and found.covers(self.options) else None


def delete_consent(connection: Connection, owner: str) -> None:
    connection.execute(table.delete().where(table.c.owner == owner))
