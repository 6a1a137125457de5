"""The runs that the worker holds, and until when they are its own.

A run is held from the answer that leased it until its end was taken up. Its lease counts from when
the request was sent that last kept it, on a clock that never goes back. A sixth of the lease before
it can have ended, the run counts as lost: its handler is told, and its end is not reported.

Nobody listening at the address of a server that is alone keeps runs too: a server that is down
gives nothing away, and when it starts again it grants what is held a fresh lease. In a cluster
others may be up, whether the worker knows them or not, so that does not hold there. Which it is,
the server says with every answer to `lease` and `heartbeat`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from .run import CancelReason, Run

State = Literal["waiting", "running", "ended", "reporting"]


@dataclass(eq=False)
class Held:
    """A run that is the worker's."""

    run: Run[Any]
    until: float
    """When its lease ends, on the lease clock."""
    state: State = "waiting"
    started_at: datetime | None = None
    timeout_at: float | None = None
    interrupt: Callable[[], None] | None = None
    """Breaks the handler off, if that can be done."""
    interrupt_at: float | None = None
    lost: bool = False


@dataclass
class Board:
    """All that is held; every method may be called from any thread."""

    slots: int
    lease: float = 30.0
    changed: threading.Condition = field(default_factory=threading.Condition)
    _held: dict[tuple[str, int], Held] = field(default_factory=dict)
    _busy: int = 0

    @property
    def margin(self) -> float:
        """How long before the end of a lease the work is stopped."""
        return self.lease / 6

    def free(self) -> int:
        """How many more handlers may be started."""
        with self.changed:
            return self.slots - self._busy

    def take(self, held: Held) -> bool:
        """Hold a run. Whether there is a slot for it; else it is to be handed back."""
        with self.changed:
            self._held[held.run.id, held.run.fencing_token] = held
            if self._busy >= self.slots:
                held.state = "ended"
                return False
            self._busy += 1
            return True

    def release_slot(self) -> None:
        """A handler is over."""
        with self.changed:
            self._busy -= 1
            self.changed.notify_all()

    def remove(self, held: Held) -> None:
        """Its end was taken up, or is of no interest to anybody."""
        with self.changed:
            self._held.pop((held.run.id, held.run.fencing_token), None)
            self.changed.notify_all()

    def all(self) -> list[Held]:
        """Return everything that is held and not lost."""
        with self.changed:
            return [held for held in self._held.values() if not held.lost]

    def keep(self, which: list[Held], sent: float) -> None:
        """A request that was sent then has kept these."""
        with self.changed:
            for held in which:
                if not held.lost:
                    held.until = max(held.until, sent + self.lease)

    def is_good(self, held: Held, now: float) -> bool:
        """Whether a run is certainly still the worker's."""
        return not held.lost and now < held.until - self.margin

    def lose(self, held: Held, now: float) -> None:
        """A run is the worker's no more."""
        with self.changed:
            held.lost = True
            self._held.pop((held.run.id, held.run.fencing_token), None)
            self.changed.notify_all()
        self.cancel(held, "lease_lost", now, self.lease / 12)

    def cancel(self, held: Held, reason: CancelReason, now: float, patience: float) -> None:
        """Tell a handler to stop, and break it off if it has not after so many seconds."""
        if held.run._cancellation.set(reason) or reason == "lease_lost":
            at = now + patience
            held.interrupt_at = at if held.interrupt_at is None else min(at, held.interrupt_at)

    def wait_until(self, done: Callable[[], bool], timeout: float | None) -> bool:
        """Block until something holds, or for so long."""
        with self.changed:
            return self.changed.wait_for(done, timeout)

    def is_idle(self) -> bool:
        """Whether no handler is at work and nothing is left to report."""
        with self.changed:
            return self._busy == 0 and not self._held
