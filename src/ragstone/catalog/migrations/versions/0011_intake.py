"""Uploads that survive a kill, files to be deleted, and checksums of documents and chunks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("uploads", sa.Column("reader", sa.String))
    op.add_column("uploads", sa.Column("options", sa.JSON))
    op.create_index("ix_uploads_reader", "uploads", ["reader"])
    # Earlier versions did not keep the files of an upload that was interrupted.
    op.execute("UPDATE uploads SET status = 'failed' WHERE status = 'running'")
    op.create_table(
        "upload_inputs",
        sa.Column("upload_id", sa.String, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("sha256", sa.String, nullable=False, index=True),
        sa.Column("size", KEY, nullable=False),
    )
    op.create_table("unused_files", sa.Column("sha256", sa.String, primary_key=True))
    op.create_index("ix_documents_sha256", "documents", ["sha256"])
    op.create_index("ix_files_sha256", "files", ["sha256"])
    op.add_column("documents", sa.Column("checksum", KEY))
    op.add_column("chunks", sa.Column("checksum", KEY))
    op.add_column("chunks", sa.Column("vector_checksum", KEY))
