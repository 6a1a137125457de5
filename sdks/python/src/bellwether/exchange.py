"""One exchange with the server: what an answer means, and whether to ask again."""

from __future__ import annotations

import errno
import json
import random
from typing import TypeVar

import httpx2

from .calls import Call
from .errors import (
    OUTCOME_UNKNOWN,
    BellwetherError,
    ConnectionFailed,
    ProblemError,
    TimedOut,
    Unavailable,
    UnexpectedAnswer,
    problem,
)

T = TypeVar("T")
DELAY_FIRST = 0.1
DELAY_MAX = 5.0


def answer(call: Call[T], status: int, headers: httpx2.Headers, body: bytes) -> T:
    """Read an answer; raises the problem if it is one."""
    if status >= 300:
        raise refusal(status, headers, body)
    try:
        return call.read(body)
    except (ValueError, KeyError, TypeError) as error:
        raise UnexpectedAnswer(f"{call.method} {call.path}: {error}") from error


def refusal(status: int, headers: httpx2.Headers, body: bytes) -> BellwetherError:
    """Make the exception of an answer that is no success."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict) or "code" not in document:
        return UnexpectedAnswer(f"status {status} without a problem document")
    after = headers.get("retry-after", "")
    return problem(status, document, float(after) if after.isdigit() else None)


def failed(error: httpx2.HTTPError) -> ConnectionFailed:
    """Make the exception of an exchange that broke."""
    if isinstance(error, httpx2.TimeoutException):
        made: ConnectionFailed = TimedOut(f"no answer in time: {error or type(error).__name__}")
    else:
        made = ConnectionFailed(f"the server cannot be reached: {error or type(error).__name__}")
    made.refused = was_refused(error)
    return made


def was_refused(error: BaseException) -> bool:
    """Whether nobody listened at any address: every connection was refused."""
    if not isinstance(error, httpx2.ConnectError):
        return False
    causes: list[BaseException] = [error]
    leaves: list[BaseException] = []
    while causes:
        cause = causes.pop()
        inner = [*getattr(cause, "exceptions", ())]
        if not inner and (below := cause.__cause__ or cause.__context__) is not None:
            inner = [below]
        causes += inner
        if not inner:
            leaves.append(cause)
    return bool(leaves) and all(
        isinstance(leaf, OSError) and leaf.errno == errno.ECONNREFUSED for leaf in leaves
    )


def pause_before_retry(call: Call[T], error: BellwetherError, attempt: int) -> float | None:
    """Say how long to wait before asking again; `None` if that is not safe or of no use."""
    if call.lines is not None and call.lines.spent:
        return None
    if isinstance(error, ConnectionFailed):
        certainly_not_done = error.refused
    elif isinstance(error, ProblemError) and error.status >= 500:
        # A server that knows that it has done nothing says when to ask again.
        known = error.code != OUTCOME_UNKNOWN and error.retry_after is not None
        certainly_not_done = isinstance(error, Unavailable) and known
    else:
        return None
    if not certainly_not_done and not call.repeatable:
        return None
    if isinstance(error, Unavailable) and error.retry_after is not None:
        return error.retry_after * (1 + random.random() / 2)
    return backoff(attempt)


def backoff(attempt: int) -> float:
    """Wait longer with each attempt, and not all at the same time."""
    return float(min(DELAY_FIRST * 2**attempt, DELAY_MAX) * (0.5 + random.random()))
