"""A body of many lines, made while it is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator

PIECE_BYTES = 64 * 1024
"""How much is sent at once."""


class Lines:
    """A first line, and a line of JSON for each item."""

    def __init__(
        self, head: bytes, items: Iterable[object], write: Callable[[object], bytes]
    ) -> None:
        self._head = head
        self._items = items
        self._write = write
        self._begun = False

    @property
    def spent(self) -> bool:
        """Whether items are gone, so that they cannot be sent again."""
        return self._begun and isinstance(self._items, Iterator)

    def pieces(self) -> Iterator[bytes]:
        """Make the body, some lines at a time."""
        piece = bytearray(self._head + b"\n")
        # From here on an iterator moves.
        self._begun = True
        for item in self._items:
            piece += self._write(item) + b"\n"
            if len(piece) >= PIECE_BYTES:
                yield bytes(piece)
                piece.clear()
        yield bytes(piece)

    async def pieces_async(self) -> AsyncIterator[bytes]:
        """Make the same for an event loop."""
        for piece in self.pieces():
            yield piece
