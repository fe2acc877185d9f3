"""One limit for several processes, counted in a real Redis; and what happens when that is away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ragstone.errors import SettingsError, TooManyRequestsError
from ragstone.server import limits
from ragstone.server.limits import AnswerSlots, RateLimits
from ragstone.settings.services import ServerSettings

from ..cli.run import call
from ..conftest import settings_in
from ..patience import LONG_S
from .redis import REDIS, Redis
from .test_run import serving

needs_redis = pytest.mark.skipif(REDIS is None, reason="no Redis server is installed: make tools")


@pytest.fixture
def redis() -> Iterator[Redis]:
    redis = Redis()
    yield redis
    redis.close()


def rates_in(directory: Path, redis: Redis) -> RateLimits:
    flags = {"server.rate_storage": redis.address, "server.rate_per_key": "4/minute"}
    return RateLimits(settings_in(directory, **flags))


async def let_in(rates: RateLimits, requests: int) -> int:
    passed = 0
    for _ in range(requests):
        try:
            await rates.count_key("ann")
            passed += 1
        except TooManyRequestsError:
            pass
    return passed


@needs_redis
async def test_two_processes_count_together(tmp_path: Path, redis: Redis) -> None:
    redis.start()
    first, second = rates_in(tmp_path, redis), rates_in(tmp_path, redis)
    assert await let_in(first, 3) + await let_in(second, 3) == 4
    await first.close()
    await second.close()


@needs_redis
async def test_while_redis_is_away_each_process_keeps_the_limit_alone(
    tmp_path: Path, redis: Redis, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_REDIS_RETRY_S", 0)
    rates = rates_in(tmp_path, redis)
    assert await let_in(rates, 6) == 4
    (warning,) = caplog.records
    assert warning.getMessage() == "requests are counted in each process alone: ConnectionError"
    redis.start()
    assert await let_in(rates, 6) == 4
    redis.stop()
    assert await let_in(rates, 1) == 0
    await rates.close()
    assert [record.getMessage().rpartition(":")[0] or record.getMessage()
            for record in caplog.records[1:]] == [
        "requests are counted for all processes together again",
        "requests are counted in each process alone",
    ]  # fmt: skip


@needs_redis
def test_two_workers_share_one_limit_and_survive_the_loss_of_redis(
    tmp_path: Path, redis: Redis
) -> None:
    redis.start()
    key = call("keys", "create", "ann", "-d", "data", cwd=tmp_path).stdout.strip()
    headers = {"X-API-Key": key, "Connection": "close"}  # a new connection each: both are met
    flags = (f"--set=server.rate_storage={redis.address}", "--set=server.rate_per_key=6/hour")
    with serving("--workers", "2", *flags, cwd=tmp_path) as served:
        ask = f"{served.address}/v1/models"
        codes = Counter(
            httpx.get(ask, headers=headers, timeout=LONG_S).status_code for _ in range(20)
        )
        assert codes == {200: 6, 429: 14}
        redis.stop()
        codes = Counter(
            httpx.get(ask, headers=headers, timeout=LONG_S).status_code for _ in range(20)
        )
        assert set(codes) <= {200, 429}
        assert 6 <= codes[200] <= 12  # each of the two on its own
        assert served.stop() == 0
    assert len(served.logged("requests are counted in each process alone: ConnectionError")) <= 2


def test_the_places_of_all_workers_together_are_those_of_the_setting() -> None:
    slots = AnswerSlots(ServerSettings(workers=3, max_generations=10, max_waiting=5))
    assert slots._slots._value == 3
    assert slots._max_waiting == 1


def test_fewer_places_than_workers_are_refused() -> None:
    with pytest.raises(SettingsError, match="4 workers cannot share 3 answers"):
        AnswerSlots(ServerSettings(workers=4, max_generations=3))
