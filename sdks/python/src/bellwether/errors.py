"""What can go wrong, as exceptions: each problem of the server by its kind.

A problem's `code` does not change between versions of the server; compare it, not the text.
"""

from __future__ import annotations

from typing import Any

OUTCOME_UNKNOWN = "outcome_unknown"


class BellwetherError(Exception):
    """Anything that this package raises about the server."""


class ConnectionFailed(BellwetherError):
    """The server was not reached, or the connection broke."""

    refused: bool = False
    """Whether nobody listened there: the request was not even sent."""


class TimedOut(ConnectionFailed):
    """The server did not answer in time. What was asked for may have been done."""


class UnexpectedAnswer(BellwetherError):
    """Something answered that does not speak as a server does."""


class ProblemError(BellwetherError):
    """The server refused a request and said why (RFC 9457)."""

    def __init__(
        self,
        *,
        status: int,
        code: str,
        detail: str,
        title: str = "",
        field: str | None = None,
        type: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{detail} ({code}{f', at {field}' if field else ''})")
        self.status = status
        self.code = code
        self.detail = detail
        self.title = title
        self.field = field
        self.type = type
        self.retry_after = retry_after


class InvalidRequest(ProblemError):
    """The request could not be read or accepted (400, 405, 413, 422)."""


class Unauthorized(ProblemError):
    """The token is missing, unknown or expired (401)."""


class Forbidden(ProblemError):
    """The token does not allow this (403)."""


class NotFound(ProblemError):
    """There is no such thing (404)."""


class Conflict(ProblemError):
    """It contradicts what is there (409)."""


class Unavailable(ProblemError):
    """The server does not take it now, and has done nothing (503).

    Unless its code is `outcome_unknown`: then nobody knows whether it was done.
    """


class ServerFailed(ProblemError):
    """The server could not do it; it may be half done (other 5xx)."""


_BY_STATUS: dict[int, type[ProblemError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    503: Unavailable,
}


def problem(status: int, document: dict[str, Any], retry_after: float | None) -> ProblemError:
    """Make the exception of a problem document."""
    kind = _BY_STATUS.get(status, ServerFailed if status >= 500 else InvalidRequest)
    field = document.get("field")
    return kind(
        status=status,
        code=str(document.get("code", "")),
        detail=str(document.get("detail", "")),
        title=str(document.get("title", "")),
        field=None if field is None else str(field),
        type=str(document.get("type", "")),
        retry_after=retry_after,
    )
