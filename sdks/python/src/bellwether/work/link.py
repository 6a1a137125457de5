"""The three requests of a worker: lease, heartbeat, complete. Nothing is sent twice here."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx2

from .. import exchange
from ..calls import Call, read_as, to_body
from ..errors import ConnectionFailed
from ..servers import Round, Servers
from ..settings import Settings
from ..times import format_span
from .output import Piece
from .run import Run


@dataclass(frozen=True)
class LeasedRun:
    """A run as it is leased."""

    run_id: str
    job_id: str
    namespace: str
    queue: str
    attempt: int
    fencing_token: int
    idempotency_key: str
    scheduled_at: datetime
    key: str = ""
    job_type: str = ""
    timeout: str | None = None
    payload: Any = None


@dataclass(frozen=True)
class Leased:
    """What is to be run, and how to keep it."""

    runs: list[LeasedRun]
    lease: str
    heartbeat: str
    stop: list[str] = field(default_factory=list)
    draining: bool = False
    sole: bool = False
    """Whether the server is the only node."""


@dataclass(frozen=True)
class Beaten:
    """What the worker has lost, and what it is to stop."""

    lost: list[str]
    stop: list[str]
    lease: str
    draining: bool = False
    full: list[str] = field(default_factory=list)
    """Of which no more output is taken before their end."""
    sole: bool = False
    """Whether the server is the only node."""


@dataclass(frozen=True)
class TakenUp:
    """Whether a run's end was taken up."""

    run_id: str
    accepted: bool
    repeated: bool = False
    """Its end had been taken up before; that answer was lost."""


@dataclass(frozen=True)
class Completed:
    """What became of what the worker said."""

    results: list[TakenUp]


@dataclass
class Link:
    """A worker's connection; its threads share it."""

    settings: Settings
    queue: str
    worker: str
    job_types: list[str]
    labels: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Set the connections up; nothing is sent yet."""
        self._servers = Servers(self.settings.bases)
        self._sole = False
        # No proxies: that one refuses connections would say nothing about the server.
        self._http = httpx2.Client(
            headers=self.settings.headers,
            verify=self.settings.tls(),
            trust_env=False,
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def lease(self, max_runs: int, wait: float, timeout: float) -> Leased:
        """Wait for work."""
        body = {
            "worker": self.worker,
            "job_types": self.job_types,
            "labels": self.labels,
            "max": max_runs,
            "wait": format_span(wait),
        }
        leased = self._send("lease", body, Leased, wait + timeout)
        self._sole = leased.sole
        return leased

    def heartbeat(self, runs: list[tuple[Run[Any], Piece | None]], timeout: float) -> Beaten:
        """Keep what is held, and say what it has printed."""
        held: list[dict[str, Any]] = []
        for run, piece in runs:
            held.append({"run_id": run.id, "fencing_token": run.fencing_token})
            if piece is not None:
                held[-1]["output"] = vars(piece)
        body = {"worker": self.worker, "runs": held}
        beaten = self._send("heartbeat", body, Beaten, timeout)
        self._sole = beaten.sole
        return beaten

    def complete(self, results: list[dict[str, Any]], timeout: float) -> Completed:
        """Say how runs ended."""
        body = {"worker": self.worker, "results": results}
        return self._send("complete", body, Completed, timeout)

    def _send(self, verb: str, body: object, kind: type[exchange.T], timeout: float) -> exchange.T:
        path = f"/v1/queues/{quote(self.queue, safe='')}/{verb}"
        call = Call("POST", path, read_as(kind), body=to_body(body))
        turn = self._servers.round()
        while True:
            try:
                response = self._http.post(
                    turn.url(path),
                    content=call.body,
                    headers={"content-type": "application/json"},
                    timeout=self._servers.timeout(timeout),
                )
                break
            except httpx2.HTTPError as error:
                self._failed(turn, error)
        turn.answered()
        return exchange.answer(call, response.status_code, response.headers, response.content)

    def _failed(self, turn: Round, error: httpx2.HTTPError) -> None:
        """Go on to the next server, if there is one."""
        try:
            turn.failed(error)
        except ConnectionFailed as failed:
            # That nobody listens at some nodes of a cluster does not keep others from giving away
            # what this worker holds: there must be one server, which has said that it is alone.
            failed.refused = failed.refused and self._sole and len(self.settings.bases) == 1
            raise
