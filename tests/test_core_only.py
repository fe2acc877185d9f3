"""`pip install ragstone` alone is enough: every package outside the core is refused.

Two checks: Ragstone is used while such imports are refused, and every import in its source, also
one inside a function that the first check does not call, is looked up.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import (
    PackageNotFoundError,
    distribution,
    packages_distributions,
    requires,
)
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .cli.run import environment
from .conftest import SAMPLES
from .ingest.formats.files import docx, paragraph
from .ingest.formats.test_tables import text_cell, xlsx
from .patience import LONG_S

GUARD = Path(__file__).parent / "core_only"
SOURCE = Path(__file__).parents[1] / "src"

# Which module may import what of which extra. Everything else must be in the core.
OF_AN_EXTRA = {
    ("ragstone.evaluate.metrics", "ir_measures"): "eval",
    ("ragstone.ingest.formats.pdf", "PIL"): "ocr",
    ("ragstone.ingest.formats.pdf", "rapidocr_onnxruntime"): "ocr",
    ("ragstone.ingest.formats.read", "msoffcrypto"): "encrypted",
    ("ragstone.integrations.langchain", "langchain_core"): "langchain",
    ("ragstone.integrations.llamaindex", "llama_index"): "llamaindex",
    ("ragstone.models.embedder", "onnxruntime_extensions"): "multilingual",
    ("ragstone.observe.spans", "opentelemetry"): "otel",
    ("ragstone.providers.fastembed", "fastembed"): "fastembed",
    ("ragstone.providers.llamacpp", "xllamacpp"): "local",
    ("ragstone.providers.sentence_transformers", "sentence_transformers"): "sentence-transformers",
    ("ragstone.server.mcp", "mcp"): "mcp",
    # Suites for plug-ins: who runs them has pytest.
    ("ragstone.testing.catalogs", "pytest"): "dev",
    ("ragstone.testing.conformance", "pytest"): "dev",
}


def find_core() -> set[str]:
    """Name the distributions that `pip install ragstone` brings, with those that they need."""
    core: set[str] = set()
    todo = [("ragstone", "")]
    seen = set(todo)
    while todo:
        name, extra = todo.pop()
        core.add(name)
        try:
            needed = requires(name) or ()
        except PackageNotFoundError:  # for another system or version of Python
            continue
        for requirement in map(Requirement, needed):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                other = canonicalize_name(requirement.name)
                new = {(other, one) for one in ("", *requirement.extras)} - seen
                seen |= new
                todo += new
    return core


def find_refused(core: set[str]) -> dict[str, str]:
    """Map each module that the core does not bring to its distribution."""
    return {
        module: owners[0]
        for module, owners in packages_distributions().items()
        if not core & {canonicalize_name(owner) for owner in owners}
    }


def find_imports(source: Path) -> Iterator[tuple[str, str]]:
    """Yield each module below `source` with the name of each package that it imports, anywhere."""
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names | {"ragstone"}:
                    yield module, top


def find_wrong_imports(source: Path, core: set[str]) -> list[str]:
    """Write a sentence for each import that is neither of the core nor of a named extra."""
    owners = packages_distributions()
    return [
        f"{module} imports '{name}', which 'pip install ragstone' does not bring. Use a package of "
        f"the core, or add it to the dependencies in pyproject.toml, or to an extra and to "
        f"OF_AN_EXTRA in {Path(__file__).name}."
        for module, name in sorted({*find_imports(source)} - OF_AN_EXTRA.keys())
        if not core & {canonicalize_name(owner) for owner in owners.get(name, ())}
    ]


def write_documents(folder: Path) -> None:
    """Write one document for each package that reads a format."""
    folder.mkdir()
    (folder / "gate.txt").write_text("The gate of the observatory is painted green.")
    (folder / "hours.md").write_text("# Hours\n\nThe dome opens at nine in the evening.")
    (folder / "shop.html").write_text("<h1>Shop</h1><p>A map of the stars costs 7 euros.</p>")
    (folder / "prices.csv").write_text("item,price\nsoup,6 euros\nbread,2 euros\n")
    (folder / "roof.rtf").write_text(r"{\rtf1\ansi The roof was repaired in 2019.\par}")
    (folder / "stairs.docx").write_bytes(docx(paragraph("The tower has 112 stairs.")))
    rows = {1: text_cell("A1", "lamp") + text_cell("B1", "watts"), 2: text_cell("A2", "red")}
    (folder / "lamps.xlsx").write_bytes(xlsx(rows))
    shutil.copy(SAMPLES / "contracts" / "lease-of-the-ridge.pdf", folder)


def run_guarded(refused: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Use everything in a process in which these packages are refused."""
    listed = folder / "refused.json"
    listed.write_text(json.dumps(refused))
    write_documents(folder / "documents")
    # A PYTHONPATH of the caller is kept, so that the source under test stays the same.
    path = os.pathsep.join([str(GUARD), *filter(None, [environment().get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, str(GUARD / "use_everything.py"), str(folder)], cwd=folder,
        capture_output=True, text=True, check=False, timeout=3 * LONG_S,
        env=environment(PYTHONPATH=path, CORE_ONLY=str(listed)),
    )  # fmt: skip


def test_the_core_loads_its_parts_ingests_answers_and_serves(tmp_path: Path) -> None:
    refused = find_refused(find_core())
    assert {"pytest", "mypy"} <= refused.keys()
    assert not {"ragstone", "numpy"} & refused.keys()
    done = run_guarded(refused, tmp_path)
    assert done.returncode == 0, done.stderr
    counts = [int(number) for number in re.findall(r"^(\d+) ", done.stdout, re.MULTILINE)]
    assert len(counts) == 3
    assert counts[0] > 30
    assert counts[1] > 100
    assert counts[2] == 8
    assert re.search(r"^asked: .*green", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^served: .*green", done.stdout, re.MULTILINE), done.stdout


def test_every_import_of_the_source_is_of_the_core_or_of_a_named_extra() -> None:
    wrong = find_wrong_imports(SOURCE, find_core())
    assert not wrong, "\n".join(wrong)


def test_every_exception_is_needed_and_names_an_extra_that_exists() -> None:
    assert OF_AN_EXTRA.keys() <= {*find_imports(SOURCE)}
    extras = distribution("ragstone").metadata.get_all("Provides-Extra") or ()
    assert {*OF_AN_EXTRA.values()} <= {*extras}


def test_an_import_inside_a_function_is_found(tmp_path: Path) -> None:
    module = tmp_path / "ragstone" / "ingest" / "sheet.py"
    module.parent.mkdir(parents=True)
    module.write_text("import numpy\n\ndef read():\n    from mypy.api import run\n")
    (wrong,) = find_wrong_imports(tmp_path, find_core())
    assert wrong.startswith("ragstone.ingest.sheet imports 'mypy', which 'pip install ragstone'")


@pytest.mark.slow
def test_without_a_package_that_it_needs_the_core_names_the_import_chain(
    tmp_path: Path,
) -> None:
    """The check itself can fail: here a package of the core is counted as one outside."""
    refused = find_refused(find_core() - {"httpx"})
    done = run_guarded(refused, tmp_path)
    assert done.returncode == 1
    start = "An import needs a package outside the core: ragstone."
    assert done.stderr.startswith(start), done.stderr
    assert re.search(r"Import chain: .*ragstone\.[\w.]+ → httpx", done.stderr)


@pytest.mark.slow
def test_a_package_that_only_one_format_needs_is_named_with_the_file(tmp_path: Path) -> None:
    """Formats import their packages at first use, in a process that parses."""
    done = run_guarded(find_refused(find_core() - {"striprtf"}), tmp_path)
    assert done.returncode == 1
    start = r"An import needs a package outside the core: ragstone\.ingest\.formats\.\w+ imports "
    assert re.match(start + r"'striprtf'", done.stderr), done.stderr
    assert "(to read roof.rtf)" in done.stderr
