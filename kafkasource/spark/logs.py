"""Configures the log of Spark's Python processes, by `KAFKASOURCE_LOG=DEBUG` in their environment, and escapes what
others have written in each line of our loggers.

Without a setup Python's logging shows warnings, and nothing below: in the user's process as bare text, in Spark's with
time, process, level and logger. A job's own `logging` setup is in the user's process; planning, tasks and commits run
in others. With the variable each of these processes writes our lines of that level and above to its stderr, which is
the executor's or the driver's: `spark.executorEnv.KAFKASOURCE_LOG=INFO` for executors, the environment of the driver
for the rest. Loggers: `kafkasource.source`, `kafkasource.sink`, `kafkasource.kafka.cluster`, `kafkasource.options`.
"""

from __future__ import annotations

import logging
import os

from kafkasource.errors import escaped

NAMES = ("admin", "cli", "client", "group", "memory", "metrics", "mirror", "options", "sink", "source", "web")
_LEVELS = {"DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARNING": logging.WARNING, "ERROR": logging.ERROR}
_FORMAT = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"


def _escape(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    if text != (safe := escaped(text)):
        record.msg, record.args = safe, None
    return True


for _name in ("kafkasource", *(f"kafkasource.{each}" for each in NAMES)):  # a filter does not hold for loggers below
    logging.getLogger(_name).addFilter(_escape)


def show() -> None:
    """Let our loggers log from the level of `KAFKASOURCE_LOG` on; to stderr, if the process has no handlers yet."""
    log = logging.getLogger("kafkasource")
    level = os.environ.get("KAFKASOURCE_LOG") or "WARNING"
    wanted = _LEVELS.get(level.strip().upper())
    if wanted is None:
        log.warning("KAFKASOURCE_LOG=%s is not a level; use one of %s", level, ", ".join(_LEVELS))
        return
    log.setLevel(wanted)
    if not log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(_FORMAT))
        log.addHandler(handler)
