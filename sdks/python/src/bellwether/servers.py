"""The servers that a client knows, and which of them is asked.

All are nodes of one cluster, so each can answer any request. The one that answered last is asked
first. The next is asked if no connection can be made, since nothing was sent then. If there was one
and no answer came, the exchange has failed, and whoever asks again (`exchange.pause_before_retry`)
begins with the next. An answer is an answer, also if it is a refusal.
"""

from __future__ import annotations

from collections.abc import Sequence

import httpx2

from . import exchange
from .errors import ConnectionFailed

CONNECT_SECONDS_MAX = 10.0
CONNECT_SECONDS_MAX_OF_SEVERAL = 3.0


class Servers:
    """One or several servers; threads and tasks may share them."""

    def __init__(self, bases: Sequence[str]) -> None:
        self.bases = tuple(bases)
        # Threads may set it at the same time: then one of them has the say, and neither is wrong.
        self.preferred = 0

    def timeout(self, seconds: float | None) -> httpx2.Timeout:
        """Say how long an answer may take, and connecting: so that of several all can be tried."""
        alone = len(self.bases) == 1
        most = CONNECT_SECONDS_MAX if alone else CONNECT_SECONDS_MAX_OF_SEVERAL
        connect = most if seconds is None else min(most, seconds / len(self.bases))
        return httpx2.Timeout(seconds, connect=connect)

    def round(self) -> Round:
        """Begin a request's way over the servers."""
        return Round(self)


class Round:
    """Where a request stands that is sent to one server after another."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._at = servers.preferred
        self._tried: list[tuple[str, httpx2.HTTPError]] = []

    def url(self, path: str) -> str:
        """Return where to send it now."""
        return self._servers.bases[self._at] + path

    def answered(self) -> None:
        """Ask this server first from now on."""
        self._servers.preferred = self._at

    def failed(self, error: httpx2.HTTPError) -> None:
        """Go on to the next server; raises if none may be asked, or none is left."""
        bases = self._servers.bases
        at, self._at = self._at, (self._at + 1) % len(bases)
        # Unless another request has found a better one meanwhile.
        if self._servers.preferred == at:
            self._servers.preferred = self._at
        if not isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
            raise exchange.failed(error) from error
        self._tried.append((bases[at], error))
        if len(self._tried) < len(bases):
            return
        if len(bases) == 1:
            raise exchange.failed(error) from error
        reasons = (f"{base}: {why or type(why).__name__}" for base, why in self._tried)
        made = ConnectionFailed(f"none of the servers can be reached: {', '.join(reasons)}")
        made.refused = all(exchange.was_refused(why) for _, why in self._tried)
        raise made from error
