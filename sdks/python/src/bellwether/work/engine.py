"""The threads that lease runs, keep them, and stop in time what cannot be kept."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ..errors import BellwetherError, ConnectionFailed, ProblemError
from ..exchange import backoff
from ..times import lease_clock, parse_span
from .ended import handed_back
from .execute import Executor
from .held import Board, Held
from .link import Leased, LeasedRun, Link
from .reports import Reporter
from .run import Run

log = logging.getLogger("bellwether.worker")
LEASED_MAX = 1_000
POLL_SECONDS_MAX = 5.0
"""A stop waits for the request for work that is open, since its answer may bring some."""
ANSWER_SECONDS_MAX = 10.0
WATCH_SECONDS_MAX = 0.25
OUTPUT_SECONDS_MAX = 1.0
"""How long what a handler prints may wait before others can read it."""


class Engine:
    """A worker at work."""

    def __init__(
        self,
        link: Link,
        board: Board,
        executor: Executor,
        reporter: Reporter,
        cancel_grace: float,
        on_fatal: Callable[[BellwetherError], None],
        on_drain: Callable[[], None],
    ) -> None:
        self._link = link
        self._board = board
        self._executor = executor
        self._reporter = reporter
        self._cancel_grace = cancel_grace
        self._on_fatal = on_fatal
        self._on_drain = on_drain
        self._heartbeat = 10.0
        self._polls = True
        self._known = threading.Event()
        self._stopping = threading.Event()
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=f"bellwether-{name}", daemon=True)
            for name, target in [("poll", self._poll), ("beat", self._beat), ("watch", self._watch)]
        ]

    def start(self) -> None:
        """Start to take work."""
        self._reporter.start()
        for thread in self._threads:
            thread.start()

    def stop_taking(self) -> None:
        """Take nothing more."""
        self._stopping.set()
        self.nudge()

    def nudge(self) -> None:
        """Have those who wait look again."""
        with self._board.changed:
            self._board.changed.notify_all()

    def is_idle(self) -> bool:
        """Whether nothing can come any more, and nothing is left to do or report."""
        return not self._polls and self._board.is_idle()

    def wait_until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Block until something holds, or for so long."""
        return self._board.wait_until(done, seconds)

    def cancel_all(self) -> None:
        """Tell all handlers to stop, since the worker ends."""
        for held in self._executor.active():
            self._board.cancel(held, "shutdown", lease_clock(), self._cancel_grace)

    def abandon_all(self) -> None:
        """Say of handlers that have not ended that they were broken off."""
        for held in self._executor.active():
            self._executor.abandon(held)

    def finish(self) -> None:
        """End everything; nothing is heard of the worker after this."""
        self._stopping.set()
        self._done.set()
        self._known.set()
        for thread in self._threads:
            thread.join()
        self._reporter.close()
        try:
            # Work that was on its way to this worker goes to another right away.
            self._link.heartbeat([], self._board.lease / 3)
        except BellwetherError as error:
            log.debug("the server was not told of the end: %s", error)
        self._executor.close()
        self._link.close()

    def _poll(self) -> None:
        attempt = 0
        wait = 0.0
        board = self._board
        try:
            while not self._stopping.is_set():
                board.wait_until(lambda: board.free() > 0 or self._stopping.is_set(), None)
                if self._stopping.is_set():
                    return
                sent = lease_clock()
                try:
                    free = min(board.free(), LEASED_MAX)
                    answer = self._link.lease(free, wait, ANSWER_SECONDS_MAX)
                except BellwetherError as error:
                    if self._is_hopeless(error):
                        self._on_fatal(error)
                        return
                    log.warning("no work could be asked for, trying again: %s", error)
                    self._stopping.wait(min(backoff(attempt), board.lease / 8))
                    attempt += 1
                    continue
                attempt = 0
                wait = self._learn(answer)
                self._take(answer.runs, sent)
                self._obey(self._board.all(), answer.stop, answer.draining)
        finally:
            self._polls = False
            self.nudge()

    def _is_hopeless(self, error: BellwetherError) -> bool:
        """Whether the server refuses this worker as such: a wrong name, queue or token."""
        return isinstance(error, ProblemError) and error.status < 500 and not self._known.is_set()

    def _learn(self, answer: Leased) -> float:
        """Take over the server's settings; returns how long to wait for work next time."""
        lease = parse_span(answer.lease)
        self._board.lease = lease
        # At a third of the lease two heartbeats may go astray.
        self._heartbeat = min(parse_span(answer.heartbeat), lease / 3)
        self._known.set()
        return min(POLL_SECONDS_MAX, lease / 3)

    def _take(self, runs: list[LeasedRun], sent: float) -> None:
        for leased in runs:
            held = Held(_run(leased), sent + self._board.lease)
            if not self._board.take(held):
                self._reporter.put(handed_back(held))
            elif self._stopping.is_set() or not self._board.is_good(held, lease_clock()):
                self._executor.leave(held)
            else:
                self._executor.start(held)

    def _beat(self) -> None:
        # How often is in the first answer; until then there is nothing to keep.
        self._known.wait()
        due = lease_clock() + self._heartbeat
        while not self._done.wait(min(OUTPUT_SECONDS_MAX, max(due - lease_clock(), 0.0))):
            which = self._board.all()
            prints = any(held.run._output.piece() for held in which)
            if not which or (lease_clock() < due and not prints):
                due = due if which else lease_clock() + self._heartbeat
                continue
            sent = lease_clock()
            due = sent + self._heartbeat
            try:
                self._beat_once(which, sent)
            except BellwetherError as error:
                log.warning("a heartbeat failed, trying again: %s", error)
                if isinstance(error, ConnectionFailed) and error.refused:
                    self._board.keep(which, sent)
                due = lease_clock() + min(self._heartbeat / 4, 1.0)

    def _beat_once(self, which: list[Held], sent: float) -> None:
        said = [(held.run, held.run._output.piece()) for held in which]
        answer = self._link.heartbeat(said, self._board.lease / 3)
        lost, full = set(answer.lost), set(answer.full)
        now = lease_clock()
        for run, piece in said:
            if run.id in full:
                run._output.refused()
            elif piece is not None:
                run._output.sent(piece)
        self._board.keep([held for held in which if held.run.id not in lost], sent)
        for held in which:
            # What is being reported just now may be lost because its end was taken up.
            if held.run.id in lost and held.state != "reporting":
                self._lose(held, now)
        self._obey(which, answer.stop, answer.draining)

    def _obey(self, which: list[Held], stop: list[str], draining: bool) -> None:
        """Stop what the server wants to be stopped, and the worker itself if it is to leave."""
        for held in which:
            if held.run.id in stop and not held.lost and held.state in ("waiting", "running"):
                self._board.cancel(held, "canceled", lease_clock(), self._cancel_grace)
        if draining and not self._stopping.is_set():
            log.info("the server wants this worker to leave")
            self._on_drain()

    def _lose(self, held: Held, now: float) -> None:
        log.warning("run %s is this worker's no more", held.run.id)
        self._board.lose(held, now)

    def _watch(self) -> None:
        while not self._done.wait(min(WATCH_SECONDS_MAX, self._board.lease / 24)):
            now = lease_clock()
            for held in self._board.all():
                if held.state in ("waiting", "running") and not self._board.is_good(held, now):
                    self._lose(held, now)
            for held in self._executor.active():
                if held.timeout_at is not None and now >= held.timeout_at:
                    self._board.cancel(held, "timeout", now, self._cancel_grace)
                    held.timeout_at = None
                if held.interrupt and held.interrupt_at is not None and now >= held.interrupt_at:
                    held.interrupt()
                    held.interrupt_at = None


def _run(leased: LeasedRun) -> Run[object]:
    return Run(
        id=leased.run_id,
        job_id=leased.job_id,
        key=leased.key or None,
        namespace=leased.namespace,
        queue=leased.queue,
        job_type=leased.job_type,
        attempt=leased.attempt,
        fencing_token=leased.fencing_token,
        idempotency_key=leased.idempotency_key,
        scheduled_at=leased.scheduled_at,
        timeout=parse_span(leased.timeout) if leased.timeout else None,
        payload=leased.payload,
    )
