"""Uploads as jobs: leases, priorities and retries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    for name in ("held_until", "due", "not_before"):
        op.add_column("uploads", sa.Column(name, sa.Float, nullable=False, server_default="0"))
    op.add_column("uploads", sa.Column("started_at", sa.Float))
    op.add_column("uploads", sa.Column("size", KEY, nullable=False, server_default="0"))
    op.add_column("uploads", sa.Column("attempts", sa.Integer, nullable=False, server_default="0"))
    op.add_column("uploads", sa.Column("error", sa.Text))
    op.add_column("uploads", sa.Column("stages", sa.JSON))
    op.create_index("uploads_by_due", "uploads", ["status", "due"])
    op.create_index("ix_upload_inputs_name", "upload_inputs", ["name"])
