"""Clients and workers that know several nodes of a cluster (R116)."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from server import Server, ended

from bellwether import (
    AsyncBellwether,
    Bellwether,
    ConnectionFailed,
    JobSpec,
    NotFound,
    Run,
    Worker,
)
from bellwether.servers import Servers
from bellwether.settings import base_urls, settings
from bellwether.work.link import Link

YEARLY: JobSpec = {"schedule": "@yearly", "command": "true"}
Start = Callable[[Worker], threading.Thread]


@pytest.fixture
def down() -> Iterator[str]:
    """A port that refuses connections, and that nobody else gets."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def closing() -> Iterator[tuple[str, list[bytes]]]:
    """Reads what it is sent and closes; the address, and what that was."""
    read: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    read.append(connection.recv(65_536))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", read
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(30)


def preferred(client: Bellwether | AsyncBellwether) -> str:
    return client._servers.round().url("")


def test_r116_a_server_that_is_down_is_passed_over(server: Server, down: str) -> None:
    with Bellwether(f"{down},{server.address}", retries=0) as client:
        job = client.create_job(YEARLY)
        assert preferred(client) == f"http://{server.address}", "it is remembered"
        client.delete_job(job.id)
    for servers in (f"{down},{server.address}", f"{server.address},{down}"):
        with Bellwether(servers, retries=0) as client:
            with pytest.raises(NotFound):
                list(client.follow_output("run_0000000000000-1"))
            assert preferred(client) == f"http://{server.address}"
    with Bellwether(f"{down},{server.address}", retries=0) as client:
        items = iter(range(3))
        batch = client.create_batch({"job_type": "nobody"}, items)
        assert batch.total == 3, "no item was lost on the way to the first"
        client.cancel_batch(batch.id)


def test_r116_asyncio_has_the_same(server: Server, down: str) -> None:
    async def scenario() -> None:
        servers = f"{down},{server.address}"
        async with AsyncBellwether(servers, retries=0) as client:
            job = await client.create_job(YEARLY)
            assert preferred(client) == f"http://{server.address}"
            await client.delete_job(job.id)
        async with AsyncBellwether(servers, retries=0) as client:
            with pytest.raises(NotFound):
                [text async for text in client.follow_output("run_0000000000000-1")]
        async with AsyncBellwether(servers, retries=0) as client:
            batch = await client.create_batch({"job_type": "nobody"}, iter(range(3)))
            assert batch.total == 3
            await client.cancel_batch(batch.id)

    asyncio.run(scenario())


def test_r116_an_answer_that_is_lost_is_asked_for_elsewhere_only_if_that_is_safe(
    server: Server, closing: tuple[str, list[bytes]]
) -> None:
    address, read = closing
    servers = f"{address},{server.address}"
    with Bellwether(servers) as client:
        assert isinstance(client.list_workers(), list)
        assert len(read) == 1, "a read"
    with Bellwether(servers) as client:
        job = client.create_job({**YEARLY, "key": "lost-answer"})
        assert len(read) == 2, "creation under a key"
        client.delete_job(job.id)
    with Bellwether(servers, namespace="lost-answers") as client:
        with pytest.raises(ConnectionFailed):
            client.create_job(YEARLY)
        assert len(read) == 3
        assert list(client.list_jobs()) == [], "it may have been created by the first"
        assert preferred(client) == f"http://{server.address}", "another request goes to another"


def test_r116_when_none_can_be_reached_the_error_names_all_and_why(down: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        other = f"127.0.0.1:{bound.getsockname()[1]}"
        with Bellwether(f"{down},{other}", retries=0) as client:
            with pytest.raises(ConnectionFailed) as failed:
                client.trigger("x")
            assert failed.value.refused, "nothing was sent"
            for address in (down, other):
                assert f"http://{address}: [Errno 111]" in str(failed.value)
        link = Link(settings(f"{down},{other}"), "q", "w", ["t"])
        with pytest.raises(ConnectionFailed) as failed:
            link.heartbeat([], 1.0)
        assert not failed.value.refused, "other nodes may give away what the worker holds"
        link.close()


def test_r116_a_worker_takes_work_from_the_server_that_is_there(
    client: Bellwether, server: Server, start: Start, down: str
) -> None:
    worker = Worker("several", server=f"{down},{server.address}")

    @worker.handler("work")
    def work(run: Run[Any]) -> str:
        return "done"

    start(worker)
    job = client.create_job({"schedule": {"delay": "0s"}, "queue": "several", "job_type": "work"})
    assert ended(client, job.id).result == "done"


def test_several_servers_are_apart_by_commas_and_tried_in_time() -> None:
    assert base_urls("a, https://b.example.com/x") == ("http://a:2355", "https://b.example.com/x")
    for bad in ["a,", ",a", "a,ftp://b"]:
        with pytest.raises(ValueError, match="is not"):
            base_urls(bad)
    assert Servers(["a"]).timeout(60.0).connect == 10.0
    assert Servers(["a", "b"]).timeout(60.0).connect == 3.0
    assert Servers(["a", "b"]).timeout(None).connect == 3.0
    assert Servers(["a", "b"]).timeout(1.0).connect == 0.5
