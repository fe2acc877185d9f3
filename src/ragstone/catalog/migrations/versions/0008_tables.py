"""The column names and the names of a table that stand outside a chunk of its rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("chunks", sa.Column("table_header", sa.Text))
    op.add_column("chunks", sa.Column("context", sa.Text))
