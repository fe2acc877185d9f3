"""Failures → problem documents (RFC 9457). The only place where an HTTP status is decided."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ragstone.errors import (
    DeadlineError,
    ForbiddenError,
    IngestError,
    InputError,
    LimitError,
    NotFoundError,
    OverloadedError,
    ProviderError,
    RagstoneError,
    SettingsError,
    StoreBusyError,
    StoreError,
    TooManyRequestsError,
    UnauthorizedError,
)
from ragstone.server.schemas import Problem

log = logging.getLogger(__name__)

# The first family that fits decides.
_STATUS: tuple[tuple[type[RagstoneError], HTTPStatus], ...] = (
    (InputError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (UnauthorizedError, HTTPStatus.UNAUTHORIZED),
    (ForbiddenError, HTTPStatus.FORBIDDEN),
    (TooManyRequestsError, HTTPStatus.TOO_MANY_REQUESTS),
    (OverloadedError, HTTPStatus.SERVICE_UNAVAILABLE),
    (DeadlineError, HTTPStatus.GATEWAY_TIMEOUT),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (IngestError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (SettingsError, HTTPStatus.BAD_REQUEST),
    (StoreBusyError, HTTPStatus.SERVICE_UNAVAILABLE),
    (ProviderError, HTTPStatus.BAD_GATEWAY),
    (StoreError, HTTPStatus.INTERNAL_SERVER_ERROR),
)


_UNFORESEEN, _SEE_LOG = "Something went wrong inside the server.", "The log says more."
_CLIENT_CLOSED_REQUEST = 499
_OPENAI = ("/v1/chat/completions", "/v1/models")
_SEND_JSON = "Send a JSON object in UTF-8 with the header Content-Type: application/json."

_SEND_FORM = "Let your client make the form: curl -F files=@notes.md …"


class BodyTooLargeError(HTTPException):
    """A request body over the limit; the framework lets an HTTPException pass while it reads."""

    def __init__(self, max_bytes: int, kind: str) -> None:
        super().__init__(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"The request is larger than {max_bytes / 1e6:g} MB",
        )
        self.hint = f"Send less, or raise RAGSTONE_SERVER_MAX_{kind}_MB."


class ClientGoneError(Exception):
    """The client hung up before its reply was there."""


def install(app: FastAPI) -> None:
    """Give every failure its problem document."""
    app.add_exception_handler(RagstoneError, _explained)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(ClientGoneError, _gone)
    app.add_exception_handler(ClientDisconnect, _gone)  # in the middle of its body
    app.add_exception_handler(Exception, _unexpected)


def problem(
    request: Request, status: int, detail: str, hint: str = "", retry_after_s: int | None = None
) -> JSONResponse:
    body = _members(request, _problem(request, status, detail, hint))
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"  # RFC 9110 wants to be told how to come in
    return JSONResponse(body, status, headers, media_type="application/problem+json")


def problem_of(request: Request, error: RagstoneError | None) -> dict[str, Any]:
    """The problem document of a failure after the reply has begun; None: an unforeseen one."""
    if error is None:
        body = _problem(request, HTTPStatus.INTERNAL_SERVER_ERROR, _UNFORESEEN, _SEE_LOG)
    else:
        body = _problem(request, status_of(error), error.message, error.hint)
    members = _members(request, body)
    del members["type"]  # of an event: what kind of event it is
    return members


def _members(request: Request, found: Problem) -> dict[str, Any]:
    body = found.model_dump()
    if request.url.path.startswith(_OPENAI):
        # OpenAI's clients look here for a failure; RFC 9457 lets a problem have further members.
        message = f"{found.detail} {found.hint}".strip()
        body["error"] = {"message": message, "type": found.title, "code": None, "param": None}
    return body


def _problem(request: Request, status: int, detail: str, hint: str) -> Problem:
    return Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        # What a client sent may stand in it, and half a surrogate pair cannot be sent back.
        detail=detail.encode("utf-8", "replace").decode(),
        hint=hint,
        request_id=getattr(request.state, "request_id", ""),
    )


def status_of(error: RagstoneError) -> HTTPStatus:
    return next(
        (status for family, status in _STATUS if isinstance(error, family)),
        HTTPStatus.INTERNAL_SERVER_ERROR,
    )


async def _explained(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RagstoneError)
    return explained(request, error)


def explained(request: Request, error: RagstoneError) -> JSONResponse:
    """The problem document of a failure that is understood."""
    wait = error.retry_after_s if isinstance(error, LimitError) else None
    wait = 1 if isinstance(error, StoreBusyError) else wait
    return problem(request, status_of(error), error.message, error.hint, wait)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    detail, hint = f"{where}: {first['msg']}.", "See /docs for the shape of the request."
    if first["type"] == "json_invalid":
        reason = first.get("ctx", {}).get("error", "it cannot be parsed")
        detail = f"The body is no JSON: {reason} (character {where})."
    elif not where:
        detail, hint = "The body is no JSON object.", _SEND_JSON
    return problem(request, HTTPStatus.UNPROCESSABLE_ENTITY, detail, hint)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    detail, hint = f"{error.detail}.", "See /docs for all addresses."
    is_form = request.headers.get("content-type", "").startswith("multipart/")
    if error.status_code == HTTPStatus.BAD_REQUEST and is_form:
        detail, hint = f"The form cannot be read: {error.detail.rstrip('.')}.", _SEND_FORM
    elif error.status_code == HTTPStatus.BAD_REQUEST:
        # What the framework says of bytes that are no UTF-8.
        detail, hint = "The body is no JSON in UTF-8.", _SEND_JSON
    elif isinstance(error, BodyTooLargeError):
        hint = error.hint
    elif error.status_code == HTTPStatus.NOT_FOUND:
        detail = f"There is nothing at {request.url.path}."
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        detail = f"{request.url.path} does not take {request.method}."
    reply = problem(request, error.status_code, detail, hint)
    reply.headers.update(error.headers or {})  # Allow, of a wrong method (RFC 9110)
    return reply


async def _gone(_request: Request, _error: Exception) -> Response:
    """Nobody reads this; it is for whoever counts replies."""
    return Response(status_code=_CLIENT_CLOSED_REQUEST)


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("unexpected failure", exc_info=error)
    reply = problem(request, HTTPStatus.INTERNAL_SERVER_ERROR, _UNFORESEEN, _SEE_LOG)
    # This handler stands outside of the one that tags every other reply.
    reply.headers["X-Request-ID"] = getattr(request.state, "request_id", "")
    return reply
