"""The first catalog: collections, documents, sources, chunks, changes, counters, queries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "collections",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("embedder", sa.String, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
    )
    op.create_table(
        "documents",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("collection", sa.String, nullable=False, index=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("media_type", sa.String, nullable=False),
        sa.Column("sha256", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("metadata", sa.JSON, nullable=False),
        sa.Column("upload_id", sa.String),
        sa.Column("error", sa.Text),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("retired_at", sa.Float),
        sa.Column("first_key", KEY, nullable=False),
        sa.Column("chunk_count", sa.Integer, nullable=False),
    )
    op.create_table(
        "sources",
        sa.Column("collection", sa.String, primary_key=True),
        sa.Column("source", sa.String, primary_key=True),
        sa.Column("document_id", sa.String, nullable=False, index=True),
    )
    op.create_table(
        "chunks",
        sa.Column("key", KEY, primary_key=True, autoincrement=False),
        sa.Column("document_id", sa.String, nullable=False, index=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("start", sa.Integer, nullable=False),
        sa.Column("end", sa.Integer, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("page", sa.Integer),
        sa.Column("heading_path", sa.JSON, nullable=False),
        sa.Column("content_type", sa.String, nullable=False),
        sa.Column("embedding", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "changes",
        sa.Column("seq", KEY, primary_key=True, autoincrement=True),
        sa.Column("collection", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("document_id", sa.String, nullable=False),
        sa.Column("first_key", KEY, nullable=False),
        sa.Column("chunk_count", sa.Integer, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("changes_by_collection", "changes", ["collection", "seq"])
    op.create_table(
        "counters",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("value", KEY, nullable=False),
    )
    op.execute("INSERT INTO counters (name, value) VALUES ('chunk_key', 0)")
    op.create_table(
        "queries",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("collection", sa.String, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False, index=True),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("question", sa.Text),
        sa.Column("answer", sa.Text),
        sa.Column("record", sa.JSON, nullable=False),
    )
