"""Links that show one answer to others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "shares",
        sa.Column("token", sa.String, primary_key=True),
        sa.Column("query_id", sa.String, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
    )
    op.create_index("ix_shares_query_id", "shares", ["query_id"])
