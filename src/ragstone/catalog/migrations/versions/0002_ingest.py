"""What ingestion remembers: files on the disk, uploads, and the lines of pages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "files",
        sa.Column("collection", sa.String, primary_key=True),
        sa.Column("path", sa.String, primary_key=True),
        sa.Column("size", KEY, nullable=False),
        sa.Column("mtime_ns", KEY, nullable=False),
        sa.Column("sha256", sa.String, nullable=False),
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("document_id", sa.String, index=True),
        sa.Column("chunk_count", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("hint", sa.Text),
    )
    op.create_table(
        "uploads",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("collection", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("file_count", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("finished_at", sa.Float),
    )
    op.create_table(
        "upload_files",
        sa.Column("upload_id", sa.String, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("outcome", sa.String, nullable=False),
        sa.Column("document_id", sa.String),
        sa.Column("chunk_count", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("hint", sa.Text),
    )
    op.create_table(
        "page_lines",
        sa.Column("document_id", sa.String, primary_key=True),
        sa.Column("lines", sa.LargeBinary, nullable=False),
    )
