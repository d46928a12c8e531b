"""The producer's settings as plain values: the key under which an executor worker keeps its producer between tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.pending import address_of
from kafkasource.kafka.records.header import HEADER_BYTES

if TYPE_CHECKING:
    from kafkasource.kafka.memory.budget import MemoryDemand

SILENT_MS = 3_000  # a task that waits longer for something says, once, what it waits for
ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}

_SIZES = ("kafka.buffer.memory", "highWatermarkBytes", "lowWatermarkBytes")

# Values that ask for the codec's own level. lz4's 9 does so in Java (Lz4BlockOutputStream): the default level takes the
# fast compressor, all others the high one (measured: 883 MB/s against 49 MB/s at a true 9).
_CODECS_OWN_LEVEL = {("gzip", -1), ("lz4", 9)}


@dataclass(frozen=True)
class ProducerConfig:
    """Hashable and picklable. Defaults are the option table's: made by `from_options`."""

    client: ClientConfig
    acks: int
    idempotent: bool
    idempotence_demanded: bool  # the user set it, so a broker without it (< 0.11) is an error
    compression: str
    compression_level: int | None  # None: the codec's own
    batch_bytes: int
    linger_ms: int
    buffer_memory_bytes: int
    max_block_ms: int
    max_request_bytes: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    retries: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    max_in_flight: int  # produce requests per connection
    cluster_name: str = ""  # in metrics
    metadata_max_idle_ms: int = 300_000  # drops metadata of a topic that no task writes to
    memory_budget_bytes: int | None = None  # the budget of the task's worker; None: the worker finds it out
    named_memory: str | None = "kafka.buffer.memory"  # the option by which the user has said `buffer_memory_bytes`

    @property
    def least_memory_bytes(self) -> int:
        """The size of a batch, and of the largest record that may be sent."""
        return max(self.batch_bytes, self.max_request_bytes)

    @property
    def memory_wish(self) -> MemoryDemand:
        from kafkasource.kafka.memory.budget import MemoryDemand  # loads pyarrow, which a driver does not need

        return MemoryDemand(self.buffer_memory_bytes, self.named_memory, self.least_memory_bytes)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> ProducerConfig:
        """From parsed options of the sink."""
        acks = ACKS[options["kafka.acks"]]
        idempotent = options["kafka.enable.idempotence"]
        compression = options["kafka.compression.type"]
        level = options.get(f"kafka.compression.{compression}.level")
        if (compression, level) in _CODECS_OWN_LEVEL:
            level = None
        return cls(
            client=ClientConfig.from_options(options),
            acks=acks,
            idempotent=acks == -1 and options["kafka.retries"] > 0 if idempotent is None else idempotent,
            idempotence_demanded=bool(idempotent),
            compression=compression,
            compression_level=level,
            batch_bytes=max(options["kafka.batch.size"], HEADER_BYTES),  # 0: no room for a second record
            linger_ms=options["kafka.linger.ms"],
            buffer_memory_bytes=options["kafka.buffer.memory"],
            max_block_ms=options["kafka.max.block.ms"],
            max_request_bytes=options["kafka.max.request.size"],
            request_timeout_ms=options["kafka.request.timeout.ms"],
            delivery_timeout_ms=options["kafka.delivery.timeout.ms"],
            retries=options["kafka.retries"],
            retry_backoff_ms=options["kafka.retry.backoff.ms"],
            retry_backoff_max_ms=options["kafka.retry.backoff.max.ms"],
            max_in_flight=options["kafka.max.in.flight.requests.per.connection"],
            metadata_max_idle_ms=options["kafka.metadata.max.idle.ms"],
            memory_budget_bytes=options["memoryBudget"],
            named_memory=next((name for name in _SIZES if name in getattr(options, "given", ())), None),
            cluster_name=address_of(*options["kafka.bootstrap.servers"][0]),
        )

    def retry_backoff(self, attempts: int) -> int:
        """Milliseconds to wait after the n-th failed attempt (n from 1): doubling, capped (KIP-580)."""
        return min(self.retry_backoff_max_ms, self.retry_backoff_ms << min(attempts - 1, 20))
