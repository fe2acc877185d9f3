"""A summary reads the document that the question names, however far down its chunks rank."""

from __future__ import annotations

from pathlib import Path

from ragstone.engine import Engine
from ragstone.testing import HashEmbedder

from ...conftest import settings_in


async def test_a_named_document_is_read_even_with_a_small_top_k(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"note{number}.txt").write_text(
            f"Summarize the handbook please, said note {number}: the handbook, the handbook."
        )
    (tmp_path / "handbook.txt").write_text("Guests leave by noon. Keys lie at the desk.")
    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
    await engine.ingest([tmp_path / "*.txt"])
    answer = await engine.ask("Summarize the handbook", top_k=1)
    assert answer.route == "summarize"
    assert {source.hit.chunk.document_name for source in answer.sources} == {"handbook.txt"}
    engine.close()
