"""`GET /v1/settings`: the effective settings with their origins; secrets are never told."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, SecretStr

from ragstone import __version__
from ragstone.server.auth import CallerDep
from ragstone.server.routes.query import engine_of
from ragstone.settings import PRESETS, Setting, allowed_values, effective, preset_values

router = APIRouter(prefix="/v1", tags=["settings"])


class OneSetting(BaseModel):
    name: str
    value: Any
    origin: str
    variables: list[str]
    description: str
    allowed: str


class SettingsReply(BaseModel):
    version: str
    preset: str
    presets: dict[str, dict[str, Any]]
    embedder: str
    provider: str
    model: str
    settings: list[OneSetting]


@router.get("/settings")
async def settings(request: Request, caller: CallerDep) -> SettingsReply:
    """Every setting with its value, who set it, and what it may be.

    Where the data lies and which servers stand behind this one is for admins.
    """
    engine = engine_of(request)
    listing = getattr(request.app.state, "listing", None) or effective(engine.settings)
    return SettingsReply(
        version=__version__,
        preset=engine.settings.preset,
        presets={preset: preset_values(preset) for preset in PRESETS},
        embedder=engine.embedder.name,
        provider=engine.provider.name,
        model=engine.provider.model,
        settings=[_shown(one) for one in listing if caller.is_admin or _is_harmless(one)],
    )


def _is_harmless(setting: Setting) -> bool:
    section = setting.path.partition(".")[0]
    return section not in {"data", "index", "provider", "server"} and "url" not in setting.path


def _shown(setting: Setting) -> OneSetting:
    value = setting.value
    if isinstance(value, SecretStr):
        value = "********" if value.get_secret_value() else ""
    elif not isinstance(value, str | int | float | bool | None):
        value = str(value)
    return OneSetting(
        name=setting.path,
        value=value,
        origin=setting.origin,
        variables=list(setting.names),
        description=setting.description,
        allowed=allowed_values(setting.path),
    )
