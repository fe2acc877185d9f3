"""Run `ragstone reembed`: fill, compare, switch and drop a second generation of vectors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragstone.cli import options
from ragstone.cli.options import print_json, print_table, stderr, stdout
from ragstone.errors import InputError
from ragstone.system import count_usable_cores

if TYPE_CHECKING:
    from ragstone.catalog.generations import Generation, Reembedder
    from ragstone.engine import Engine
    from ragstone.evaluate.generations import GenerationComparison
    from ragstone.settings import Settings

_FOLLOW_S = 2.0
_MAX_SHOWN = 10


_Collection = Annotated[
    str | None, typer.Option("--collection", "-C", metavar="NAME", help="Only this collection.")
]
_Model = Annotated[
    str | None, typer.Option("--model", "-m", metavar="NAME", help="The new embedding model.")
]
_Provider = Annotated[
    str | None,
    typer.Option(
        "--provider", metavar="NAME", help="Its embedder (EMBEDDING_PROVIDER). Default: as set."
    ),
]
_Url = Annotated[str | None, typer.Option("--url", help="URL of its service (EMBEDDING_BASE_URL).")]
_Rate = Annotated[
    float, typer.Option("--rate", min=0.0, help="Embed at most this many chunks a second. 0: any.")
]
_Follow = Annotated[
    bool, typer.Option("--follow", help="Stay and keep the new vectors in step until Ctrl-C.")
]
_Status = Annotated[bool, typer.Option("--status", help="Show the generations only.")]
_Compare = Annotated[
    bool, typer.Option("--compare", help="Search your latest questions with both.")
]
_Questions = Annotated[
    Path | None,
    typer.Option(
        "--questions",
        metavar="FILE",
        readable=False,
        help="With --compare: an evaluation file instead of the history.",
    ),
]
_Limit = Annotated[int, typer.Option("--limit", min=1, help="With --compare: how many questions.")]
_Switch = Annotated[bool, typer.Option("--switch", help="Search with the new vectors from now on.")]
_Back = Annotated[
    bool, typer.Option("--back", help="Undo the switch: search with the previous vectors.")
]
_Drop = Annotated[bool, typer.Option("--drop", help="Delete the vectors that are not searched.")]


def embed_again(
    collection: _Collection = None,
    model: _Model = None,
    provider: _Provider = None,
    url: _Url = None,
    rate: _Rate = 0.0,
    follow: _Follow = False,
    status: _Status = False,
    compare: _Compare = False,
    questions: _Questions = None,
    limit: _Limit = 100,
    switch: _Switch = False,
    back: _Back = False,
    drop: _Drop = False,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    set: options.Overrides = None,
) -> None:
    """Embed the documents with another model while questions go on, compare, and switch.

    Without --switch, --back or --drop it fills a second generation of vectors from the stored
    texts; a run that was stopped continues where it was. No file is read again. Servers that run
    notice a switch by themselves.

    Examples:

      ragstone reembed --model bge-small-en-v1.5 --rate 50

      ragstone reembed --provider ollama --model nomic-embed-text

      ragstone reembed --compare

      ragstone reembed --switch

      ragstone reembed --back

      ragstone reembed --drop
    """
    if status + compare + switch + back + drop > 1:
        raise InputError(
            "--status, --compare, --switch, --back and --drop cannot be combined.",
            hint="Run them in turn.",
        )
    loaded = options.load_settings(data, config, None, set)
    with options.open_engine(loaded, existing=data) as engine:
        names = options.choose_collections(engine, collection)
        if status:
            _print_status(engine, names, as_json=json)
            return
        wanted = _apply_model(engine.settings, provider, model, url)
        for name in names:
            if drop:
                _drop(engine, name)
            elif compare:
                _compare(engine, name, questions, limit, as_json=json, is_only=len(names) == 1)
            elif switch or back:
                _switch(engine, name, rate, back=back)
            else:
                _fill(engine, name, wanted, rate, follow=follow)


def _apply_model(
    settings: Settings, provider: str | None, model: str | None, url: str | None
) -> Settings:
    if provider is None and model is None and url is None:
        return settings
    name, is_same = provider or settings.embed.name, provider in (None, settings.embed.name)
    embed: dict[str, Any] = {"name": name, "model": model or ""}
    embed["base_url"] = url or (settings.embed.base_url if is_same else "")
    from ragstone.parts import apply_embed_settings

    return apply_embed_settings(settings, embed)


def begin_run(
    engine: Engine, collection: str, wanted: Settings, *, follows_settings: bool = False
) -> Generation:
    """Begin or continue the generation of the embedder that the settings name."""
    from ragstone.catalog.generations import begin_generation
    from ragstone.parts import get_embed_settings
    from ragstone.plugins import find_part

    own, settings = get_embed_settings(engine.settings), get_embed_settings(wanted)
    same = settings == own
    embedder = engine.embedder if same else find_part("embedder", wanted.embed.name)(wanted)
    # One that cannot be reached must not leave a generation behind.
    embedder.embed(["A first text, to see that the embedder answers."])
    is_own = engine.catalog.embedder_of(collection) == engine.embedder.name
    generation = begin_generation(
        engine.catalog,
        collection,
        embedder.name,
        settings,
        own if is_own else None,
        follows_settings=follows_settings,
    )
    if not same:
        engine.for_generation(generation).embedder = embedder
    return generation


@contextmanager
def open_run(engine: Engine, generation: Generation, rate: float = 0.0) -> Iterator[Reembedder]:
    """Open what fills a generation: its embedder in threads of low priority, and its index."""
    from ragstone.catalog.generations import Reembedder
    from ragstone.ingest.embed import EmbeddingQueue

    ingest, target = engine.settings.ingest, engine.for_generation(generation)
    threads = ingest.embed_threads or count_usable_cores()
    with EmbeddingQueue(target.embedder, threads, niceness=ingest.niceness) as queue:
        yield Reembedder(
            engine.catalog,
            generation,
            lambda texts: queue.put(texts, {}).result(),
            lambda: target.index.refresh(generation.collection),
            chunks_per_s=rate,
        )


@contextmanager
def show_progress(run: Reembedder) -> Iterator[None]:
    name = run.generation.collection
    with stderr().status(f"{name}: embedding …") as shown:
        run.report = lambda count: shown.update(f"{name}: {count:,} chunks embedded")
        yield


def _fill(engine: Engine, collection: str, wanted: Settings, rate: float, *, follow: bool) -> None:
    begun = time.perf_counter()
    generation = begin_run(engine, collection, wanted)
    with open_run(engine, generation, rate) as run, show_progress(run):
        run.fill()
        stdout().print(
            f"{collection}: {run.count:,} chunks embedded with {generation.embedder} in "
            f"{time.perf_counter() - begun:.1f} s; questions still use "
            f"{engine.catalog.embedder_of(collection)}"
        )
        while follow:
            time.sleep(_FOLLOW_S)
            run.fill()
    stdout().print("Next:  ragstone reembed --compare, then  ragstone reembed --switch")


def _find_other(engine: Engine, collection: str) -> tuple[Generation, Generation]:
    """Return the generation that is searched and the other one, which must exist."""
    from ragstone.catalog.generations import read_generations

    pair = read_generations(engine.catalog, collection)
    if pair.other is None:
        raise InputError(
            f"The collection '{collection}' has one generation of vectors only.",
            hint="Fill a second one: ragstone reembed --model NAME",
        )
    if pair.other.place == "dropping":
        raise InputError(
            f"The vectors of '{pair.other.embedder}' are being deleted.",
            hint="Finish it: ragstone reembed --drop",
        )
    return pair.active, pair.other


def _switch(engine: Engine, collection: str, rate: float, *, back: bool) -> None:
    active, other = _find_other(engine, collection)
    if back != (other.created_at < active.created_at):
        raise InputError(
            f"The collection '{collection}' is searched with '{active.embedder}' already.",
            hint=f"To search with '{other.embedder}', use {'--switch' if back else '--back'}.",
        )
    with open_run(engine, other, rate) as run, show_progress(run):
        run.switch()
    stdout().print(
        f"{collection}: searched with {other.embedder} from now on; {run.count:,} chunks were "
        f"embedded first. Take it back with {'--switch' if back else '--back'}; delete the vectors "
        f"of {active.embedder} with --drop."
    )


def _drop(engine: Engine, collection: str) -> None:
    from ragstone.catalog.generations import drop_generation

    dropped = drop_generation(engine.catalog, collection)
    index = engine.for_collection(collection).index
    delete_others = getattr(index, "delete_others", None)
    if delete_others is not None:
        delete_others(collection)
    what = "there is nothing to delete" if dropped is None else f"deleted the vectors of {dropped}"
    stdout().print(f"{collection}: {what}")


def _compare(
    engine: Engine,
    collection: str,
    file: Path | None,
    limit: int,
    *,
    as_json: bool,
    is_only: bool,
) -> None:
    from ragstone.evaluate.datasets import load_dataset
    from ragstone.evaluate.generations import compare_generations, read_own_questions

    active, other = _find_other(engine, collection)
    with open_run(engine, other) as run, show_progress(run):
        run.fill()  # what was uploaded since
    if file is None:
        asked = read_own_questions(engine, collection, limit)
    else:
        asked = list(load_dataset(file).take_sample(limit).questions)
    if not asked:
        missing = f"The history has no questions to '{collection}' yet."
        if is_only:
            hint = "Give an evaluation file: ragstone reembed --compare --questions FILE"
            raise InputError(missing, hint=hint)
        stderr().print(missing)
        return
    before, after = engine.for_generation(active), engine.for_generation(other)
    result = asyncio.run(compare_generations(before, after, collection, asked))
    if as_json:
        print_json(result.as_dict())
    else:
        _print_comparison(result)


def _print_comparison(result: GenerationComparison) -> None:
    count = len(result.questions)
    stdout().print(
        f"{count:,} questions, {result.before} (searched) against {result.after}:\n"
        f"of the first ten chunks {result.overlap:.0%} are the same; the first document is the "
        f"same for {result.same_first:,} of {count:,}."
    )
    if measures := result.measure():
        stdout().print(f"On {result.graded_count:,} questions whose documents are known:")
        rows = [
            (name, f"{before:.3f}", f"{after:.3f}", f"{after - before:+.3f}")
            for name, (before, after) in measures.items()
        ]
        print_table(["measure", result.before, result.after, "change"], rows)
    if changed := [one for one in result.questions if not one.has_same_first]:
        columns = ["question", f"first with {result.before}", f"with {result.after}"]
        print_table(
            columns,
            [
                (one.question.text[:70], _name_first(one.before), _name_first(one.after))
                for one in changed[:_MAX_SHOWN]
            ],
        )


def _name_first(hits: Any) -> str:
    return hits[0].chunk.document_name if hits else "–"


def _print_status(engine: Engine, names: list[str], *, as_json: bool) -> None:
    from ragstone.catalog.generations import read_generations

    found = []
    for name in names:
        pair = read_generations(engine.catalog, name)
        last = engine.catalog.counts(name).last_change
        found.append((name, pair.active.embedder, "searched"))
        if pair.other is not None:
            behind = max(0, last - pair.other.filled_seq)
            state = f"{behind:,} changes behind" if behind else "in step"
            if pair.other.place == "dropping":
                state = "being deleted; finish with: ragstone reembed --drop"
            found.append((name, pair.other.embedder, state))
    columns = ["collection", "embedder", "state"]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in found])
    else:
        print_table(columns, found)
