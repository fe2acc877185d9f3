"""A number of its own for every catalog, so that an index knows which one it follows."""

from __future__ import annotations

import secrets

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    identity = secrets.randbits(62)
    op.execute(f"INSERT INTO counters (name, value) VALUES ('identity', {identity})")  # noqa: S608
