"""Clients and workers that know several nodes of a cluster (R116)."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
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
from bellwether.work.link import Beaten, Leased, Link

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
        link._sole = True
        with pytest.raises(ConnectionFailed) as failed:
            link.heartbeat([], 1.0)
        assert not failed.value.refused, "other nodes may give away what the worker holds"
        link.close()


class Telling(BaseHTTPRequestHandler):
    """Answers heartbeats and requests for work with what is to be said about other nodes."""

    said: dict[str, bool]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        answer = {"runs": [], "lost": [], "stop": [], "lease": "2s", "heartbeat": "1s"}
        body = json.dumps({**answer, **self.said}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize("verb", ["lease", "heartbeat"])
def test_r65_that_a_server_is_down_keeps_runs_only_if_it_was_alone_when_last_heard(
    verb: str,
) -> None:
    def ask() -> Leased | Beaten:
        return link.lease(1, 0.0, 10.0) if verb == "lease" else link.heartbeat([], 10.0)

    server = HTTPServer(("127.0.0.1", 0), Telling)
    address = server.server_address
    link = Link(settings(f"127.0.0.1:{server.server_port}"), "q", "w", ["t"])
    cases: list[tuple[dict[str, bool], bool]] = [
        ({"sole": True}, True),
        ({"sole": False}, False),
        ({"sole": True}, True),
        ({}, False),
    ]
    for said, keeps in cases:
        Telling.said = said
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert ask().sole is keeps
        thread.join(30)
        server.server_close()
        with socket.socket() as bound:
            # Nobody else gets the port while it refuses connections.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            with pytest.raises(ConnectionFailed) as failed:
                link.heartbeat([], 10.0)
        assert failed.value.refused is keeps, said
        server = HTTPServer(("127.0.0.1", address[1]), Telling)
    server.server_close()
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
