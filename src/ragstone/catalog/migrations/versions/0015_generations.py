"""Vectors of a second embedder, beside those that are searched."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "generations",
        sa.Column("collection", sa.String, primary_key=True),
        sa.Column("embedder", sa.String, primary_key=True),
        sa.Column("settings", sa.JSON),
        sa.Column("place", sa.String, nullable=False),
        sa.Column("filled_seq", KEY, nullable=False),
        sa.Column("folder", sa.String, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
    )
    op.create_table(
        "chunk_vectors",
        sa.Column("key", KEY, primary_key=True, autoincrement=False),
        sa.Column("embedding", sa.LargeBinary, nullable=False),
        sa.Column("checksum", KEY, nullable=False),
    )
