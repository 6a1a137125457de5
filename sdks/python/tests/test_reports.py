"""Which ends are reported, how often, and what happens to those that the server refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from server import until

from bellwether import ConnectionFailed, InvalidRequest, Run
from bellwether.settings import settings
from bellwether.times import lease_clock
from bellwether.work.ended import Ended, Outcome, handed_back
from bellwether.work.held import Board, Held
from bellwether.work.link import Completed, Link, TakenUp
from bellwether.work.reports import Reporter

Body = dict[str, Any]


class Scripted(Link):
    """A link that answers as it is told."""

    def __init__(self, answer: Callable[[list[Body]], None]) -> None:
        super().__init__(settings("127.0.0.1:1"), "q", "w", ["t"])
        self.answer = answer
        self.said: list[list[Body]] = []

    def complete(self, results: list[Body], timeout: float) -> Completed:
        self.said.append(results)
        self.answer(results)
        return Completed([TakenUp(result["run_id"], True) for result in results])


class Desk:
    """A reporter with its board."""

    def __init__(self, answer: Callable[[list[Body]], None] = lambda results: None) -> None:
        self.link = Scripted(answer)
        self.board = Board(slots=10, lease=6.0)
        self.reporter = Reporter(self.link, self.board)

    def end(self, name: str, outcome: Outcome = "succeeded", until: float | None = None) -> Held:
        now = datetime.now(timezone.utc)
        run: Run[Any] = Run(name, "j", None, "default", "q", "t", 1, 7, name, now, None, None)
        held = Held(run, lease_clock() + 6.0 if until is None else until)
        self.board.take(held)
        held.state = "ended"
        self.reporter.put(handed_back(held) if outcome == "handed_back" else Ended(held, outcome))
        self.board.release_slot()
        return held


@pytest.fixture
def desks() -> Iterator[list[Desk]]:
    desks: list[Desk] = []
    yield desks
    for desk in desks:
        desk.reporter.close()
        desk.link.close()


def test_ends_go_together_and_those_whose_lease_has_ended_do_not(desks: list[Desk]) -> None:
    desk = Desk()
    desks.append(desk)
    desk.end("a")
    late = desk.end("late", until=lease_clock() + 0.9)
    desk.end("unstarted", "handed_back", until=0.0)
    desk.end("b")
    desk.reporter.start()
    until("all is told", desk.board.is_idle)
    told = [[result["run_id"] for result in results] for results in desk.link.said]
    assert told == [["a", "unstarted", "b"]]
    assert (late.lost, late.run.cancel_reason) == (True, "lease_lost")


@pytest.mark.parametrize("refused", [True, False])
def test_nobody_listening_keeps_ends_and_silence_does_not(desks: list[Desk], refused: bool) -> None:
    down = True

    def answer(results: list[Body]) -> None:
        if down:
            failed = ConnectionFailed("down")
            failed.refused = refused
            raise failed

    desk = Desk(answer)
    desks.append(desk)
    held = desk.end("a", until=lease_clock() + 1.5)
    desk.reporter.start()
    if refused:
        until("it is kept beyond its lease", lambda: held.until > lease_clock() + 5.0)
        down = False
    until("it is over", desk.board.is_idle)
    assert held.lost is not refused


def test_one_bad_end_does_not_hold_up_the_others(desks: list[Desk]) -> None:
    def answer(results: list[Body]) -> None:
        if any(result["run_id"] == "bad" and "output" in result for result in results):
            raise InvalidRequest(status=413, code="payload_too_large", detail="too large")

    desk = Desk(answer)
    desks.append(desk)
    desk.end("good")
    desk.end("bad").run.write("x")
    desk.reporter.start()
    until("all is told", desk.board.is_idle)
    last = {result["run_id"]: result for results in desk.link.said[1:] for result in results}
    assert last["good"]["outcome"] == "succeeded"
    assert (last["bad"]["outcome"], last["bad"]["reason"]) == ("failed_for_good", "report_refused")
