from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from server import Server

from bellwether import Bellwether, Worker


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server for tests that kill it."""
    server = Server(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def client(server: Server) -> Iterator[Bellwether]:
    with Bellwether(server.address) as client:
        yield client


@pytest.fixture
def start() -> Iterator[Callable[[Worker], threading.Thread]]:
    """Runs workers in threads, and stops them in the end."""
    started: list[tuple[Worker, threading.Thread]] = []

    def start(worker: Worker) -> threading.Thread:
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        started.append((worker, thread))
        return thread

    yield start
    for worker, thread in started:
        if thread.is_alive():
            worker.stop()
            thread.join(30)
        assert not thread.is_alive()
