"""Logs of a program, into the output of the run that they were written for."""

from __future__ import annotations

import logging
from typing import Any

from .run import current_run

_KNOWN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class RunLogHandler(logging.Handler):
    """Puts log records into the output of the current run, as lines of JSON.

    Add it once: `logging.getLogger().addHandler(RunLogHandler())`. What is logged outside of a
    handler goes nowhere. Threads that a handler starts itself must carry its context over, as
    `asyncio.to_thread` does.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, with what was given as `extra`."""
        run = current_run.get()
        if run is None:
            return
        try:
            fields: dict[str, Any] = {
                name: value
                for name, value in vars(record).items()
                if name not in _KNOWN and name not in ("level", "logger")
            }
            if record.exc_info:
                formatter = self.formatter or logging.Formatter()
                fields["exception"] = formatter.formatException(record.exc_info)
            level = record.levelname.lower()
            run.log(record.getMessage(), **{**fields, "level": level, "logger": record.name})
        except Exception:
            self.handleError(record)
