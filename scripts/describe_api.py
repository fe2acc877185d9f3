"""Describe the public Python names from their source: docstrings, signatures and fields.

`ragstone.__all__` → docs/reference/api.md, through build_reference.py. An `Example:` at the end of
a docstring becomes a Python block, which tests/test_docs.py runs.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

import ragstone

GENERATED_NOTE = "<!-- Written by `make reference`; edit the source, not this page. -->"
Body = ast.FunctionDef | ast.AsyncFunctionDef

# Every public name once, in the order in which a reader needs it.
SECTIONS = {
    "The engine": ("Engine",),
    "Options of a call": ("QueryOptions", "IngestOptions", "UploadOptions", "Message"),
    "Events of a stream": (
        "Event", "SourcesFound", "Token", "ClaimsChecked", "Finished", "SideEvent",
    ),
    "Results": (
        "Answer", "Citation", "Claim", "Source", "Hit", "Scores", "Chunk", "Document",
        "Comparison", "Grounding", "Feedback", "IngestReport", "IngestedFile", "BatchItem",
        "QuestionContext", "Explanation", "QueryRun", "CollectionInfo",
    ),
    "Settings": ("load_settings", "LoadedSettings", "Settings"),
    "Errors": (
        "RagstoneError", "SettingsError", "InputError", "RefusedError", "UnauthorizedError",
        "ForbiddenError", "LimitError", "TooManyRequestsError", "OverloadedError",
        "DeadlineError", "IngestError", "StoreError", "StoreBusyError", "StoreDamagedError",
        "StoreUnavailableError", "OriginalMissingError", "ProviderError",
        "UnusableReplyError", "NotFoundError",
    ),
}  # fmt: skip


# Names of types that no section describes, written out.
ALIASES = {
    "Hits": "tuple[Hit, ...]",
    "Paths": "str | PathLike | Sequence[str | PathLike]",
    "Vote": "'up' | 'down'",
}


def write_out(text: str) -> str:
    """Replace each alias in a signature or type by what it stands for."""
    return re.sub(rf"\b(?:{'|'.join(ALIASES)})\b", lambda found: ALIASES[found[0]], text)


def render_api_page() -> str:
    """Write the whole page; a public name that no section lists is an error."""
    listed = [name for names in SECTIONS.values() for name in names]
    missing = set(ragstone.__all__) - set(listed) - {"__version__"}
    if missing or len(set(listed)) != len(listed):
        raise SystemExit(f"scripts/describe_api.py must list each name once: {sorted(missing)}")
    lines = [
        "# Python",
        "",
        GENERATED_NOTE,
        "",
        "Everything here is imported from `ragstone`. Other modules may change without notice.",
    ]
    for title, names in SECTIONS.items():
        lines += ["", f"## {title}"]
        if title == "Errors":
            lines += ["", "```text", *error_tree("RagstoneError"), "```"]
        for name in names:
            lines += describe(name)
    return "\n".join(lines) + "\n"


def describe(name: str) -> Iterator[str]:
    found = getattr(ragstone, name)
    if inspect.isfunction(found):
        node = node_of(found.__module__, name)
        assert isinstance(node, Body)
        yield from ("", f"### `{name}`", "", "```text", signature(node, name), "```", "")
        yield from text_of(node)
    elif not inspect.isclass(found):  # a union of types
        yield from ("", f"### `{name}`", "")
        yield "Any of " + ", ".join(f"`{one.__name__}`" for one in found.__args__) + "."
    elif name == "RagstoneError" or not issubclass(found, ragstone.RagstoneError):
        yield from describe_class(found)  # the tree has the one sentence of the other errors


def describe_class(found: type[Any]) -> Iterator[str]:
    name = found.__name__
    node = node_of(found.__module__, name)
    assert isinstance(node, ast.ClassDef)
    yield from ("", f"### `{name}`", "")
    yield from text_of(node)
    if name == "Settings":
        yield from ("", "Every section and field: [settings](settings.md).")
        return
    rows = [row for owner in owners_of(found.__module__, node) for row in fields_of(owner)]
    if rows:
        yield from ("", "| field | type | |", "|---|---|---|")
        yield from (f"| `{field}` | `{kind}` | {text} |" for field, kind, text in rows)
    for method in node.body:
        if not isinstance(method, Body) or method.name.startswith("_"):
            if name == "Engine" and isinstance(method, Body) and method.name == "__init__":
                yield from ("", "```text", signature(method, name), "```")
        elif is_property(method):
            if ast.get_docstring(method):
                yield from ("", f"**`{name}.{method.name}`** (property)", "", *text_of(method))
        else:
            yield from ("", f"#### `{name}.{method.name}`", "", "```text")
            yield from (signature(method, method.name), "```", "", *text_of(method))


def owners_of(module: str, node: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """Yield the bases of a class in its module, and then the class itself."""
    # Not from `__bases__`, of which a TypedDict keeps none.
    for base in node.bases:
        if isinstance(base, ast.Name) and hasattr(sys.modules[module], base.id):
            origin = getattr(sys.modules[module], base.id)
            if getattr(origin, "__module__", "") == module:
                owner = node_of(module, base.id)
                assert isinstance(owner, ast.ClassDef)
                yield from owners_of(module, owner)
    yield node


def fields_of(node: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and description of each field; the description is the string after it."""
    for at, one in enumerate(node.body):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            follows = node.body[at + 1] if at + 1 < len(node.body) else None
            text = ""
            if isinstance(follows, ast.Expr) and isinstance(follows.value, ast.Constant):
                text = " ".join(str(follows.value.value).split())
            kind = write_out(ast.unparse(one.annotation)).replace("|", "\\|")
            yield one.target.id, kind, text.replace("|", "\\|")


def node_of(module: str, name: str) -> ast.ClassDef | Body:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    for node in tree.body:
        if isinstance(node, ast.ClassDef | Body) and node.name == name:
            return node
    raise SystemExit(f"{module} does not define {name}")


def is_property(method: Body) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "property" for one in method.decorator_list)


def signature(node: Body, name: str) -> str:
    """Format a call, with one argument per line if it is long."""
    arguments = re.sub(r"^self(, )?", "", write_out(ast.unparse(node.args)))
    arguments = re.sub(r"(: [^,=]+)=", r"\1 = ", arguments)
    returns = f" -> {write_out(ast.unparse(node.returns))}" if node.returns else ""
    kind = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    if node.name == "__init__":
        returns = ""
    whole = f"{kind}{name}({arguments}){returns}"
    if len(whole) <= 96:
        return whole
    split = re.split(r", (?![^\[]*\])", arguments)
    return f"{kind}{name}(\n" + "".join(f"    {one},\n" for one in split) + f"){returns}"


def text_of(node: ast.ClassDef | Body) -> Iterator[str]:
    """Render a docstring as Markdown; its `Example:` becomes a block of Python."""
    prose, _, example = (ast.get_docstring(node) or "").partition("\nExample:\n")
    yield from prose.strip().splitlines()
    if example:
        yield from ("", "```python", inspect.cleandoc(example), "```")


def error_tree(name: str, depth: int = 0) -> Iterator[str]:
    found = getattr(ragstone, name)
    text = (inspect.getdoc(found) or "").splitlines()[0]
    head = f"{'    ' * depth}{name}"
    yield head if depth == 0 else f"{head:<34}{text}"
    for one in found.__subclasses__():
        if one.__name__ in ragstone.__all__:
            yield from error_tree(one.__name__, depth + 1)
