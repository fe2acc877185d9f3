"""Run `ragstone feedback` and `consent`: ratings of answers, and what may be stored of a person."""

from __future__ import annotations

import dataclasses
import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragstone.catalog import schema
from ragstone.catalog.feedback import describe_storage
from ragstone.cli import options
from ragstone.cli.history import Limit
from ragstone.cli.options import format_time, print_json, print_table, stderr, stdout
from ragstone.errors import SettingsError
from ragstone.filters import HistoryFilter
from ragstone.types import LOCAL_OWNER

if TYPE_CHECKING:
    from ragstone.engine import Engine

KeyOwner = Annotated[
    str, typer.Option("--owner", metavar="NAME", help="Owner of the key; 'local' without keys.")
]


def feedback(
    query_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Rate the answer of this query.")
    ] = None,
    vote: Annotated[str | None, typer.Option(metavar="up|down", help="Good or bad.")] = None,
    rating: Annotated[int | None, typer.Option(help="1 (bad) to 5 (good).")] = None,
    comment: Annotated[str, typer.Option(help="The reason.")] = "",
    delete: Annotated[bool, typer.Option("--delete", help="Delete the rating.")] = False,
    owner: KeyOwner = LOCAL_OWNER,
    collection: Annotated[
        str | None,
        typer.Option(
            "--collection", "-C", metavar="NAME", help="List only answers from this collection."
        ),
    ] = None,
    limit: Limit = 20,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Write the rated questions for `eval`."),
    ] = None,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """List the ratings of answers, newest first; rate one; or write them to a file for `eval`.

    Examples:

      ragstone feedback 3f1c… --vote down --comment 'This is the old rent.'

      ragstone feedback --collection contracts

      ragstone feedback --export rated.jsonl && ragstone eval rated.jsonl
    """
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        if query_id is not None:
            query_id = options.complete_id(engine.catalog, schema.queries.c.id, query_id)
            values = {"vote": vote, "rating": rating, "comment": comment, "owner": owner}
            _change(engine, query_id, values, delete=delete, as_json=json)
            return
        if delete or vote or rating or comment:
            raise SettingsError(
                "To rate an answer, name its query.",
                hint="List the ids with `ragstone history`, then: ragstone feedback ID --vote up",
            )
        wanted = HistoryFilter(collections=[collection] if collection else None)
        found = engine.history.feedback.list_rated(wanted, None, skip=0, limit=limit)
        if collection and not found:
            options.require_collection(engine, collection)
        if export is not None:
            _export(engine, wanted, export)
            return
    if json:
        print_json(found)
    else:
        _print_ratings(found)


def _print_ratings(found: list[dict[str, Any]]) -> None:
    if not found:
        stdout().print("No ratings yet. Rate an answer with: ragstone feedback ID --vote up")
        return
    rows = [
        (
            format_time(one["created_at"]),
            one["query_id"],
            one["owner"],
            _format_rating(one),
            one["query"] or "–",
            one["comment"],
        )
        for one in found
    ]
    print_table(["when (UTC)", "query", "by", "rating", "question", "comment"], rows)


def _change(
    engine: Engine, query_id: str, values: dict[str, Any], *, delete: bool, as_json: bool
) -> None:
    if delete:
        engine.history.feedback.delete(query_id, values["owner"])
        stdout().print("Deleted 1 rating.")
        return
    given = engine.rate(query_id, **values)
    if as_json:
        print_json(dataclasses.asdict(given))
    else:
        stdout().print("Rated 1 answer.")


def _format_rating(rated: dict[str, Any]) -> str:
    stars = f"{rated['rating']} of 5" if rated["rating"] else ""
    return ", ".join(part for part in (rated["vote"] or "", stars) if part) or "–"


def _export(engine: Engine, wanted: HistoryFilter, target: Path) -> None:
    lines = engine.history.feedback.list_questions(wanted, None)
    options.create_folder(target.parent, "--export")
    text = "".join(json_module.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    target.write_text(text, "utf-8")
    known = sum("answers" in line or "answerable" in line for line in lines)
    stdout().print(
        f"Wrote {len(lines)} questions to {target}, {known} with a reference.", markup=False
    )
    if known < len(lines):
        stderr().print("Add 'answer' to the others in the file, or they are only asked.")


consent_app = typer.Typer(
    no_args_is_help=True,
    help="Show, give and withdraw the consent to store questions (REQUIRE_CONSENT).",
)


@consent_app.command("show")
def show_consent(
    owner: KeyOwner = LOCAL_OWNER,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Show what is stored about an owner, and whether the owner has agreed.

    Example:  ragstone consent show --owner alice
    """
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        consents = engine.history.consents
        found, is_required = consents.find(owner), consents.is_required
        description = describe_storage(consents.options)
    if json:
        agreed_at = found.agreed_at if found else None
        values = {"owner": owner, "required": is_required, "agreed_at": agreed_at}
        print_json({**values, "description": description})
    elif found and is_required:
        stdout().print(f"{owner} agreed on {format_time(found.agreed_at)} UTC.", markup=False)
        stdout().print(description)
    elif is_required:
        stdout().print(f"{owner} has not agreed: nothing is stored.", markup=False)
        stdout().print(f"After `ragstone consent give`: {description}")
    else:
        stdout().print(f"Consent is not required (REQUIRE_CONSENT is off). {description}")


@consent_app.command("give")
def give_consent(
    owner: KeyOwner = LOCAL_OWNER,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Agree that questions, answers and conversations are stored from now on.

    Example:  ragstone consent give
    """
    with options.open_engine(options.load_settings(data, config)) as engine:
        engine.history.consents.agree(owner)
        stdout().print(describe_storage(engine.history.consents.options))


@consent_app.command("withdraw")
def withdraw_consent(
    owner: KeyOwner = LOCAL_OWNER,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Withdraw the consent, and delete every session, query and rating of the owner.

    Example:  ragstone consent withdraw --owner alice
    """
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        sessions, queries = engine.history.withdraw_consent(owner)
        stdout().print(
            f"Deleted {sessions} sessions and {queries} queries of {owner}.", markup=False
        )
