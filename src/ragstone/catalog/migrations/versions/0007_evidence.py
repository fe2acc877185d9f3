"""What an answer rests on is stored once for all queries that were answered with it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "evidence",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.add_column("queries", sa.Column("evidence", sa.String))
    op.create_index("ix_queries_evidence", "queries", ["evidence"])
