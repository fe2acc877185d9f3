"""Alembic's entry: runs the steps on the connection it is handed."""

from __future__ import annotations

from alembic import context

from ragstone.catalog.schema import tables

connection = context.config.attributes["connection"]
context.configure(
    connection=connection, target_metadata=tables, render_as_batch=True, transactional_ddl=True
)
with context.begin_transaction():
    context.run_migrations()
