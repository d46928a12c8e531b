"""What the fetcher needs of the cluster: the seam at which tests put a scripted leader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from kafkasource.source.fetch_protocol import FetchedPartition


@dataclass(frozen=True, slots=True)
class LogBounds:
    """What a log holds now: [start, end)."""

    start: int
    end: int


class PartitionClient(Protocol):
    """What the fetcher needs of the cluster, for one partition. `fetch_client.ClusterPartition` is the real one."""

    def send(self, fetch_offset: int, max_bytes: int) -> Any:
        """Send a fetch to the leader; what it returns is for `receive`. Raises KafkaSourceError where nobody leads."""

    def receive(self, sent: Any) -> FetchedPartition:
        """Wait for the answer, within `request.timeout.ms`. Raises what the broker or the connection had to say."""

    @property
    def leader_is_known(self) -> bool:
        """Will `send` not have to ask and wait for metadata?"""

    @property
    def round_trip_s(self) -> float:
        """The shortest that the connection to the leader has shown; 0 while nothing is known."""

    def forget(self, sent: Any) -> None:
        """Nobody will wait for this answer."""

    def refresh_leader(self) -> None:
        """Ask for metadata before the next `send`."""

    def reconnect(self) -> None:
        """Close the connection to the leader, for the next `send` to open another."""

    def bounds(self) -> LogBounds | None:
        """Ask what the log holds; None: the topic was deleted, or is another one of the same name."""
