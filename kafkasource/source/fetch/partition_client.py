"""What the fetcher needs of the cluster: the seam at which tests put a scripted leader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from kafkasource.source.fetch.messages import FetchedPartition


@dataclass(frozen=True, slots=True)
class LogBounds:
    """What a log holds now: [start, end)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Truncation:
    """A log whose leader has `leader_epoch` holds nothing of the planned epoch, or of earlier ones, from `end_offset`
    on (KIP-320): what was planned to be read there is gone, whatever stands there now.
    """

    end_offset: int
    planned_epoch: int
    leader_epoch: int


class PartitionClient(Protocol):
    """What the fetcher needs of the cluster, for one partition. `fetch_client.ClusterPartition` is the real one."""

    @property
    def is_ready(self) -> bool:
        """May `send` be called at once: is the leader known, and known to lead the log that was planned?"""

    def get_ready(self) -> Truncation | None:
        """Ask and wait for what is missing for that. Tells of a truncation once; then what is left can be fetched."""

    def send(self, fetch_offset: int, max_bytes: int) -> Any:
        """Send a fetch to the leader; what it returns is for `receive`. Raises KafkaSourceError where nobody leads, and
        UnknownTopicId where the topic is another one of the same name.
        """

    def receive(self, sent: Any) -> FetchedPartition:
        """Wait for the answer, within `request.timeout.ms`. Raises what the broker or the connection had to say."""

    @property
    def round_trip_s(self) -> float:
        """The shortest that the connection to the leader has shown; 0 while nothing is known."""

    @property
    def line_bytes(self) -> int | None:
        """The most that may be under way from the leader (`line`); None: not known yet."""

    def forget(self, sent: Any) -> None:
        """Nobody will wait for this answer."""

    def refresh_leader(self) -> None:
        """Ask for metadata before the next `send`."""

    def reconnect(self) -> None:
        """Close the connection to the leader, for the next `send` to open another."""

    def bounds(self) -> LogBounds | None:
        """Ask what the log holds; None: the topic was deleted, or is another one of the same name."""
