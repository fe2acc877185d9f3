"""What is kept stays within its bounds, whoever keeps it."""

from __future__ import annotations

import sys
import threading

from ragstone.query.cache import VersionedCache


def test_threads_do_not_disturb_each_other() -> None:
    kept: VersionedCache[str] = VersionedCache(max_entries=2, max_bytes=100_000)
    failed: list[Exception] = []

    def work(seed: int) -> None:
        try:
            for turn in range(3000):
                key = (f"key {(seed + turn) % 5}",)
                kept.get(key, 1)
                kept.put(key, 1, "value")
        except Exception as error:  # noqa: BLE001  a thread's failure would go unseen
            failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not failed
    assert kept.size_bytes == sum(size for _, _, size in kept._values.values())
