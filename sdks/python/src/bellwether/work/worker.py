"""The worker that applications make: handlers, start, stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from ..errors import BellwetherError
from ..settings import settings
from .engine import Engine
from .execute import Executor, Handler
from .held import Board
from .link import Link
from .reports import Reporter
from .run import Run

P = TypeVar("P")
R = TypeVar("R")
Plain = TypeVar("Plain", bound=Callable[[Run[Any]], object])
REPORT_SECONDS_MAX = 10.0


class Worker:
    """Runs handlers for the jobs of a queue.

    `slots` is how many handlers run at once. `grace` is how many seconds a stop waits for them,
    `cancel_grace` how many a coroutine that was told to stop has before it is canceled. The name
    must be unique among running workers: unless given, it is made of host and process.
    """

    def __init__(
        self,
        queue: str = "default",
        *,
        name: str | None = None,
        slots: int = 8,
        labels: Mapping[str, str] | None = None,
        grace: float = 30.0,
        cancel_grace: float = 5.0,
        server: str | None = None,
        token: str | None = None,
        ca_file: str | None = None,
    ) -> None:
        if slots < 1:
            raise ValueError("a worker needs at least one slot")
        self.queue = queue
        self.name = name or _own_name()
        self.slots = slots
        self.labels = dict(labels or {})
        self.grace = grace
        self.cancel_grace = cancel_grace
        self._settings = settings(server, token, None, ca_file)
        self._handlers: dict[str, Handler] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._running: Engine | None = None
        self._stops = 0
        self._fatal: BellwetherError | None = None

    @overload
    def handler(self, job_type: str) -> Callable[[Plain], Plain]: ...

    @overload
    def handler(
        self, job_type: str, *, payload: Callable[..., P]
    ) -> Callable[[Callable[[Run[P]], R]], Callable[[Run[P]], R]]: ...

    def handler(self, job_type: str, *, payload: Callable[..., Any] | None = None) -> Any:
        """Make a function the handler of a job type.

        `payload` says how to read what the job carries: a dataclass, whose fields are checked, or
        any callable that takes the JSON value. What it returns, the handler finds in `run.payload`.
        """

        def register(function: Callable[[Run[Any]], Any]) -> Callable[[Run[Any]], Any]:
            if job_type in self._handlers:
                raise ValueError(f"there is a handler for {job_type!r} already")
            self._handlers[job_type] = Handler(function, payload)
            return function

        return register

    def run(self) -> None:
        """Work until SIGTERM, SIGINT or `stop`; a second signal does not wait for handlers."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            # Elsewhere than in the main thread, or without such signals, there is `stop`.
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.stop)
        await self.serve()

    def stop(self) -> None:
        """Take nothing more, finish and return; from any thread. A second call does not wait."""
        self._stops += 1
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(wake.set)
        if self._running is not None:
            self._running.nudge()

    async def serve(self) -> None:
        """Work on this event loop until `stop`, or until it is canceled."""
        if self._loop is not None:
            raise RuntimeError("this worker is at work already")
        if not self._handlers:
            raise RuntimeError("a worker needs handlers: add some with @worker.handler(…)")
        self._loop = asyncio.get_running_loop()
        self._wake = wake = asyncio.Event()
        self._running = engine = self._engine(self._loop)
        engine.start()
        try:
            while self._stops == 0 and self._fatal is None:
                await wake.wait()
                wake.clear()
            await self._shut_down(engine, self.grace)
        except asyncio.CancelledError:
            await self._shut_down(engine, 0)
            raise
        finally:
            self._loop = self._wake = self._running = None
            self._stops = 0
        if self._fatal is not None:
            fatal, self._fatal = self._fatal, None
            raise fatal

    def _engine(self, loop: asyncio.AbstractEventLoop) -> Engine:
        board = Board(self.slots)
        link = Link(self._settings, self.queue, self.name, sorted(self._handlers), self.labels)
        reporter = Reporter(link, board)
        executor = Executor(board, self._handlers, loop, reporter.put)
        return Engine(
            link, board, executor, reporter, self.cancel_grace, self._gave_up, self._drained
        )

    def _gave_up(self, error: BellwetherError) -> None:
        self._fatal = error
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            loop.call_soon_threadsafe(wake.set)

    def _drained(self) -> None:
        """Stop once, however often the server says it."""
        if self._stops == 0:
            self.stop()

    async def _shut_down(self, engine: Engine, grace: float) -> None:
        """Let handlers finish; then tell them to stop; then say that they were broken off."""
        engine.stop_taking()
        if not await self._idle(engine, grace, may_hurry=True):
            engine.cancel_all()
            # Coroutines are broken off when their own grace is over, and need a moment then.
            if not await self._idle(engine, self.cancel_grace + 1.0):
                engine.abandon_all()
                await self._idle(engine, REPORT_SECONDS_MAX)
        await asyncio.to_thread(engine.finish)

    async def _idle(self, engine: Engine, seconds: float, *, may_hurry: bool = False) -> bool:
        def done() -> bool:
            return engine.is_idle() or (may_hurry and self._stops > 1)

        await asyncio.to_thread(engine.wait_until, done, seconds)
        return engine.is_idle()


def _own_name() -> str:
    host = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in _host())
    return f"{host[:80]}-{os.getpid()}-{secrets.token_hex(3)}"


def _host() -> str:
    return socket.gethostname() or "worker"
