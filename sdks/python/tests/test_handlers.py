"""What handlers get, and what becomes of what they do."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from server import Server, ended, kept_for_longer_than_a_lease, until

from bellwether import Bellwether, FailForGood, HandBack, JobSpec, Run, RunLogHandler, Worker

Start = Callable[[Worker], threading.Thread]


def now(queue: str, **more: Any) -> JobSpec:
    spec: dict[str, Any] = {"schedule": {"delay": "0s"}, "queue": queue, "job_type": "work"}
    return JobSpec(**{**spec, **more})  # type: ignore[typeddict-item]


@pytest.fixture
def worker(server: Server, request: pytest.FixtureRequest) -> Worker:
    queue = "".join(c if c.isalnum() else "-" for c in request.node.name)
    return Worker(queue, slots=4, server=server.address, cancel_grace=0.2)


def test_a_plain_function_gets_the_run_and_its_value_is_the_result(
    client: Bellwether, worker: Worker, start: Start
) -> None:
    seen: list[Run[Any]] = []

    @worker.handler("work")
    def work(run: Run[Any]) -> dict[str, int]:
        seen.append(run)
        run.log("working", step=1)
        return {"doubled": run.payload["n"] * 2}

    start(worker)
    job = client.create_job(now(worker.queue, key="plain-1", payload={"n": 21}, timeout="1m30s"))
    run = ended(client, job.id)
    assert run.status == "succeeded", run
    assert run.result == {"doubled": 42}
    assert run.attempts[0].worker == worker.name
    line = json.loads(client.output(run.id))
    assert (line["message"], line["step"], line["level"]) == ("working", 1, "info")
    given = seen[0]
    assert (given.id, given.job_id, given.key) == (run.id, job.id, "plain-1")
    assert (given.attempt, given.timeout, given.queue) == (1, 90.0, worker.queue)
    assert given.fencing_token == run.attempts[0].fencing_token
    assert given.idempotency_key == run.idempotency_key
    assert given.scheduled_at == run.scheduled_at
    assert not given.canceled


def test_a_coroutine_runs_on_the_loop_with_logs_in_its_output(
    client: Bellwether, worker: Worker, start: Start
) -> None:
    logger = logging.getLogger("app")
    handler = RunLogHandler()
    logger.addHandler(handler)

    @worker.handler("work")
    async def work(run: Run[Any]) -> str:
        logger.warning("from %s", "a task", extra={"user": 7})
        await asyncio.to_thread(logger.error, "from its thread")
        return "done"

    start(worker)
    job = client.create_job(now(worker.queue))
    run = ended(client, job.id)
    logger.removeHandler(handler)
    assert (run.status, run.result) == ("succeeded", "done")
    first, second = (json.loads(line) for line in client.output(run.id).splitlines())
    assert (first["message"], first["user"], first["level"]) == ("from a task", 7, "warning")
    assert (second["message"], second["logger"]) == ("from its thread", "app")


@dataclass
class Address:
    city: str


@dataclass
class Mail:
    to: str
    where: Address
    copies: int = 1


def test_payloads_are_typed(client: Bellwether, worker: Worker, start: Start) -> None:
    @worker.handler("work", payload=Mail)
    def work(run: Run[Mail]) -> Mail:
        return run.payload

    @worker.handler("sum", payload=lambda numbers: sum(numbers))
    def add(run: Run[int]) -> int:
        return run.payload

    start(worker)
    mail = {"to": "ana", "where": {"city": "Riga"}}
    job = client.create_job(now(worker.queue, payload=mail))
    assert ended(client, job.id).result == {**mail, "copies": 1}
    job = client.create_job(now(worker.queue, job_type="sum", payload=[1, 2, 3]))
    assert ended(client, job.id).result == 6
    bad = {"to": "ana", "where": {"city": 5}}
    job = client.create_job(now(worker.queue, payload=bad, retries=3))
    run = ended(client, job.id)
    assert (run.status, len(run.attempts)) == ("failed", 1), "it would not be better next time"
    assert run.attempts[0].reason == "invalid_payload"
    assert run.attempts[0].detail == "where.city: expected str, got int"


class PaymentDECLINED(Exception):
    pass


def test_an_exception_fails_the_attempt_and_retries_follow(
    client: Bellwether, worker: Worker, start: Start
) -> None:
    @worker.handler("work")
    def work(run: Run[Any]) -> int:
        if run.attempt == 1:
            raise PaymentDECLINED("no money")
        return run.attempt

    start(worker)
    job = client.create_job(now(worker.queue, retry={"max": 2, "initial": "10ms"}))
    run = ended(client, job.id)
    assert (run.status, run.result, len(run.attempts)) == ("succeeded", 2, 2)
    first = run.attempts[0]
    assert (first.reason, first.detail) == ("payment_declined", "no money")
    assert first.fencing_token < run.attempts[1].fencing_token
    output = client.output(run.id, attempt=1)
    assert "Traceback" in output
    assert "PaymentDECLINED: no money" in output


def test_failing_for_good_ends_the_run_and_handing_back_does_not(
    client: Bellwether, worker: Worker, start: Start
) -> None:
    backs: list[int] = []

    @worker.handler("work")
    async def work(run: Run[Any]) -> None:
        raise FailForGood("no such user", reason="unknown_user")

    @worker.handler("shy")
    def shy(run: Run[Any]) -> int:
        backs.append(run.fencing_token)
        if len(backs) < 3:
            raise HandBack
        return len(backs)

    start(worker)
    job = client.create_job(now(worker.queue, retries=5))
    run = ended(client, job.id)
    assert (run.status, len(run.attempts)) == ("failed", 1)
    assert (run.attempts[0].reason, run.attempts[0].detail) == ("unknown_user", "no such user")
    job = client.create_job(now(worker.queue, job_type="shy"))
    run = ended(client, job.id)
    assert (run.status, run.result) == ("succeeded", 3)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, "x" * 300_000, "\ud800"])
def test_a_result_that_cannot_be_stored_says_so(
    client: Bellwether, server: Server, start: Start, value: object
) -> None:
    worker = Worker("results", server=server.address)

    @worker.handler("work")
    def work(run: Run[Any]) -> object:
        return value

    start(worker)
    run = ended(client, client.create_job(now(worker.queue)).id)
    reason = "result_too_large" if value == "x" * 300_000 else "result_not_json"
    assert (run.status, run.attempts[0].reason) == ("failed", reason)


def test_output_can_be_read_while_the_handler_is_at_work(
    client: Bellwether, worker: Worker, start: Start
) -> None:
    go = threading.Event()

    @worker.handler("work")
    def work(run: Run[Any]) -> None:
        run.write("first\n")
        assert go.wait(30)
        run.write("last\n")

    start(worker)
    job = client.create_job(now(worker.queue))
    run = until("it is due", lambda: next(client.list_runs(job.id), None))
    until("it is printed", lambda: client.output(run.id) == "first\n")
    chunks = client.follow_output(run.id)
    assert next(chunks) == "first\n"
    go.set()
    assert "".join(chunks) == "last\n"
    over = ended(client, job.id)
    assert (over.status, over.attempts[0].output_bytes) == ("succeeded", 11)
    assert client.output(run.id) == "first\nlast\n"


def test_long_output_keeps_its_ends(client: Bellwether, worker: Worker, start: Start) -> None:
    @worker.handler("work")
    def work(run: Run[Any]) -> None:
        run.write("first\n")
        for _ in range(300):
            run.write("é" * 5_000 + "\n")
        run.write("last\n")

    start(worker)
    run = ended(client, client.create_job(now(worker.queue)).id)
    assert run.status == "succeeded"
    output = client.output(run.id)
    assert output.startswith("first\n")
    assert output.endswith("last\n")
    assert "bytes left out]" in output
    assert 900_000 < len(output.encode()) < 1_048_576


@pytest.mark.parametrize("kind", ["plain", "coroutine", "deaf"])
def test_cancel_is_seen_by_the_handler(
    client: Bellwether, worker: Worker, start: Start, kind: str
) -> None:
    reasons: list[str | None] = []
    begun = threading.Event()

    if kind == "plain":

        @worker.handler("work")
        def plain(run: Run[Any]) -> None:
            begun.set()
            assert run.wait(30)
            reasons.append(run.cancel_reason)

    elif kind == "coroutine":

        @worker.handler("work")
        async def coroutine(run: Run[Any]) -> None:
            begun.set()
            await run.wait_canceled()
            reasons.append(run.cancel_reason)

    else:

        @worker.handler("work")
        async def deaf(run: Run[Any]) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                reasons.append(run.cancel_reason)

    start(worker)
    job = client.create_job(now(worker.queue, retries=3))
    assert begun.wait(30)
    client.cancel_run(next(client.list_runs(job.id)).id)
    run = ended(client, job.id)
    assert (run.status, reasons) == ("canceled", ["canceled"])


def test_a_timeout_stops_and_fails(client: Bellwether, worker: Worker, start: Start) -> None:
    @worker.handler("work")
    def work(run: Run[Any]) -> str | None:
        run.wait(30)
        return run.cancel_reason

    start(worker)
    run = ended(client, client.create_job(now(worker.queue, timeout="200ms")).id)
    assert (run.status, run.attempts[0].reason, run.result) == ("failed", "timeout", None)


def test_slots_are_never_exceeded_and_a_blocked_loop_costs_no_lease(
    client: Bellwether, server: Server, start: Start
) -> None:
    worker = Worker("slots", slots=3, server=server.address)
    lock = threading.Lock()
    at_once: list[int] = [0, 0]

    @worker.handler("work")
    def work(run: Run[Any]) -> None:
        with lock:
            at_once[0] += 1
            at_once[1] = max(at_once)
        run.wait(0.05)
        with lock:
            at_once[0] -= 1

    @worker.handler("rude")
    async def rude(run: Run[Any]) -> str:
        kept_for_longer_than_a_lease(client, worker.name)
        return "kept"

    start(worker)
    rude_job = client.create_job(now(worker.queue, job_type="rude"))
    answer = client.create_jobs(now(worker.queue, key=f"slot-{n}") for n in range(12))
    assert (answer.created, answer.failed) == (12, 0)
    for result in answer.results:
        assert result.id is not None
        assert ended(client, result.id).status == "succeeded"
    assert at_once[1] <= 3
    run = ended(client, rude_job.id)
    assert (run.status, run.result, len(run.attempts)) == ("succeeded", "kept", 1)


def test_many_runs_through_one_worker(
    client: Bellwether, server: Server, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = Worker("many", slots=64, server=server.address)
    count = 0
    lock = threading.Lock()
    begun = time.monotonic()
    finished: list[float] = []

    @worker.handler("work")
    def work(run: Run[Any]) -> None:
        nonlocal count
        with lock:
            count += 1
            if count == 200:
                finished.append(time.monotonic())

    jobs = client.create_jobs(now(worker.queue) for _ in range(200))
    assert jobs.created == 200
    begun = time.monotonic()
    start(worker)
    until("all ran", lambda: finished)
    with capsys.disabled():
        print(f" [200 runs: {200 / (finished[0] - begun):.0f} runs/s]", end="")

    def open_runs() -> bool:
        return next(client.list_runs(queue="many", status="queued,claimed,running"), None) is None

    until("all are reported", open_runs)
    assert count == 200
    assert sum(1 for _ in client.list_runs(queue="many", status="succeeded")) == 200
