"""What a run prints, bounded: the first and the last half of a megabyte.

The first half is sent piece by piece while the run goes on, so that others can read along; the rest
comes with its end. A piece is offered until the server has it, and never changes once offered.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

OUTPUT_BYTES_MAX = 1_000_000
"""A little less than the server takes, so that a line on what was left out fits in too."""
PIECE_BYTES_MAX = 128 * 1024


@dataclass(frozen=True)
class Piece:
    """A part of the output, under its number."""

    sequence: int
    text: str


@dataclass(frozen=True)
class Rest:
    """What comes with the end of a run."""

    unanswered: Piece | None
    """A piece that was offered: nobody knows whether the server has it."""
    sequence: int
    text: str
    bytes_printed: int


class Output:
    """Collects text; threads may share it."""

    def __init__(self, bytes_max: int = OUTPUT_BYTES_MAX) -> None:
        self._lock = threading.Lock()
        self._half = bytes_max // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._dropped = 0
        self._printed = 0
        self._sequence = 0
        self._sent = 0
        """How much of the head the server has, in so many pieces."""
        self._offered: Piece | None = None
        self._wanted = True
        self._rest: Rest | None = None

    def write(self, text: str) -> None:
        """Add a text."""
        data = text.encode("utf-8", "replace")
        with self._lock:
            self._printed += len(data)
            room = self._half - len(self._head)
            if room > 0 and not self._tail:
                self._head += data[:room]
                data = data[room:]
            if data:
                self._tail.append(data)
                self._tail_bytes += len(data)
                self._trim()

    def _trim(self) -> None:
        while self._tail_bytes > self._half:
            first = self._tail.popleft()
            extra = min(len(first), self._tail_bytes - self._half)
            if extra < len(first):
                self._tail.appendleft(first[extra:])
            self._tail_bytes -= extra
            self._dropped += extra

    def piece(self) -> Piece | None:
        """Return what to send now, if there is something; the same until it is `sent`."""
        with self._lock:
            if self._rest is not None or not self._wanted:
                return None
            if self._offered is None:
                part = self._head[self._sent : self._sent + PIECE_BYTES_MAX]
                # A cut may go through a character: then that is for the next piece.
                if text := part.decode("utf-8", "ignore"):
                    self._offered = Piece(self._sequence, text)
            return self._offered

    def sent(self, piece: Piece) -> None:
        """Note that the server has a piece."""
        with self._lock:
            if self._rest is None and piece == self._offered:
                self._take(piece)

    def _take(self, piece: Piece) -> None:
        self._offered = None
        self._sequence += 1
        self._sent += len(piece.text.encode())

    def refused(self) -> None:
        """Offer no more before the end; what was offered last was not stored."""
        with self._lock:
            self._wanted = False
            if self._rest is None:
                self._offered = None

    def rest(self) -> Rest:
        """Return all that the server may not have. Nothing is offered after this."""
        with self._lock:
            if self._rest is None:
                unanswered = self._offered
                if unanswered is not None:
                    self._take(unanswered)
                self._rest = Rest(unanswered, self._sequence, self._text(), self._printed)
            return self._rest

    def _text(self) -> str:
        """Make a text of what was not sent, with a line where something was left out."""
        head, tail = bytes(self._head[self._sent :]), b"".join(self._tail)
        if not self._dropped:
            return (head + tail).decode()
        # A cut may go through a character: then its parts are left out too.
        first, last = head.decode("utf-8", "ignore"), tail.decode("utf-8", "ignore")
        dropped = self._dropped + len(head) + len(tail) - len(first.encode()) - len(last.encode())
        return f"{first}\n[{dropped} bytes left out]\n{last}"
