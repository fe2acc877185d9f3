"""Rows for lookups beside the documents, and the progress of indexes on servers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from ragstone.catalog import schema
from ragstone.catalog.lookup import insert_lookups

revision = "0012"
down_revision = "0011"

KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _create_lookups()
    _create_index_tables()
    op.create_index("documents_by_name", "documents", ["collection", "retired_at", "name", "id"])
    op.create_index("documents_by_upload", "documents", ["upload_id"])
    _fill_lookups()


def _create_lookups() -> None:
    op.create_table(
        "document_values",
        sa.Column("document_id", sa.String, primary_key=True),
        sa.Column("field", sa.String, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("collection", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("text", sa.String),
        sa.Column("number", sa.Float),
    )
    for name in ("text", "number"):
        columns = ["collection", "field", name]
        op.create_index(f"document_values_by_{name}", "document_values", columns)
    op.create_table(
        "headings",
        sa.Column("document_id", sa.String, primary_key=True),
        sa.Column("folded", sa.String, primary_key=True),
        sa.Column("is_start", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("collection", sa.String, nullable=False),
        sa.Column("title", sa.String, nullable=False),
    )
    op.create_index("headings_by_prefix", "headings", ["collection", "is_start", "folded"])
    op.create_table(
        "document_counts",
        sa.Column("collection", sa.String, primary_key=True),
        sa.Column("documents", KEY, nullable=False),
        sa.Column("failed", KEY, nullable=False),
        sa.Column("chunks", KEY, nullable=False),
    )


def _create_index_tables() -> None:
    op.create_table(
        "index_states",
        sa.Column("index_name", sa.String, primary_key=True),
        sa.Column("collection", sa.String, primary_key=True),
        sa.Column("epoch", sa.String, nullable=False),
        sa.Column("build", KEY, nullable=False),
        sa.Column("seq", KEY, nullable=False),
        sa.Column("deleted_seq", KEY, nullable=False),
        sa.Column("chunk_count", KEY, nullable=False),
        sa.Column("total_length", KEY, nullable=False),
        sa.Column("target_seq", KEY, nullable=False),
        sa.Column("holder", sa.String, nullable=False, server_default=""),
        sa.Column("held_until", sa.Float, nullable=False, server_default="0"),
    )
    op.create_table(
        "index_terms",
        sa.Column("index_name", sa.String, primary_key=True),
        sa.Column("collection", sa.String, primary_key=True),
        sa.Column("term", KEY, primary_key=True, autoincrement=False),
        sa.Column("chunk_count", KEY, nullable=False),
    )


def _fill_lookups() -> None:
    connection = op.get_bind()
    names = ("id", "collection", "status", "metadata", "chunk_count")
    current = sa.select(*(schema.documents.c[name] for name in names)).where(
        schema.documents.c.retired_at.is_(None)
    )
    for row in connection.execute(current).all():
        paths = sa.select(schema.chunks.c.heading_path).where(schema.chunks.c.document_id == row.id)
        insert_lookups(connection, row, connection.scalars(paths).all())
