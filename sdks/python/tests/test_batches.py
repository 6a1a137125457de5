"""Batches (R58): one template for each of many items, with and without an event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest
from server import Server, until

from bellwether import (
    AsyncBellwether,
    Batch,
    Bellwether,
    Conflict,
    ConnectionFailed,
    InvalidRequest,
    JobSpec,
    NotFound,
    Run,
    Worker,
)

Start = Callable[[Worker], threading.Thread]


def over(client: Bellwether, batch: Batch) -> Batch:
    """Wait until all of a batch has ended."""

    def look() -> Batch | None:
        seen = client.get_batch(batch.id)
        return seen if seen.is_over else None

    return until(f"{batch.id} ends", look)


def test_each_item_is_handled_and_failures_are_counted(
    client: Bellwether, server: Server, start: Start
) -> None:
    worker = Worker("batch", server=server.address, slots=100)
    got: list[int] = []

    @worker.handler("count")
    def count(run: Run[dict[str, int]]) -> None:
        got.append(run.payload["n"])
        if run.payload["n"] == 7:
            raise ValueError("not this one")

    start(worker)
    template: JobSpec = {"job_type": "count", "queue": "batch"}
    batch = client.create_batch(template, ({"n": n} for n in range(1_500)), description="numbers")
    assert (batch.total, batch.description) == (1_500, "numbers")
    ended = over(client, batch)
    assert (ended.status, ended.succeeded, ended.failed) == ("completed", 1_499, 1)
    assert sorted(got) == list(range(1_500))
    assert ended.finished_at is not None
    failed = list(client.batch_runs(batch.id, status="failed,lost"))
    assert [run.detail for run in failed] == ["not this one"]
    assert batch.id in [batch.id for batch in client.list_batches()]


def test_a_batch_is_created_once_and_canceled_as_one(client: Bellwether) -> None:
    template: JobSpec = {"job_type": "nobody.has"}
    later = datetime.now(timezone.utc) + timedelta(days=300)
    batch = client.create_batch(template, ["a", [1]], key="once", schedule_time=later)
    assert batch.status == "scheduled"
    again = client.create_batch(template, ["a", [1]], key="once", schedule_time=later)
    assert again.id == batch.id
    with pytest.raises(Conflict):
        client.create_batch(template, ["b"], key="once")
    canceling = client.cancel_batch("once", "a mistake")
    assert canceling.cancel is not None
    assert canceling.cancel.note == "a mistake"
    assert over(client, batch).canceled == 2
    with pytest.raises(Conflict):
        client.cancel_batch("once")
    with pytest.raises(NotFound):
        client.get_batch("never")
    with pytest.raises(InvalidRequest) as refused:
        client.create_batch({"command": "true"}, ["fine", "not\0this"])
    assert refused.value.field == "line 3"


def test_a_batch_from_a_coroutine(server: Server) -> None:
    async def go() -> tuple[Batch, Batch, int]:
        async with AsyncBellwether(server.address) as client:
            template: JobSpec = {"job_type": "nobody.has"}
            batch = await client.create_batch(template, range(3_000))
            canceled = await client.cancel_batch(batch.id)
            runs = [run async for run in client.batch_runs(batch.id)]
            assert batch.id in [batch.id async for batch in client.list_batches()]
            return batch, await client.get_batch(canceled.id), len(runs)

    batch, seen, runs = asyncio.run(go())
    assert (batch.total, seen.id) == (3_000, batch.id)
    assert seen.status in ("canceling", "canceled")
    assert runs <= 3_000


def test_items_that_are_gone_are_not_sent_again() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()

        def hang_up() -> None:
            for _ in range(3):
                connection, _ = silent.accept()
                connection.recv(1)
                connection.close()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        address = "{}:{}".format(*silent.getsockname())
        with Bellwether(address, retries=1) as client:
            with pytest.raises(ConnectionFailed):
                client.create_batch({"command": "true"}, iter(["a"]), key="k")
            assert thread.is_alive(), "an iterator is used up after one try"
            with pytest.raises(ConnectionFailed):
                client.create_batch({"command": "true"}, ["a"], key="k")
            thread.join(30)
        assert not thread.is_alive()
