"""How a run ended, from what its handler did and what it was told."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import traceback
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from ..times import format_instant, utc_now
from .held import Held
from .output import Rest
from .run import FailForGood, HandBack

Outcome = Literal["succeeded", "failed", "failed_for_good", "canceled", "handed_back"]
RESULT_BYTES_MAX = 200 * 1024
REASON_CHARS_MAX = 64
DETAIL_CHARS_MAX = 1_000
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True)
class Ended:
    """What to tell the server about a run."""

    held: Held
    outcome: Outcome
    reason: str = ""
    detail: str = ""
    result: Any = None
    finished_at: datetime = dataclasses.field(default_factory=utc_now)
    bare: bool = False
    """Without output and result, since the server refused these."""

    def body(self) -> dict[str, Any]:
        """Write it as the API wants it."""
        held = self.held
        body: dict[str, Any] = {
            "run_id": held.run.id,
            "fencing_token": held.run.fencing_token,
            "outcome": self.outcome,
        }
        if self.outcome == "handed_back":
            return body
        if self.reason:
            body["reason"] = self.reason[:REASON_CHARS_MAX]
        if self.detail:
            body["detail"] = _clean(self.detail[:DETAIL_CHARS_MAX])
        if held.started_at is not None:
            body["started_at"] = format_instant(held.started_at)
        body["finished_at"] = format_instant(self.finished_at)
        if not self.bare:
            body |= _output(held.run._output.rest())
            if self.result is not None:
                body["result"] = self.result
        return body


def _output(rest: Rest) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if rest.unanswered is not None:
        body["unanswered"] = vars(rest.unanswered)
    if rest.text:
        body["output"] = rest.text
    if rest.sequence:
        body["output_sequence"] = rest.sequence
    if rest.bytes_printed:
        body["output_bytes"] = rest.bytes_printed
    return body


def _clean(text: str) -> str:
    """Leave out what no UTF-8 can say."""
    return text.encode("utf-8", "replace").decode()


def snake_case(name: str) -> str:
    """Write a class's name as a reason: `HTTPError` as `http_error`."""
    return _WORDS.sub("_", name).lower()


def handed_back(held: Held) -> Ended:
    """Another worker may have it."""
    return Ended(held, "handed_back")


def broken_off(held: Held) -> Ended:
    """The worker ends and the handler does not."""
    return Ended(held, "failed", "worker_stopped", "the worker was stopped before the run's end")


def settle(held: Held, error: BaseException | None, value: object) -> Ended:
    """Decide how a run ended. What the handler was told comes first."""
    told = held.run.cancel_reason
    if error is not None and not isinstance(error, HandBack | asyncio.CancelledError):
        _print(held, error)
    if told == "canceled":
        return Ended(held, "canceled", "canceled")
    if told == "timeout":
        return Ended(held, "failed", "timeout", f"it took longer than {held.run.timeout} s")
    if error is None:
        return _succeeded(held, value)
    if isinstance(error, HandBack):
        return handed_back(held)
    if isinstance(error, FailForGood):
        reason = error.reason or snake_case(type(error).__name__)
        return Ended(held, "failed_for_good", reason, str(error))
    if isinstance(error, asyncio.CancelledError) and told == "shutdown":
        return broken_off(held)
    return Ended(held, "failed", snake_case(type(error).__name__), str(error))


def _print(held: Held, error: BaseException) -> None:
    # The first frame is the one that called the handler.
    frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
    held.run.write("".join(traceback.format_exception(type(error), error, frames)))


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


def _succeeded(held: Held, value: object) -> Ended:
    """Take what a handler returned as the result, if it can be stored."""
    try:
        text = json.dumps(value, default=_plain, allow_nan=False, ensure_ascii=False)
        size = len(text.encode("utf-8"))
    except (TypeError, ValueError, RecursionError) as error:
        return Ended(held, "failed_for_good", "result_not_json", str(error))
    if size > RESULT_BYTES_MAX:
        detail = f"the result has {size} bytes; at most {RESULT_BYTES_MAX} are stored"
        return Ended(held, "failed_for_good", "result_too_large", detail)
    return Ended(held, "succeeded", result=json.loads(text))
