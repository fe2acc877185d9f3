"""The wider span that is read when a chunk is found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("chunks", sa.Column("passage_start", sa.Integer))
    op.add_column("chunks", sa.Column("passage_end", sa.Integer))
