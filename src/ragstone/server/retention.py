"""RETENTION_DAYS in a running server: what has expired is forgotten while it runs."""

from __future__ import annotations

import asyncio
import logging

from ragstone.engine import Engine
from ragstone.errors import StoreError

log = logging.getLogger(__name__)


async def forget_in_time(engine: Engine) -> None:
    """Look again and again for queries and turns that are older than they may be."""
    options = engine.settings.journal
    while options.retention_days:
        await asyncio.sleep(options.retention_check_s)
        try:
            await asyncio.to_thread(engine.history.expire)
        except StoreError as error:
            # A busy or full catalog is no reason to stop looking.
            log.warning("what has expired could not be removed: %s", type(error).__name__)
