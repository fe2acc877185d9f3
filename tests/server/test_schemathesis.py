"""Odd requests at every door of the OpenAPI: no 5xx, and every reply as it is described."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
)

from ragstone.engine import Engine
from ragstone.server.app import create_app
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from ..patience import LONG_S
from .test_isolation import DOORS

pytestmark = pytest.mark.slow

# Each door is asked this often; more was tried while it was written.
EXAMPLES = 3


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("odd")
    engine = Engine(
        settings_in(folder / "data", **{"server.work_timeout_s": LONG_S}), embedder=HashEmbedder()
    )
    gate = Path(folder / "gate.txt")
    gate.write_text("The gate is green. It was painted in 2020.")
    asyncio.run(engine.ingest([gate]))
    yield schemathesis.openapi.from_asgi("/openapi.json", create_app(engine))
    engine.close()


@pytest.mark.parametrize(("method", "path"), [door.values[:2] for door in DOORS])
def test_no_request_breaks_an_endpoint(method: str, path: str, api: Any) -> None:
    @given(case=api[path][method.upper()].as_strategy())
    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
        phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    def asked(case: Any) -> None:
        response = case.call(timeout=LONG_S)
        checks = [not_a_server_error, response_schema_conformance, content_type_conformance]
        case.validate_response(response, checks=checks)

    asked()
