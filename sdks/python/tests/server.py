"""A real server as a process, on a port of its own; and waiting for what it does."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from bellwether import Bellwether, RunRecord

T = TypeVar("T")
DEADLINE = 30.0
LEASE_SECONDS = 5
ROOT = Path(__file__).resolve().parents[3]
BINARY = os.environ.get("BELLWETHER_BIN", str(ROOT / "target" / "debug" / "bellwether"))
ENDED = {"succeeded", "failed", "canceled", "lost", "skipped"}
_pace = threading.Event()


def until(what: str, check: Callable[[], T | None], seconds: float = DEADLINE) -> T:
    """Wait for a condition: the first answer that is neither `None` nor false."""
    end = time.monotonic() + seconds
    while True:
        if found := check():
            return found
        assert time.monotonic() < end, f"in vain: {what}"
        _pace.wait(0.02)


class Server:
    """A server process that can be killed and started again on the same data."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with socket.socket() as free:
            # A loopback host of its own: nobody's connection takes the port while it is down.
            host = f"127.{1 + os.getpid() // 250 % 250}.{1 + os.getpid() % 250}.1"
            free.bind((host, 0))
            self.address = f"{host}:{free.getsockname()[1]}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [BINARY, "server", "--listen", self.address, "--no-worker"]
        command += ["--data-dir", str(self.directory / "data"), "--shards", "2"]
        command += ["--worker-lease", f"{LEASE_SECONDS}s", "--worker-heartbeat", "500ms"]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until("the server is ready", self._is_ready)

    def _is_ready(self) -> bool:
        assert self.process is not None
        log = self.directory / "log"
        assert self.process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"http://{self.address}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()
            self.process = None


@contextmanager
def machine(server: Server, name: str, directory: Path, *flags: str) -> Iterator[None]:
    """Run a worker for commands, as on a machine of its own, and stop it in the end."""
    command = [BINARY, "worker", "--server", server.address, "--name", name, *flags]
    with (directory / f"{name}.log").open("ab") as log:
        state = str(directory / name)
        process = subprocess.Popen([*command, "--state-dir", state], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(DEADLINE)


def kept_for_longer_than_a_lease(client: Bellwether, worker: str) -> None:
    """Wait until the server has heard a worker, again and again, for longer than a lease."""

    def heard() -> datetime | None:
        found = [info for info in client.list_workers() if info.name == worker]
        return found[0].heard_at if found else None

    first = until(f"{worker} is heard", heard)
    over = first + timedelta(seconds=LEASE_SECONDS * 1.2)
    until(f"{worker} is heard for longer than a lease", lambda: (heard() or first) > over)


def ended(client: Bellwether, job: str) -> RunRecord:
    """Wait for the end of a job's newest run."""

    def look() -> RunRecord | None:
        run = next(iter(client.list_runs(job)), None)
        return run if run is not None and run.status in ENDED else None

    return until(f"a run of {job} ends", look)
