"""What a run prints, bounded: the first and the last half of a megabyte."""

from __future__ import annotations

import threading
from collections import deque

OUTPUT_BYTES_MAX = 1_000_000
"""A little less than the server takes, so that a line on what was left out fits in too."""


class Output:
    """Collects text; threads may share it."""

    def __init__(self, bytes_max: int = OUTPUT_BYTES_MAX) -> None:
        self._lock = threading.Lock()
        self._half = bytes_max // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._dropped = 0

    def write(self, text: str) -> None:
        """Add a text."""
        data = text.encode("utf-8", "replace")
        with self._lock:
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

    def text(self) -> str:
        """Return what was kept, with a line where something was left out."""
        with self._lock:
            head, tail = bytes(self._head), b"".join(self._tail)
            dropped = self._dropped
        if not dropped:
            return (head + tail).decode()
        # A cut may go through a character: then its parts are left out too.
        first, last = head.decode("utf-8", "ignore"), tail.decode("utf-8", "ignore")
        dropped += len(head) + len(tail) - len(first.encode()) - len(last.encode())
        return f"{first}\n[{dropped} bytes left out]\n{last}"
