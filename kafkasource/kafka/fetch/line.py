"""How much a broker's connection carries, as this process has seen it: so that each fetch is answered in time.

The answer to a fetch that is larger than the line carries within `request.timeout.ms` never arrives: the client closes
the connection, asks again, and loses the bytes that had arrived. So the bytes in flight from a broker are bounded by
what arrives within a third of that time. The other two thirds are a reserve: the line may become slower, other tasks
share it, and the broker needs time.

Pure: no clock, no I/O. Lives as long as the process's cluster, so that its next task knows the line already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkasource.errors import RequestTimeout
    from kafkasource.kafka.cluster.cluster import Cluster

LEAST_BYTES = 16_384  # no fetch asks for less; a first record batch that is larger comes whole anyway (KIP-74)
_PART = 3  # an answer may take this part of the request's time
_FASTER_AT_ONCE = 2.0  # a shaped line lets a first burst through, so the estimate grows step by step


class Bandwidth:
    """The way from one broker to this process. Not for several threads."""

    def __init__(self, request_timeout_s: float) -> None:
        self._timeout_s = request_timeout_s
        self._bytes_per_s: float | None = None
        self._last_timeout: RequestTimeout | None = None

    @property
    def carries_bytes(self) -> int | None:
        """The most bytes that may be in flight from this broker; None: not known yet."""
        if self._bytes_per_s is None:
            return None
        return max(int(self._bytes_per_s * self._timeout_s / _PART), LEAST_BYTES)

    def came(self, size: int, asked_bytes: int, took_s: float, waited_s: float) -> None:
        """A fetch was answered. `took_s`: since it was sent; `waited_s`: for how long of it the task stood still.

        An answer shows that the line is slow only if it is about as large as the fetch asked for, and the task waited
        for it. Other answers may have waited for records, or for the task. Any answer may show that the line is faster
        than known.
        """
        speed = size / max(took_s, 1e-6)
        known = self._bytes_per_s
        if known is not None and speed > known:
            self._bytes_per_s = min(speed, _FASTER_AT_ONCE * known)
        elif size >= asked_bytes / 2 and waited_s >= took_s / 2:
            self._bytes_per_s = speed

    def timed_out(self, asked_bytes: int, error: RequestTimeout) -> None:
        """A fetch was not answered in time: the next asks for half of it, or for what has just arrived if that is less.

        Fetches that fail with the same connection fail with the same error, and count once.
        """
        if error is self._last_timeout:
            return
        self._last_timeout = error
        slow = asked_bytes / 2 * _PART / self._timeout_s
        if error.received_bytes:
            slow = min(slow, error.received_bytes / self._timeout_s)
        self._bytes_per_s = slow if self._bytes_per_s is None else min(slow, self._bytes_per_s)


def line_to(cluster: Cluster, node_id: int) -> Bandwidth:
    """The line that all tasks of this process share which read from this broker."""
    return cluster.shared(Bandwidth, node_id, lambda: Bandwidth(cluster.config.request_timeout_ms / 1000))
