"""Ratings of answers, and the consent of users to store what they ask."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "feedback",
        sa.Column("query_id", sa.String, primary_key=True),
        sa.Column("owner", sa.String, primary_key=True),
        sa.Column("vote", sa.String),
        sa.Column("rating", sa.Integer),
        sa.Column("comment", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
    )
    op.create_index("ix_feedback_owner", "feedback", ["owner"])
    op.create_table(
        "consents",
        sa.Column("owner", sa.String, primary_key=True),
        sa.Column("agreed_at", sa.Float, nullable=False),
        sa.Column("query_log", sa.String, nullable=False),
        sa.Column("retention_days", sa.Integer, nullable=False),
    )
