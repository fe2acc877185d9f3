"""Bringing a catalog's schema up to this version, or saying clearly why it cannot be used."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from ragstone.errors import StoreError

# The newest step in migrations/versions; a test compares the two.
HEAD = "0007"


def is_current(connection: Connection, *, where: str) -> bool:
    """Whether nothing is to be done; a schema from the future is refused."""
    revision = _revision(connection)
    if revision is not None and revision not in _known():
        raise StoreError(
            f"The catalog {where} was written by a newer version of Ragstone (schema {revision}).",
            hint="Install that version or newer, or choose another data directory.",
        )
    return revision == HEAD


def upgrade(connection: Connection, *, where: str) -> None:
    """Run the missing steps. Alembic is only imported when there are any."""
    if is_current(connection, where=where):
        return
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _known() -> set[str]:
    versions = Path(__file__).parent / "migrations" / "versions"
    return {path.name.partition("_")[0] for path in versions.glob("[0-9]*.py")}
