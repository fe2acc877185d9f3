"""A watched folder is read in the background, and what became of its files can be seen."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from ragstone.catalog.keys import KeyRing
from ragstone.engine import Engine
from ragstone.server.app import create_app
from ragstone.server.watch import FolderWatcher, list_folder, read_last_look
from ragstone.settings import load_settings
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from ..patience import LONG_S
from .conftest import serve


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


@pytest.fixture
def make(tmp_path: Path, folder: Path) -> Callable[..., Engine]:
    def build(**options: object) -> Engine:
        given = {f"ingest.{name}": value for name, value in options.items()}
        settings = settings_in(tmp_path / "data", **{"ingest.watch": folder, **given})
        return Engine(settings, embedder=HashEmbedder())

    return build


async def test_new_and_changed_files_are_read_and_what_is_unchanged_is_not(
    make: Callable[..., Engine], folder: Path
) -> None:
    async with make(watch_collection="inbox") as engine:
        watcher = FolderWatcher(engine)
        assert (await watcher.look()).files == 0
        (folder / "gate.txt").write_text("The gate is green.")
        assert (await watcher.look()).files == 1
        [first] = engine.documents("inbox")
        look = await watcher.look()
        assert engine.documents("inbox") == [first]
        assert 0 < look.changed_at < look.looked_at
        again = await FolderWatcher(engine).look()
        assert again.changed_at == look.changed_at, "another start reads it and changes nothing"
        (folder / "gate.txt").write_text("The gate is red now.")
        await watcher.look()
        [second] = engine.documents("inbox")
        assert second.id != first.id


async def test_the_folder_is_listed_once_so_that_what_is_pruned_is_what_was_seen(
    make: Callable[..., Engine], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gate.txt", "door.txt"):
        (folder / name).write_text(f"The {name} is green.")
    listings = []

    def list_and_empty(*given: object) -> object:
        listings.append(found := list_folder(*given))  # type: ignore[arg-type]
        for name in ("gate.txt", "door.txt"):
            (folder / name).rename(folder.parent / name)
        return found

    async with make(watch_prune=True) as engine:
        await FolderWatcher(engine).look()
        monkeypatch.setattr("ragstone.server.watch.list_folder", list_and_empty)
        look = await FolderWatcher(engine).look()
        assert len(listings) == 1
        assert look.files == 2
        assert len(engine.documents()) == 2, "a disk that goes away after the look removes nothing"


async def test_a_file_that_is_gone_is_removed_only_if_that_is_wanted(
    make: Callable[..., Engine], folder: Path
) -> None:
    for name in ("gate.txt", "door.txt"):
        (folder / name).write_text(f"The {name} is green.")
    async with make() as engine:
        await FolderWatcher(engine).look()
        (folder / "gate.txt").unlink()
        await FolderWatcher(engine).look()
        assert len(engine.documents()) == 2
    async with make(watch_prune=True) as engine:
        watcher = FolderWatcher(engine)
        await watcher.look()
        assert [one.name for one in engine.documents()] == ["door.txt"]
        (folder / "door.txt").unlink()
        await watcher.look()
        assert len(engine.documents()) == 1, "an empty folder may be a disk that is not there"
        folder.rmdir()  # noqa: ASYNC240
        look = await watcher.look()
        assert len(engine.documents()) == 1
        assert look.error == f"The watched folder '{folder}' does not exist."
        folder.mkdir()  # noqa: ASYNC240
        (folder / "dome.txt").write_text("The dome opens at nine.")
        assert (await watcher.look()).error == ""
        assert [one.name for one in engine.documents()] == ["dome.txt"]


async def test_what_fails_is_told_with_the_reason_and_not_read_at_every_look(
    make: Callable[..., Engine], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "bad.pdf").write_bytes(b"%PDF-1.4 broken")
    (folder / "gate.txt").write_text("The gate is green.")
    async with make() as engine:
        watcher = FolderWatcher(engine)
        look = await watcher.look()
        assert [(one.name, one.error) for one in look.unread] == [
            ("bad.pdf", "The PDF is damaged and cannot be opened.")
        ]
        reads = []
        original = engine.intake.ingest_found

        async def counted(*given: object, **options: object) -> object:
            reads.append(given)
            return await original(*given, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(engine.intake, "ingest_found", counted)
        assert (await watcher.look()).unread == look.unread
        assert not reads
        (folder / "bad.pdf").unlink()
        assert (await watcher.look()).unread == ()
        assert len(reads) == 1


async def test_a_problem_with_the_collection_is_told(
    make: Callable[..., Engine], folder: Path
) -> None:
    (folder / "gate.txt").write_text("The gate is green.")
    async with make(watch_collection="no/name") as engine:
        look = await FolderWatcher(engine).look()
        assert look.error == "Invalid collection name 'no/name'."
        assert look.hint
        assert read_last_look(engine.settings.data.directory, look.folder) == look


def test_a_server_watches_and_shows_what_it_saw(make: Callable[..., Engine], folder: Path) -> None:
    (folder / "bad.pdf").write_bytes(b"%PDF-1.4 broken")
    for address in serve(make(watch_s=1, watch_collection="inbox")):
        with httpx.Client(base_url=address, timeout=LONG_S) as client:
            (folder / "gate.txt").write_text("The gate is green.")
            seen = _wait(client, lambda seen: seen["files"] == 2 and not seen["is_reading"])
            assert seen["folder"] == str(folder)
            assert (seen["collection"], seen["every_s"], seen["prune"]) == ("inbox", 1.0, False)
            assert [one["name"] for one in seen["unread"]] == ["bad.pdf"]
            german = {"Accept-Language": "de"}
            listed = client.get("/v1/documents", params={"collection": "inbox"}, headers=german)
            reasons = {one["name"]: one["error"] for one in listed.json()}
            damaged = "Das PDF ist beschädigt und lässt sich nicht öffnen."
            assert reasons == {"bad.pdf": damaged, "gate.txt": None}
            seen = client.get("/v1/watched-folder", headers=german).json()
            assert [one["error"] for one in seen["unread"]] == [damaged]


def test_others_see_the_name_of_the_folder_and_only_if_they_may_read_it(
    make: Callable[..., Engine], folder: Path
) -> None:
    engine = make(watch_collection="inbox")
    app = create_app(engine)
    with TestClient(app) as client:
        ring = KeyRing(engine.catalog)
        for owner, collection, shown in (("ann", "inbox", "inbox"), ("bob", "other", None)):
            secret, _ = ring.create(
                owner, role="reader", collections=[collection], expires_in_s=None
            )
            app.state.keys = KeyRing(engine.catalog)
            headers = {"Authorization": f"Bearer {secret}"}
            assert client.get("/v1/watched-folder", headers=headers).json()["folder"] == shown


def test_only_an_admin_is_told_why_the_folder_cannot_be_read(
    make: Callable[..., Engine], tmp_path: Path
) -> None:
    engine = make(watch=tmp_path)  # it holds the data directory
    app = create_app(engine)
    with TestClient(app) as client:
        ring = KeyRing(engine.catalog)
        secrets = {
            role: ring.create(role, role=role, collections=["default"], expires_in_s=None)[0]
            for role in ("reader", "admin")
        }
        app.state.keys = KeyRing(engine.catalog)
        client.portal.call(FolderWatcher(engine).look)  # type: ignore[union-attr]
        shown = {
            role: client.get(
                "/v1/watched-folder", headers={"Authorization": f"Bearer {secret}"}
            ).json()
            for role, secret in secrets.items()
        }
    assert str(tmp_path) in shown["admin"]["error"]
    assert shown["reader"]["error"] == "The watched folder could not be read."
    assert str(tmp_path) not in json.dumps(shown["reader"])


def _wait(client: httpx.Client, is_there: Callable[[dict], bool]) -> dict:  # type: ignore[type-arg]
    end = time.monotonic() + LONG_S
    while time.monotonic() < end:
        seen = client.get("/v1/watched-folder").json()
        if seen["looked_at"] and is_there(seen):
            return seen  # type: ignore[no-any-return]
        time.sleep(0.1)
    pytest.fail("the folder was not read")


async def test_only_one_of_several_processes_watches(
    make: Callable[..., Engine], folder: Path
) -> None:
    (folder / "gate.txt").write_text("The gate is green.")
    async with make(watch_s=1) as engine:
        tasks = [asyncio.create_task(FolderWatcher(engine).run()) for _ in range(2)]
        directory = engine.settings.data.directory
        while (look := read_last_look(directory, str(folder))) is None or look.is_reading:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len(engine.documents()) == 1


def test_no_folder_is_watched_by_itself(client: httpx.Client) -> None:
    assert client.get("/v1/watched-folder").json()["folder"] is None


async def test_a_folder_that_holds_the_data_directory_is_not_read(
    make: Callable[..., Engine], tmp_path: Path
) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green.")
    async with make(watch=tmp_path) as engine:
        look = await FolderWatcher(engine).look()
        assert "holds the data directory" in look.error
        assert engine.documents() == []


def test_an_empty_variable_watches_nothing() -> None:
    assert load_settings(environ={"RAGSTONE_INGEST_WATCH": ""}).settings.ingest.watch is None


async def test_a_home_of_nobody_is_told_and_ends_nothing(make: Callable[..., Engine]) -> None:
    async with make(watch=Path("~nobody-has-this-name/inbox")) as engine:
        look = await FolderWatcher(engine).look()
        assert look.error.endswith("~nobody-has-this-name/inbox' does not exist.")
