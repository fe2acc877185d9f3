"""Turn failures into problem documents (RFC 9457): the only place that decides an HTTP status."""

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
    StoreUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
)
from ragstone.messages import choose_language, translate
from ragstone.server.schemas import Problem

log = logging.getLogger(__name__)

# The first family that fits decides.
_STATUSES: tuple[tuple[type[RagstoneError], HTTPStatus], ...] = (
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
    (StoreUnavailableError, HTTPStatus.SERVICE_UNAVAILABLE),
    (ProviderError, HTTPStatus.BAD_GATEWAY),
    (StoreError, HTTPStatus.INTERNAL_SERVER_ERROR),
)

SEE_DOCS = "See /docs for all endpoints."
_UNEXPECTED = (
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "An unexpected error happened inside the server.",
    "See the server's log for this request_id.",
)
_CLIENT_CLOSED_REQUEST = 499
_OPENAI_PATHS = ("/v1/chat/completions", "/v1/models")
_SEND_JSON = "Send a JSON object in UTF-8 with the header Content-Type: application/json."
_SEND_FORM = "Let your client build the form: curl -F files=@notes.md …"


class BodyTooLargeError(HTTPException):
    """A request body over the limit; the framework lets an HTTPException pass while it reads."""

    def __init__(self, max_bytes: int, kind: str) -> None:
        super().__init__(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"The request is larger than {max_bytes / 1e6:g} MB",
        )
        self.hint = f"Send less, or raise RAGSTONE_SERVER_MAX_{kind}_MB."


class ClientGoneError(Exception):
    """The client disconnected before its reply was ready."""


def install_error_handlers(app: FastAPI) -> None:
    """Give every failure its problem document."""
    app.add_exception_handler(RagstoneError, _handle_ragstone_error)
    app.add_exception_handler(RequestValidationError, _handle_invalid_request)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.add_exception_handler(ClientGoneError, _handle_disconnect)
    app.add_exception_handler(ClientDisconnect, _handle_disconnect)  # while its body was read
    app.add_exception_handler(Exception, _handle_unexpected_error)


def respond_with_problem(
    request: Request, status: int, detail: str, hint: str = "", retry_after_s: int | None = None
) -> JSONResponse:
    body = _build_problem(request, status, detail, hint)
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"  # RFC 9110 requires it
    return JSONResponse(body, status, headers, media_type="application/problem+json")


def respond_to_error(request: Request, error: RagstoneError) -> JSONResponse:
    wait_s = error.retry_after_s if isinstance(error, LimitError | StoreUnavailableError) else None
    wait_s = 1 if isinstance(error, StoreBusyError) else wait_s
    return respond_with_problem(request, choose_status(error), error.message, error.hint, wait_s)


def build_error_event(request: Request, error: RagstoneError | None) -> dict[str, Any]:
    """Describe a failure after the reply has begun; None: an unexpected one."""
    if error is None:
        body = _build_problem(request, *_UNEXPECTED)
    else:
        body = _build_problem(request, choose_status(error), error.message, error.hint)
    return {**body, "type": "error"}


# As RFC 9110 names them: Python 3.13 does, 3.12 has older names.
_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}


def _build_problem(request: Request, status: int, detail: str, hint: str) -> dict[str, Any]:
    language = choose_language(request.headers.get("accept-language", ""))
    detail, hint = translate(detail, language), translate(hint, language)
    problem = Problem(
        title=_TITLES.get(status, HTTPStatus(status).phrase),
        status=status,
        # It may quote what a client sent, and half a surrogate pair cannot be sent back.
        detail=detail.encode("utf-8", "replace").decode(),
        hint=hint,
        request_id=getattr(request.state, "request_id", ""),
    )
    body = problem.model_dump()
    if request.url.path.startswith(_OPENAI_PATHS):
        # OpenAI's clients look here for a failure; RFC 9457 lets a problem have further members.
        message = f"{problem.detail} {problem.hint}".strip()
        body["error"] = {"message": message, "type": problem.title, "code": None, "param": None}
    return body


def choose_status(error: RagstoneError) -> HTTPStatus:
    return next(
        (status for family, status in _STATUSES if isinstance(error, family)),
        HTTPStatus.INTERNAL_SERVER_ERROR,
    )


async def _handle_ragstone_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RagstoneError)
    return respond_to_error(request, error)


async def _handle_invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    detail, hint = f"{where}: {first['msg']}.", "See /docs for the shape of the request."
    if first["type"] == "json_invalid":
        reason = first.get("ctx", {}).get("error", "it cannot be parsed")
        detail = f"The body is not valid JSON: {reason} (character {where})."
    elif first["type"] == "extra_forbidden":
        detail = f"There is no field '{where}'."
        if where == "stream" and request.url.path == "/v1/query":
            hint = "For a stream of events, send the header Accept: text/event-stream."
    elif not where:
        detail, hint = "The body is not a JSON object.", _SEND_JSON
    return respond_with_problem(request, HTTPStatus.UNPROCESSABLE_ENTITY, detail, hint)


async def _handle_http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    detail, hint = f"{error.detail}.", SEE_DOCS
    is_form = request.headers.get("content-type", "").startswith("multipart/")
    if error.status_code == HTTPStatus.BAD_REQUEST and is_form:
        detail, hint = f"The form cannot be read: {error.detail.rstrip('.')}.", _SEND_FORM
    elif error.status_code == HTTPStatus.BAD_REQUEST:
        # The framework raises this for bytes that are not UTF-8.
        detail, hint = "The body is not JSON in UTF-8.", _SEND_JSON
    elif isinstance(error, BodyTooLargeError):
        hint = error.hint
    elif error.status_code == HTTPStatus.NOT_FOUND:
        detail = f"There is nothing at {request.url.path}."
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        detail = f"{request.url.path} does not accept {request.method}."
    reply = respond_with_problem(request, error.status_code, detail, hint)
    reply.headers.update(error.headers or {})  # Allow, of a wrong method (RFC 9110)
    return reply


async def _handle_disconnect(_request: Request, _error: Exception) -> Response:
    """Give the metrics a status; nobody reads this reply."""
    return Response(status_code=_CLIENT_CLOSED_REQUEST)


async def _handle_unexpected_error(request: Request, error: Exception) -> JSONResponse:
    log.error("unexpected failure", exc_info=error)
    reply = respond_with_problem(request, *_UNEXPECTED)
    # This handler runs outside of the middleware that adds the header to every other reply.
    reply.headers["X-Request-ID"] = getattr(request.state, "request_id", "")
    return reply
