"""Durations and instants as the API writes them, and the clock that leases are counted on."""

from __future__ import annotations

import re
import time
from datetime import datetime, timezone

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+)(ms|s|m|h|d|w)")
_INSTANT = re.compile(r"^(.{19})(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$")


def parse_span(text: str) -> float:
    """Read a duration such as `1h30m` into seconds."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"not a duration: {text!r}")
    return sum(int(number) * _UNITS[unit] for number, unit in parts)


def format_span(seconds: float) -> str:
    """Write seconds as a duration, to the millisecond."""
    return f"{max(0, round(seconds * 1000))}ms"


def parse_instant(text: str) -> datetime:
    """Read an instant (RFC 3339) to the microsecond."""
    match = _INSTANT.match(text)
    if match is None:
        raise ValueError(f"not an instant: {text!r}")
    whole, fraction, offset = match.groups()
    micros = (fraction or "0")[:6].ljust(6, "0")
    offset = "+00:00" if offset == "Z" else offset
    return datetime.fromisoformat(f"{whole}.{micros}{offset}")


def format_instant(at: datetime) -> str:
    """Write an instant in UTC. One without a zone would be a guess, so it is refused."""
    if at.tzinfo is None:
        raise ValueError("an instant needs a time zone, such as datetime.timezone.utc")
    return at.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def utc_now() -> datetime:
    """Return the wall clock's time, for records only: nothing is measured with it."""
    return datetime.now(timezone.utc)


if hasattr(time, "CLOCK_BOOTTIME"):

    def lease_clock() -> float:
        """Return seconds on a clock that never goes back and counts sleep of the machine too."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def lease_clock() -> float:
        """Return seconds on a clock that never goes back."""
        return time.monotonic()
