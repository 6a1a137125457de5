"""A run as its handler sees it, and the ways a handler can end it besides returning."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from ..times import format_instant, utc_now
from .output import Output

P = TypeVar("P")
CancelReason = Literal["canceled", "lease_lost", "timeout", "shutdown"]

current_run: contextvars.ContextVar[Run[Any] | None] = contextvars.ContextVar(
    "bellwether_run", default=None
)
"""The run that the present thread or task handles."""


class FailForGood(Exception):
    """Raised by a handler: the run has failed, and another attempt would not help."""

    def __init__(self, detail: str = "", *, reason: str | None = None) -> None:
        super().__init__(detail)
        self.reason = reason


class HandBack(Exception):
    """Raised by a handler that has done nothing yet: another worker may have the run."""


class Cancellation:
    """A flag that threads can wait for and tasks can await, with why it was set."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self.reason: CancelReason | None = None

    def set(self, reason: CancelReason) -> bool:
        """Set it; the first reason stays. False if it was set."""
        with self._lock:
            if self.reason is not None:
                return False
            self.reason = reason
            self._event.set()
            waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            # A loop that is closed has nobody waiting on it.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)
        return True

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._event.is_set()

    def wait(self, timeout: float | None) -> bool:
        """Block until it is set, or for so long. Whether it is set."""
        return self._event.wait(timeout)

    async def wait_async(self) -> None:
        """Wait until it is set."""
        event = asyncio.Event()
        with self._lock:
            if self.reason is not None:
                return
            self._waiting.append((asyncio.get_running_loop(), event))
        await event.wait()


@dataclass(frozen=True, eq=False)
class Run(Generic[P]):
    """What a handler is given."""

    id: str
    job_id: str
    key: str | None
    """The job's key."""
    namespace: str
    queue: str
    job_type: str
    attempt: int
    """From 1."""
    fencing_token: int
    """Grows with every attempt: a target can refuse a lower one than it has seen."""
    idempotency_key: str
    """The same for all attempts of the run."""
    scheduled_at: datetime
    """The tick it is for."""
    timeout: float | None
    """How many seconds it may take."""
    payload: P
    _cancellation: Cancellation = field(default_factory=Cancellation, repr=False)
    _output: Output = field(default_factory=Output, repr=False)

    @property
    def canceled(self) -> bool:
        """Whether to stop: whatever is returned from now on counts for nothing, or little."""
        return self._cancellation.is_set()

    @property
    def cancel_reason(self) -> CancelReason | None:
        """Why to stop.

        `canceled` by somebody, `lease_lost` as the run may be another worker's, `timeout`, or
        `shutdown` of this worker.
        """
        return self._cancellation.reason

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the run is canceled, or for so many seconds. Whether it is canceled."""
        return self._cancellation.wait(timeout)

    async def wait_canceled(self) -> None:
        """Wait until the run is canceled."""
        await self._cancellation.wait_async()

    def log(self, message: str, /, *, level: str = "info", **fields: object) -> None:
        """Add a line of JSON to the run's output."""
        line = {"at": format_instant(utc_now()), "level": level, "message": message, **fields}
        self.write(json.dumps(line, default=str, ensure_ascii=False) + "\n")

    def write(self, text: str) -> None:
        """Add a text to the run's output, as it stands."""
        self._output.write(text)
