"""Sessions with their turns; whose each query is, and the figures that analytics add up."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("queries", sa.Column("owner", sa.String))
    op.add_column("queries", sa.Column("session_id", sa.String))
    op.add_column("queries", sa.Column("upload_id", sa.String))
    op.add_column("queries", sa.Column("figures", sa.JSON))
    op.create_index("ix_queries_owner", "queries", ["owner"])
    op.create_index("ix_queries_session_id", "queries", ["session_id"])
    op.execute("UPDATE queries SET owner = 'local'")
    op.create_table(
        "sessions",
        sa.Column("owner", sa.String, primary_key=True),
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("collection", sa.String, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("updated_at", sa.Float, nullable=False, index=True),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("summarised", sa.Integer, nullable=False),
    )
    op.create_table(
        "turns",
        sa.Column("owner", sa.String, primary_key=True),
        sa.Column("session_id", sa.String, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("query_id", sa.String, nullable=False),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("intent", sa.String, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
    )
