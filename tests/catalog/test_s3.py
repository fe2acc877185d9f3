"""Originals in an object store: the same as a folder, and errors that say what is wrong."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from ragstone.catalog.backup import Finding
from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.integrity import check_content
from ragstone.catalog.originals import FileStore, FolderStore
from ragstone.catalog.s3 import S3Store, sign_request
from ragstone.engine import Engine
from ragstone.errors import StoreError, StoreUnavailableError
from ragstone.ingest.jobs import Upload
from ragstone.models.embedder import OnnxEmbedder
from ragstone.settings.services import OriginalsSettings

from ..conftest import settings_in
from ..object_store import BUCKET, SECRET, ObjectStore, find_rclone

EXAMPLE = OriginalsSettings(
    access_key=SecretStr("AKIAIOSFODNN7EXAMPLE"),
    secret_key=SecretStr("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
)


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[ObjectStore]:
    if sys.platform != "linux":
        pytest.skip("the object store of the tests is installed on Linux only")
    assert find_rclone() is not None, "pip install -r requirements-dev.lock"
    with ObjectStore(tmp_path / "s3") as server:
        yield server


def open_store(server: ObjectStore, folder: Path, **changes: object) -> S3Store:
    options = {name.partition(".")[2]: value for name, value in server.settings.items()}
    return S3Store(OriginalsSettings.model_validate({**options, **changes}), folder)


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.servers)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FileStore]:
    opened: FileStore = FolderStore(tmp_path / "originals")
    if request.param == "s3":
        opened = open_store(request.getfixturevalue("s3"), tmp_path / "copies")
    yield opened
    opened.close()


def save(folder: Path, content: bytes) -> tuple[str, Path]:
    file = folder / "received"
    file.write_bytes(content)
    return hashlib.sha256(content).hexdigest(), file


def test_files_come_back_by_their_hash(store: FileStore, tmp_path: Path) -> None:
    sha256, file = save(tmp_path, b"as it came" * 300_000)
    assert store.find(sha256) is None
    store.put({sha256: file})
    assert not file.exists(), "it was moved"
    found = store.find(sha256)
    assert found is not None
    assert found.read_bytes() == b"as it came" * 300_000
    assert store.find(sha256) == found, "read again"
    again, file = save(tmp_path, b"as it came" * 300_000)
    store.put({again: file})
    empty, file = save(tmp_path, b"")
    store.put({empty: file})
    assert sorted(store.list_hashes()) == sorted([sha256, empty])
    store.remove(sha256)
    store.remove(sha256)
    assert store.find(sha256) is None
    assert not found.exists()
    assert list(store.list_hashes()) == [empty]


@pytest.mark.parametrize(
    ("query", "signature"),
    [
        ("lifecycle=", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)
def test_the_published_examples_have_their_signatures(query: str, signature: str) -> None:
    url = f"https://examplebucket.s3.amazonaws.com/?{query}"
    now = datetime(2013, 5, 24, tzinfo=UTC)
    signed = sign_request("GET", url, hashlib.sha256().hexdigest(), EXAMPLE, now)
    assert signed["authorization"].endswith(f"Signature={signature}")


@pytest.mark.servers
def test_a_long_list_has_pages(s3: ObjectStore, tmp_path: Path) -> None:
    folder = s3.folder / BUCKET / "originals" / "aa"
    folder.mkdir(parents=True)
    names = {f"{number:064x}" for number in range(1100)}
    for name in names:
        (folder / name).touch()
    (folder / "something else").touch()
    assert set(open_store(s3, tmp_path / "copies").list_hashes()) == names


@pytest.mark.servers
def test_other_bytes_are_noticed(s3: ObjectStore, tmp_path: Path) -> None:
    store = open_store(s3, tmp_path / "copies")
    sha256, file = save(tmp_path, b"right")
    store.put({sha256: file})
    s3.files()[0].write_bytes(b"wrong")
    with pytest.raises(StoreError, match="is damaged"):
        store.find(sha256)
    assert not any((tmp_path / "copies").iterdir()), "no half copy stays"


@pytest.mark.servers
@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"secret_key": "another-secret"}, "refused a request", "RAGSTONE_ORIGINALS_SECRET_KEY"),
        ({"bucket": "nowhere"}, "bucket of the originals does not exist", "Create it"),
    ],
)
def test_wrong_settings_are_explained(
    s3: ObjectStore, tmp_path: Path, changes: dict[str, str], message: str, hint: str
) -> None:
    store = open_store(s3, tmp_path / "copies", **changes)
    sha256, file = save(tmp_path, b"x")
    with pytest.raises(StoreError, match=message) as caught:
        store.put({sha256: file})
    assert hint in caught.value.hint
    assert file.exists()
    for secret in (SECRET, "another-secret", "127.0.0.1", "nowhere"):
        assert secret not in str(caught.value)


@pytest.mark.servers
def test_a_store_that_is_away_or_frozen_is_reported_in_time(
    s3: ObjectStore, tmp_path: Path
) -> None:
    store = open_store(s3, tmp_path / "copies", timeout_s=0.5)
    sha256, file = save(tmp_path, b"x")
    s3.freeze()
    with pytest.raises(StoreUnavailableError, match="does not answer"):
        store.put({sha256: file})
    s3.thaw()
    s3.kill()
    with pytest.raises(StoreUnavailableError) as caught:
        store.find(sha256)
    assert "127.0.0.1" not in str(caught.value)
    s3.start()
    patient = open_store(s3, tmp_path / "copies")
    patient.put({sha256: file})
    assert patient.find(sha256) is not None


@pytest.mark.servers
def test_an_engine_keeps_its_originals_there(
    s3: ObjectStore, tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    def check(engine: Engine) -> dict[str, Finding]:
        assert isinstance(engine.catalog, SqlCatalog)
        found = check_content(engine.catalog.database, engine.originals, keeps_originals=True)
        return {finding.subject: finding for finding in found}

    async def send(engine: Engine, text: str) -> None:
        path = engine.originals.new_path()
        path.write_text(text)
        report = await engine.ingest_uploads([Upload(path, "a.txt")])
        assert [file.outcome for file in report.files] == ["added"], report

    data = tmp_path / "data"
    engine = Engine(settings_in(data, **s3.settings), embedder=embedder)
    asyncio.run(send(engine, "The gate is green."))
    assert not (data / "originals").exists()
    assert len(s3.files()) == 1
    document = engine.documents()[0]
    assert engine.original(document).read_text() == "The gate is green."
    assert "1 file: all are in the object store" in check(engine)["originals"].detail
    s3.kill()
    path = engine.originals.new_path()
    path.write_text("It is away.")
    with pytest.raises(StoreUnavailableError):
        asyncio.run(engine.ingest_uploads([Upload(path, "b.txt")], upload_id="refused"))
    with engine.catalog.read_transaction() as connection:
        count = connection.exec_driver_sql("SELECT count(*) FROM uploads WHERE id = 'refused'")
        assert count.scalar() == 0, "the sender got an error: nothing stays of it"
    s3.start()
    asyncio.run(engine.delete(document.id))
    assert s3.files() == []
    assert not any((data / "copies").iterdir())
    engine.close()
