"""Having handlers run: plain functions in threads, coroutines on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import queue
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, TypeAlias

from ..decode import decode
from ..times import lease_clock, utc_now
from .ended import Ended, broken_off, handed_back, settle
from .held import Board, Held
from .run import FailForGood, Run, current_run

Function: TypeAlias = Callable[[Run[Any]], Any] | Callable[[Run[Any]], Awaitable[Any]]


@dataclass(frozen=True)
class Handler:
    """A function for a job type, and how to read what it is given."""

    function: Function
    payload: Callable[..., Any] | None

    @property
    def is_async(self) -> bool:
        """Whether it belongs on the event loop."""
        return inspect.iscoroutinefunction(self.function)

    def prepared(self, run: Run[Any]) -> Run[Any]:
        """Read the payload. One that cannot be read will not be better next time."""
        if self.payload is None:
            return run
        try:
            if isinstance(self.payload, type) and is_dataclass(self.payload):
                return replace(run, payload=decode(self.payload, run.payload))
            return replace(run, payload=self.payload(run.payload))
        except Exception as error:
            raise FailForGood(f"{error}", reason="invalid_payload") from error


class Threads:
    """A pool of threads that never keep the process from ending, however long a handler takes."""

    def __init__(self, threads_max: int) -> None:
        self._max = threads_max
        self._count = 0
        self._idle = 0
        self._lock = threading.Lock()
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def submit(self, task: Callable[[], None]) -> None:
        """Have a task run as soon as a thread is free."""
        with self._lock:
            if self._idle <= 0 and self._count < self._max:
                self._count += 1
                name = f"bellwether-handler-{self._count}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
            else:
                self._idle -= 1
        self._tasks.put(task)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            with self._lock:
                self._idle += 1

    def close(self) -> None:
        """Let the threads end when they are done."""
        for _ in range(self._count):
            self._tasks.put(None)


class Executor:
    """Starts handlers and passes on how they end."""

    def __init__(
        self,
        board: Board,
        handlers: dict[str, Handler],
        loop: asyncio.AbstractEventLoop,
        report: Callable[[Ended], None],
    ) -> None:
        self._board = board
        self._handlers = handlers
        self._loop = loop
        self._report = report
        self._threads = Threads(board.slots)
        self._tasks: set[asyncio.Task[None]] = set()
        self._active: set[Held] = set()
        self._lock = threading.Lock()

    def start(self, held: Held) -> None:
        """Start the handler of a run that has a slot."""
        handler = self._handlers.get(held.run.job_type)
        if handler is None:
            self.leave(held)
            return
        with self._lock:
            self._active.add(held)
        if handler.is_async:
            self._loop.call_soon_threadsafe(self._start_task, held, handler)
        else:
            self._threads.submit(lambda: self._run(held, handler))

    def leave(self, held: Held) -> None:
        """Give back a run that has a slot and was not started."""
        self._board.release_slot()
        self._report(handed_back(held))

    def active(self) -> list[Held]:
        """Return everything whose handler is at work, also what was lost meanwhile."""
        with self._lock:
            return list(self._active)

    def abandon(self, held: Held) -> None:
        """Say of a handler that does not end that it was broken off."""
        with self._lock:
            if held not in self._active:
                return
            self._active.discard(held)
        self._board.release_slot()
        self._report(broken_off(held))

    def close(self) -> None:
        """Let idle threads end."""
        self._threads.close()

    def _begin(self, held: Held) -> None:
        held.state = "running"
        held.started_at = utc_now()
        if held.run.timeout is not None:
            held.timeout_at = lease_clock() + held.run.timeout

    def _end(self, held: Held, error: BaseException | None, value: object) -> None:
        with self._lock:
            if held not in self._active:
                return
            self._active.discard(held)
        held.state = "ended"
        held.interrupt = None
        ended = settle(held, error, value)
        if not held.lost:
            self._report(ended)
        self._board.release_slot()

    def _run(self, held: Held, handler: Handler) -> None:
        self._begin(held)
        token = current_run.set(held.run)
        value, error = None, None
        try:
            value = handler.function(handler.prepared(held.run))
        except BaseException as raised:
            error = raised
        finally:
            current_run.reset(token)
        self._end(held, error, value)

    def _start_task(self, held: Held, handler: Handler) -> None:
        task = self._loop.create_task(self._run_async(held, handler))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def interrupt() -> None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(task.cancel)

        held.interrupt = interrupt

    async def _run_async(self, held: Held, handler: Handler) -> None:
        self._begin(held)
        current_run.set(held.run)
        value, error = None, None
        try:
            value = await handler.function(handler.prepared(held.run))
        except BaseException as raised:
            error = raised
        self._end(held, error, value)
