"""Notices that two queries of one driver commit offsets of the same topic to the same consumer group.

Each commit then replaces that of the other query, and monitors of lag see the group jump to and fro. Every query has a
reader process of its own. A process locks one byte for each topic, in a file for the group among Spark's temporary
files, which all processes of the driver share and Spark deletes. The system releases the locks when the process ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable

PATIENCE_S = 15.0  # the process of a query that was stopped may still commit


class Rivals:
    """Looks for other processes that commit to the group. Only one thread may call it.

    `servers` and `group` name the group. In a process that Spark did not start, it finds nothing.
    """

    def __init__(self, servers: Iterable[object], group: str) -> None:
        folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
        name = hashlib.sha256(repr((sorted(map(repr, servers)), group)).encode()).hexdigest()
        self._path = os.path.join(folder, f"kafkasource-group-{name[:32]}") if folder else None
        self._file: int | None = None
        self._mine: set[str] = set()
        self._since_s: float | None = None
        self._is_over = False

    def topic(self, topics: Iterable[str], now_s: float) -> str | None:
        """A topic of these for which another process has committed for `PATIENCE_S`. It is returned once.

        `now_s`: of a monotonic clock. Never raises.
        """
        if self._path is None or self._is_over:
            return None
        try:
            taken = self._taken(set(topics) - self._mine)
        except OSError:  # without a place for locks nothing is noticed
            self._is_over = True
            return None
        if taken is None:
            self._since_s = None
            return None
        if self._since_s is None:
            self._since_s = now_s
        self._is_over = now_s - self._since_s >= PATIENCE_S
        return taken if self._is_over else None

    def _taken(self, topics: set[str]) -> str | None:
        """One of the topics that another process has locked; locks the others."""
        if self._file is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(str(self._path), flags, 0o600)  # open while the process lives: closing it unlocks
        taken = None
        for topic in topics:
            place = int.from_bytes(hashlib.sha256(topic.encode()).digest()[:7], "big")
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                self._mine.add(topic)
            except (BlockingIOError, PermissionError):
                taken = topic
        return taken
