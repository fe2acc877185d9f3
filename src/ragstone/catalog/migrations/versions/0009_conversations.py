"""The title of a session, and the whole question that a follow-up was searched as."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("title", sa.Text, nullable=False, server_default=""))
    op.add_column("turns", sa.Column("searched_as", sa.Text, nullable=False, server_default=""))
