"""Archives: bounded, never trusted with a path, read as far as they can be."""

from __future__ import annotations

import gzip
import io
import tarfile

from hypothesis import given
from hypothesis import strategies as st

from ragstone.blocks import LoadOptions
from ragstone.ingest.formats.read import clean_name, read_parts

from .files import zipped


def tarred(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def test_the_files_of_an_archive_are_documents() -> None:
    content = zipped({"a.txt": "One.", "sub/b.md": "# Two\n\nText.", "picture.png": b"\x89PNG"})
    parts = list(read_parts(content, "a.zip", LoadOptions()))
    assert [part.member for part in parts] == ["a.txt", "sub/b.md"]
    assert all(part.loaded for part in parts)


def test_a_compressed_tar_is_read_as_it_streams() -> None:
    content = gzip.compress(tarred({"x/a.txt": b"One.", "x/b.txt": b"Two."}))
    assert [part.member for part in read_parts(content, "a.tar.gz", LoadOptions())] == [
        "x/a.txt",
        "x/b.txt",
    ]


def test_a_single_compressed_file_has_the_name_without_its_last_suffix() -> None:
    (part,) = read_parts(gzip.compress(b"Some text."), "notes.txt.gz", LoadOptions())
    assert (part.member, part.error) == ("notes.txt", "")


def test_two_files_of_the_same_name_are_two_documents() -> None:
    content = tarred({"a.txt": b"One."})[:1024] + tarred({"a.txt": b"Two."})
    assert [part.member for part in read_parts(content, "a.tar", LoadOptions())] == [
        "a.txt",
        "a.txt (2)",
    ]


def test_a_bomb_is_stopped_at_the_limit() -> None:
    bomb = gzip.compress(b"\0" * 5_000_000)
    (part,) = read_parts(bomb, "a.txt.gz", LoadOptions(max_unpacked_bytes=1_000_000))
    assert "bomb" in part.error


def test_the_limit_counts_over_all_levels() -> None:
    inner = zipped({f"{n}.txt": b"text " * 30_000 for n in range(3)})
    content = zipped({"a.zip": inner, "b.zip": inner})
    parts = list(read_parts(content, "c.zip", LoadOptions(max_unpacked_bytes=600_000)))
    assert "bomb" in parts[-1].error
    assert len([part for part in parts if part.loaded]) < 6


def test_an_office_file_that_unpacks_without_end_is_stopped() -> None:
    content = zipped({"[Content_Types].xml": "", "word/document.xml": b" " * 5_000_000})
    (part,) = read_parts(content, "a.docx", LoadOptions(max_unpacked_bytes=1_000_000))
    assert "bomb" in part.error


def test_an_archive_in_an_archive_is_read_to_a_depth() -> None:
    content: bytes = b"Text."
    name = "a.txt"
    for level in range(5):
        content, name = zipped({name: content}), f"{level}.zip"
    (part,) = read_parts(content, name, LoadOptions(max_depth=3))
    assert "nested more than 3" in part.error
    (part,) = read_parts(content, name, LoadOptions(max_depth=5))
    assert part.loaded is not None


def test_too_many_files_in_an_archive_are_refused() -> None:
    content = zipped({f"{n}.txt": "Text." for n in range(20)})
    parts = list(read_parts(content, "a.zip", LoadOptions(max_members=10)))
    assert "more files than are allowed" in parts[-1].error


def test_an_archive_that_is_cut_off_says_so() -> None:
    content = gzip.compress(tarred({"a.txt": b"x" * 100_000}))
    (part,) = read_parts(content[: len(content) // 2], "a.tar.gz", LoadOptions())
    assert "cut off" in part.error


@given(st.text(max_size=60))
def test_a_name_from_an_archive_never_climbs_or_starts_at_the_root(name: str) -> None:
    shown = clean_name(name)
    assert shown
    assert not shown.startswith("/")
    assert not {"..", "."} & set(shown.split("/"))
    assert "\n" not in shown
