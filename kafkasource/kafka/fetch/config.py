"""The settings with which tasks fetch and decode. The driver makes them from the options, and pickles them for
tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkasource.errors import OptionError
from kafkasource.types import IsolationLevel

_SIZES = ("kafka.max.partition.fetch.bytes", "readAhead")


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The settings of a task. `from_options` makes them, with the defaults of the option table."""

    columns: tuple[str, ...]  # of the rows, in their order; others are not decoded
    fail_on_data_loss: bool
    poll_timeout_ms: int  # a task fails if a partition with records brings none for this long
    max_partition_bytes: int  # limit of one fetch; a first batch that is larger comes whole (KIP-74)
    max_wait_ms: int  # how long the broker waits for min_bytes
    min_bytes: int
    isolation_level: IsolationLevel
    check_crcs: bool
    max_decompressed_bytes: int
    max_message_bytes: int  # the largest response that the client takes
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    read_ahead: int  # fetches of max_partition_bytes that a task may have in flight
    most_fetch_bytes: int  # limit of one fetch, whatever the round trip
    rack: str | None  # as the user wrote it; `replicas.rack_of` resolves it in this process
    memory_budget_bytes: int | None = None  # budget of the task's worker; None: the worker finds it out
    fail_on_deleted_topic: bool = True
    named_size: str | None = None  # the option, if any, with which the user has set how much may be in flight

    @property
    def most_at_once(self) -> int:
        """The most bytes that a fetch asks for, however long the way to the broker."""
        return max(min(self.most_fetch_bytes, self.max_message_bytes // 2), self.max_partition_bytes)

    @property
    def most_in_flight_bytes(self) -> int:
        """The most bytes that all fetches of a task together ask for."""
        return max(min(self.read_ahead * self.max_partition_bytes, self.most_at_once), self.max_partition_bytes)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> FetchSettings:
        """Called on the driver, once for a query. Raises OptionError for limits that contradict each other."""
        most, limit = options["kafka.max.partition.fetch.bytes"], options["kafka.receive.message.max.bytes"]
        if most > limit:
            raise OptionError(
                f"option 'kafka.max.partition.fetch.bytes' ({most}) asks for more than"
                f" 'kafka.receive.message.max.bytes' ({limit}) accepts: lower the first or raise the second"
            )
        return cls(
            columns=options["columns"],
            fail_on_data_loss=options["failOnDataLoss"],
            fail_on_deleted_topic=options["failOnDeletedTopic"],
            poll_timeout_ms=options["kafkaConsumer.pollTimeoutMs"],
            max_partition_bytes=min(most, options["kafka.fetch.max.bytes"]),
            max_wait_ms=options["kafka.fetch.max.wait.ms"],
            min_bytes=options["kafka.fetch.min.bytes"],
            isolation_level=options["kafka.isolation.level"],
            check_crcs=options["kafka.check.crcs"],
            max_decompressed_bytes=options["kafka.max.decompressed.batch.bytes"],
            max_message_bytes=options["kafka.receive.message.max.bytes"],
            retry_backoff_ms=options["kafka.retry.backoff.ms"],
            retry_backoff_max_ms=options["kafka.retry.backoff.max.ms"],
            read_ahead=options["readAhead"],
            most_fetch_bytes=options["kafka.fetch.max.bytes"],
            rack=options["kafka.client.rack"],
            memory_budget_bytes=options["memoryBudget"],
            named_size=next((name for name in _SIZES if name in getattr(options, "given", ())), None),
        )
