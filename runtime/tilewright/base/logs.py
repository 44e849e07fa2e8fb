"""TILEWRIGHT_LOG: a log for programs that do not configure logging.

All messages go to the logger `tilewright` of the standard library. debug: decisions and their reasons; info:
actions that took time or wrote a file; warning: a cost in time, or a thing passed over. Errors are raised.
Without the variable nothing is set up: an application configures this logger as any other, and unhandled
warnings reach stderr, as always in Python.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

from tilewright.base import paths

VARIABLE = "TILEWRIGHT_LOG"
LEVELS = ("debug", "info", "warning", "error")
_FORMAT = "%(asctime)s %(name)s[%(process)d] %(levelname)s: %(message)s"

log = logging.getLogger("tilewright")


class _File(logging.FileHandler):
    """A log file that ends with the first message that cannot be written. One warning then says so."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        log.removeHandler(self)
        with suppress(OSError):
            self.close()  # which tries again to write the rest
        log.warning("%s: %s; no log is kept any more", self.baseFilename, error.strerror)


def set_up(value: str) -> logging.Handler | None:
    """Gives the logger a level and a handler, as `value` says: LEVEL (stderr), or LEVEL:FILE (appended to).

    The root logger is not changed. A fault in `value` is logged as a warning, because a log must not stop a
    program. Returns None if no handler was made.
    """
    level, _, path = value.partition(":")
    if level.lower() not in LEVELS:
        log.warning("%s=%s: the level must be one of %s; no log is kept", VARIABLE, value, ", ".join(LEVELS))
        return None
    handler: logging.Handler = logging.StreamHandler()
    if path:
        try:
            handler = _File(paths.expanded(path), encoding="utf-8")
        except OSError as error:
            log.warning("%s=%s: %s; the log goes to stderr", VARIABLE, value, error.strerror)
    handler.setFormatter(logging.Formatter(_FORMAT))
    log.setLevel(level.upper())
    log.addHandler(handler)
    return handler
