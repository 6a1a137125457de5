"""Telling the server how runs ended, many with one request, until it has taken it up.

While the server is away ends are kept and sent again, as long as the run is certainly still the
worker's. Later they would be refused anyway: the run may be with another worker.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections import deque

from ..errors import BellwetherError, ConnectionFailed, ProblemError
from ..exchange import backoff
from ..times import lease_clock
from .ended import Ended
from .held import Board
from .link import Link

log = logging.getLogger("bellwether.worker")
RESULTS_MAX = 1_000
CHARS_MAX = 4_000_000
SECONDS_MIN = 5.0


class Reporter:
    """A thread that reports ends."""

    def __init__(self, link: Link, board: Board) -> None:
        self._link = link
        self._board = board
        self._pending: deque[Ended] = deque()
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bellwether-reports", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, ended: Ended) -> None:
        """Have an end reported."""
        with self._changed:
            self._pending.append(ended)
            self._changed.notify()

    def close(self) -> None:
        """End the thread; what is not reported by now is not."""
        self._closing.set()
        with self._changed:
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        attempt = 0
        while not self._closing.is_set():
            batch = self._next()
            if not batch:
                continue
            try:
                self._send(batch)
                attempt = 0
            except BellwetherError as error:
                log.warning("runs could not be reported, trying again: %s", error)
                self._again(batch)
                self._closing.wait(min(backoff(attempt), self._board.lease / 8))
                attempt += 1
            except Exception:
                # Better to lose these than to report nothing ever again.
                log.exception("runs could not be reported")
                for ended in batch:
                    self._board.remove(ended.held)

    def _next(self) -> list[Ended]:
        """Wait for ends, and take as many as go into a request."""
        batch: list[Ended] = []
        chars = 0
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._closing.is_set())
            while self._pending and len(batch) < RESULTS_MAX and chars < CHARS_MAX:
                ended = self._pending.popleft()
                if self._is_worth_it(ended):
                    ended.held.state = "reporting"
                    batch.append(ended)
                    chars += len(ended.held.run._output.rest().text)
        return batch

    def _is_worth_it(self, ended: Ended) -> bool:
        # A run that was not started is given back in any case: if it is another's, this is refused.
        if ended.outcome == "handed_back" or self._board.is_good(ended.held, lease_clock()):
            return True
        log.warning("run %s: its lease has ended, so its end is not reported", ended.held.run.id)
        self._board.lose(ended.held, lease_clock())
        return False

    def _again(self, batch: list[Ended]) -> None:
        for ended in batch:
            ended.held.state = "ended"
        with self._changed:
            self._pending.extendleft(reversed(batch))

    def _send(self, batch: list[Ended]) -> None:
        sent = lease_clock()
        timeout = max(SECONDS_MIN, self._board.lease / 3)
        try:
            answer = self._link.complete([ended.body() for ended in batch], timeout)
        except ConnectionFailed as error:
            if error.refused:
                self._board.keep([ended.held for ended in batch], sent)
            raise
        except ProblemError as problem:
            if problem.status >= 500 or problem.status in (401, 403):
                raise
            self._refused(batch, problem)
            return
        for ended, result in zip(batch, answer.results, strict=True):
            if result.repeated:
                log.debug("run %s: its end had been taken up before", result.run_id)
            elif not result.accepted:
                log.warning("run %s was this worker's no more; nothing was changed", result.run_id)
            self._board.remove(ended.held)

    def _refused(self, batch: list[Ended], problem: ProblemError) -> None:
        """One of these is at fault: find out which, and say at least that it failed."""
        if len(batch) > 1:
            for ended in batch:
                self._send([ended])
            return
        ended = batch[0]
        log.error("run %s: its end was refused: %s", ended.held.run.id, problem)
        if ended.bare:
            self._board.remove(ended.held)
            return
        bare = Ended(ended.held, "failed_for_good", "report_refused", str(problem), bare=True)
        self._send([dataclasses.replace(bare, finished_at=ended.finished_at)])
