"""What holds when servers die, workers are paused, and everybody stops."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from server import LEASE_SECONDS, Server, ended, kept_for_longer_than_a_lease, until

from bellwether import Bellwether, InvalidRequest, JobSpec, Run, Worker
from bellwether.settings import settings
from bellwether.times import lease_clock
from bellwether.work.engine import Engine
from bellwether.work.execute import Executor, Handler
from bellwether.work.held import Board
from bellwether.work.link import LeasedRun, Link
from bellwether.work.reports import Reporter

Start = Callable[[Worker], threading.Thread]


def job(queue: str, **more: Any) -> JobSpec:
    spec: dict[str, Any] = {"schedule": {"delay": "0s"}, "queue": queue, "job_type": "work"}
    return JobSpec(**{**spec, **more})  # type: ignore[typeddict-item]


@pytest.mark.parametrize("slots", [1, 4])
def test_a_server_that_is_killed_costs_no_run(own_server: Server, start: Start, slots: int) -> None:
    """Longer away than a lease, with a handler at work and one that ends meanwhile."""
    worker = Worker("q", slots=slots, server=own_server.address)
    begun, go, over = threading.Event(), threading.Event(), threading.Event()
    calls: list[int] = []

    @worker.handler("work")
    def work(run: Run[Any]) -> str | None:
        calls.append(run.attempt)
        begun.set()
        assert go.wait(60)
        over.set()
        return run.cancel_reason or "whole"

    start(worker)
    with Bellwether(own_server.address) as client:
        made = client.create_job(job("q", delivery="at_most_once"))
        assert begun.wait(30)
        own_server.kill()
        down = lease_clock()
        until("the outage outlasts a lease", lambda: lease_clock() - down > LEASE_SECONDS * 1.5)
        if slots > 1:
            go.set()
            assert over.wait(30), "it ends while there is no server"
        own_server.start()
        # The server waits for heartbeats again, and gets them.
        kept_for_longer_than_a_lease(client, worker.name)
        go.set()
        run = ended(client, made.id)
    assert (run.status, run.result, calls) == ("succeeded", "whole", [1]), run


def stale_reports(server: Server) -> int:
    with urllib.request.urlopen(f"http://{server.address}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    counts = [line for line in lines if line.startswith("bellwether_reports_stale_total")]
    return int(float(counts[0].split()[-1])) if counts else 0


PAUSED = """
import sys
from bellwether import Run, Worker
worker = Worker(sys.argv[2], name="paused", slots=1, server=sys.argv[1])
@worker.handler("work")
def work(run: Run) -> str:
    print("begun", run.fencing_token, flush=True)
    run.wait(60)
    print("told", run.cancel_reason, flush=True)
    return "from the one that was paused"
worker.run()
"""


def test_what_a_paused_worker_held_goes_elsewhere(
    client: Bellwether, server: Server, start: Start, tmp_path: Path
) -> None:
    script = tmp_path / "paused.py"
    script.write_text(PAUSED)
    command = [sys.executable, str(script), server.address, "paused"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        made = client.create_job(job("paused", delivery="at_least_once"))
        token = int(process.stdout.readline().split()[1])
        process.send_signal(signal.SIGSTOP)
        before = stale_reports(server)
        other = Worker("paused", server=server.address)

        @other.handler("work")
        def work(run: Run[Any]) -> str:
            return "from the other"

        start(other)
        run = ended(client, made.id)
        assert (run.status, run.result) == ("succeeded", "from the other")
        assert [attempt.reason for attempt in run.attempts] == ["lost", None]
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() == "told lease_lost\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert stale_reports(server) == before, "it has not reported its result"
        # Had it done so, it would have been refused.
        stale = {"run_id": run.id, "fencing_token": token, "outcome": "failed"}
        body = json.dumps({"worker": "paused", "results": [stale]}).encode()
        url = f"http://{server.address}/v1/queues/paused/complete"
        with urllib.request.urlopen(url, body) as answer:
            assert json.load(answer)["results"][0]["accepted"] is False
        assert stale_reports(server) == before + 1
    finally:
        process.kill()
        process.wait()
    assert client.get_run(run.id).result == "from the other"


STOPPED = """
import os, sys, threading
from bellwether import Run, Worker
def say(word: str) -> None:  # In one piece: handlers speak at the same time.
    os.write(1, f"{word}\\n".encode())
worker = Worker("stopped", slots=3, server=sys.argv[1], grace=1.0, cancel_grace=0.3)
@worker.handler("quick")
def quick(run: Run) -> str:
    say("begun")
    run.wait(0.5)
    return "finished"
@worker.handler("polite")
async def polite(run: Run) -> str:
    say("begun")
    await run.wait_canceled()
    return run.cancel_reason
@worker.handler("deaf")
def deaf(run: Run) -> None:
    say("begun")
    threading.Event().wait()
worker.run()
say("over")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_finishes_what_it_can(
    client: Bellwether, server: Server, tmp_path: Path, number: signal.Signals
) -> None:
    script = tmp_path / "stopped.py"
    script.write_text(STOPPED)
    process = subprocess.Popen(
        [sys.executable, str(script), server.address], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        kinds = ["quick", "polite", "deaf"]
        made = {kind: client.create_job(job("stopped", job_type=kind)).id for kind in kinds}
        for _ in kinds:
            assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        late = client.create_job(job("stopped", job_type="quick"))
        assert process.stdout.readline() == "over\n"
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    assert ended(client, made["quick"]).result == "finished"
    assert ended(client, made["polite"]).result == "shutdown"
    deaf = ended(client, made["deaf"])
    assert (deaf.status, deaf.attempts[0].reason) == ("failed", "worker_stopped")
    run = until("it is due", lambda: next(client.list_runs(late.id), None))
    until("it is nobody's", lambda: client.get_run(run.id).status == "queued")
    client.delete_job(late.id)


def test_a_worker_can_be_served_and_canceled_on_a_loop_that_is_there(
    client: Bellwether, server: Server
) -> None:
    worker = Worker("served", server=server.address, cancel_grace=0.1)

    async def scenario() -> None:
        done, stuck = asyncio.Event(), asyncio.Event()

        @worker.handler("work")
        async def work(run: Run[Any]) -> None:
            done.set()

        @worker.handler("stuck")
        async def hang(run: Run[Any]) -> None:
            stuck.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(worker.serve())
        await asyncio.to_thread(client.create_job, job("served"))
        await asyncio.wait_for(done.wait(), 30)
        held = await asyncio.to_thread(client.create_job, job("served", job_type="stuck"))
        await asyncio.wait_for(stuck.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        run = await asyncio.to_thread(ended, client, held.id)
        assert (run.status, run.attempts[0].reason) == ("failed", "worker_stopped")

    asyncio.run(scenario())


def test_a_second_stop_does_not_wait(client: Bellwether, server: Server, start: Start) -> None:
    worker = Worker("hurry", server=server.address, grace=600, cancel_grace=0.1)
    begun = threading.Event()

    @worker.handler("work")
    def work(run: Run[Any]) -> str | None:
        begun.set()
        run.wait(60)
        return run.cancel_reason

    thread = start(worker)
    made = client.create_job(job("hurry"))
    assert begun.wait(30)
    worker.stop()
    worker.stop()
    thread.join(30)
    assert not thread.is_alive()
    assert ended(client, made.id).result == "shutdown"


def test_a_worker_that_is_drained_finishes_and_ends(
    client: Bellwether, server: Server, start: Start
) -> None:
    worker = Worker("drained", server=server.address)
    begun, go = threading.Event(), threading.Event()

    @worker.handler("work")
    def work(run: Run[Any]) -> str | None:
        begun.set()
        assert go.wait(30)
        return run.cancel_reason or "whole"

    thread = start(worker)
    made = client.create_job(job("drained"))
    assert begun.wait(30)
    client.drain_worker(worker.name)
    late = client.create_job(job("drained"))
    go.set()
    thread.join(30)
    assert not thread.is_alive()
    assert ended(client, made.id).result == "whole"
    assert next(client.list_runs(late.id)).status == "queued"
    client.delete_job(late.id)


def test_an_end_whose_answer_was_lost_is_known_when_it_is_said_again(
    client: Bellwether, server: Server
) -> None:
    link = Link(settings(server.address), "again", "again", ["work"])
    made = client.create_job(job("again"))
    (leased,) = until("it is leased", lambda: link.lease(1, 1.0, 10.0).runs)
    end = {"run_id": leased.run_id, "fencing_token": leased.fencing_token, "outcome": "succeeded"}
    first, second = (link.complete([end], 10.0).results[0] for _ in range(2))
    assert (first.accepted, first.repeated) == (True, False)
    assert (second.accepted, second.repeated) == (True, True)
    assert ended(client, made.id).status == "succeeded"
    link.close()


@pytest.mark.parametrize("case", ["stopping", "beyond the slots", "too late"])
def test_what_cannot_be_started_is_handed_back(
    client: Bellwether, server: Server, case: str
) -> None:
    board = Board(slots=1, lease=LEASE_SECONDS)
    link = Link(settings(server.address), "excess", f"excess-{len(case)}", ["work"])
    reporter = Reporter(link, board)
    started: list[str] = []
    go = threading.Event()

    def work(run: Run[Any]) -> None:
        started.append(run.id)
        assert go.wait(30)

    loop = asyncio.new_event_loop()
    executor = Executor(board, {"work": Handler(work, None)}, loop, reporter.put)
    engine = Engine(link, board, executor, reporter, 1.0, lambda error: None, lambda: None)
    made = [client.create_job(job("excess")).id for _ in range(2)]
    leased: list[LeasedRun] = []

    def lease() -> bool:
        leased.extend(link.lease(2, 1.0, 10.0).runs)
        return len(leased) == 2

    until("both are leased", lease)
    if case == "stopping":
        engine.stop_taking()
    reporter.start()
    engine._take(leased, lease_clock() - (LEASE_SECONDS if case == "too late" else 0.0))
    go.set()
    until("nothing is held", board.is_idle)
    assert started == ([leased[0].run_id] if case == "beyond the slots" else [])
    runs = [next(client.list_runs(job_id)) for job_id in made]
    backs = [run.id for run in runs if run.attempts[0].outcome == "handed_back"]
    assert set(backs) == {run.run_id for run in leased} - set(started)
    assert all(run.status == "queued" for run in runs if run.id in backs)
    for job_id in made:
        client.delete_job(job_id)
    reporter.close()
    link.close()
    loop.close()


def test_a_worker_that_the_server_refuses_says_so(server: Server) -> None:
    worker = Worker("refused", name="a b", server=server.address)
    worker.handler("work")(lambda run: None)
    with pytest.raises(InvalidRequest) as refused:
        worker.run()
    assert refused.value.field == "worker"
    with pytest.raises(RuntimeError, match="handlers"):
        Worker(server=server.address).run()
