"""The parts that need no server: reading JSON, times, leases, output."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from typing import Any

import pytest

from bellwether import Run
from bellwether.decode import decode
from bellwether.times import format_instant, format_span, parse_instant, parse_span
from bellwether.work.ended import settle, snake_case
from bellwether.work.held import Board, Held
from bellwether.work.output import PIECE_BYTES_MAX, Output, Piece, Rest


class Colour(Enum):
    RED = "red"


@dataclass
class Part:
    name: str
    at: datetime | None = None


@dataclass
class Whole:
    parts: list[Part]
    weight: float
    colour: Colour = Colour.RED
    by_name: dict[str, Part] = field(default_factory=dict)
    any: Any = None


def test_json_becomes_dataclasses_and_says_where_it_cannot() -> None:
    at = "2026-01-02T03:04:05.123456789Z"
    whole = decode(
        Whole,
        {
            "parts": [{"name": "a", "at": at, "newer": 1}],
            "weight": 2,
            "by_name": {"b": {"name": "b"}},
        },
    )
    moment = datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=timezone.utc)
    assert whole == Whole([Part("a", moment)], 2.0, Colour.RED, {"b": Part("b")})
    for bad, message in [
        ({"weight": 1}, "parts: missing"),
        ({"parts": [{"name": 1}], "weight": 1}, r"parts\[0\]\.name: expected str, got int"),
        ({"parts": [], "weight": "1"}, "weight: expected float, got str"),
        ({"parts": [], "weight": 1, "colour": "blue"}, "blue"),
        ([], "expected an object, got list"),
    ]:
        with pytest.raises(ValueError, match=message):
            decode(Whole, bad)


def test_times_are_read_and_written() -> None:
    assert [parse_span(text) for text in ["2s", "500ms", "1m30s", "1d"]] == [2, 0.5, 90, 86400]
    for bad in ["", "s", "1", "1x", "1s "]:
        with pytest.raises(ValueError, match="not a duration"):
            parse_span(bad)
    assert format_span(0.6666) == "667ms"
    assert parse_instant("2026-01-01T01:00:00+01:00") == parse_instant("2026-01-01T00:00:00Z")
    assert format_instant(parse_instant("2026-01-01T01:00:00+01:00")) == "2026-01-01T00:00:00Z"


def test_reasons_are_words() -> None:
    names = ["ValueError", "HTTPError", "PaymentDeclined", "OSError", "E2BIG"]
    words = ["value_error", "http_error", "payment_declined", "os_error", "e2_big"]
    assert [snake_case(name) for name in names] == words


def run() -> Run[Any]:
    now = datetime.now(timezone.utc)
    return Run("r", "j", None, "default", "q", "t", 1, 7, "r", now, None, None)


def test_a_lease_counts_from_when_the_request_was_sent() -> None:
    board = Board(slots=1, lease=6.0)
    held = Held(run(), until=100.0 + board.lease)
    assert board.take(held)
    assert board.is_good(held, 104.9)
    assert not board.is_good(held, 105.0), "a sixth of the lease before its end"
    board.keep([held], sent=103.0)
    board.keep([held], sent=102.0)
    assert held.until == 109.0, "an earlier request takes nothing away"
    board.lose(held, 108.0)
    assert (held.run.canceled, held.run.cancel_reason) == (True, "lease_lost")
    board.keep([held], sent=120.0)
    assert not board.is_good(held, 120.0), "what is lost stays lost"
    assert board.all() == []
    assert (board.free(), board.is_idle()) == (0, False), "its handler still has the slot"
    board.release_slot()
    assert (board.free(), board.is_idle()) == (1, True)


def test_more_than_there_are_slots_is_not_taken() -> None:
    board = Board(slots=1)
    assert board.take(Held(run(), 1.0))
    assert not board.take(Held(run(), 1.0))


def test_the_first_reason_to_stop_counts() -> None:
    board = Board(slots=1)
    held = Held(run(), 1e9)
    board.cancel(held, "canceled", 0.0, 5.0)
    board.cancel(held, "timeout", 1.0, 5.0)
    assert (held.run.cancel_reason, held.interrupt_at) == ("canceled", 5.0)
    assert settle(held, None, "whole").outcome == "canceled"


def test_output_is_bounded_and_never_cuts_a_character() -> None:
    output = Output(bytes_max=10)
    output.write("aaé")
    output.write("éééé")
    assert output.rest().text == "aaé\n[4 bytes left out]\néé"
    broken = Output()
    broken.write("\ud800")
    assert broken.rest().text == "?"


def test_output_goes_piece_by_piece_and_each_byte_once() -> None:
    output = Output()
    assert output.piece() is None
    output.write("one")
    first = output.piece()
    output.write("two")
    assert first == output.piece() == Piece(0, "one"), "the same until it has arrived"
    output.sent(Piece(0, "one"))
    assert output.piece() == Piece(1, "two")
    output.write("three")
    rest = output.rest()
    assert rest == Rest(Piece(1, "two"), 2, "three", 11)
    output.sent(Piece(1, "two"))
    assert (output.rest(), output.piece()) == (rest, None), "what was said last stands"
    refused = Output()
    refused.write("one")
    assert refused.piece()
    refused.refused()
    assert (refused.piece(), refused.rest().text, refused.rest().sequence) == (None, "one", 0)


@pytest.mark.parametrize("size", [PIECE_BYTES_MAX - 1, 3 * PIECE_BYTES_MAX, 2_000_000])
def test_pieces_and_rest_are_all_that_is_kept(size: int) -> None:
    text = "x" + "é" * (size // 2)
    whole, live = Output(), Output()
    whole.write(text)
    live.write(text)
    pieces: list[Piece] = []
    while piece := live.piece():
        assert len(piece.text.encode()) <= PIECE_BYTES_MAX
        pieces.append(piece)
        live.sent(piece)
    assert [piece.sequence for piece in pieces] == list(range(len(pieces)))
    assert "".join(piece.text for piece in pieces) + live.rest().text == whole.rest().text
