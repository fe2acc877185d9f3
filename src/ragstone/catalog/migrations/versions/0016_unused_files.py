"""Claims on the files that are being deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    marks = sa.Column("marks", sa.Integer, nullable=False, server_default="1")
    op.add_column("unused_files", marks)
    until = sa.Column("deleting_until", sa.Float, nullable=False, server_default="0")
    op.add_column("unused_files", until)
