"""The one place that obeys `failOnDataLoss` and `failOnDeletedTopic`.

Code that finds records gone that it had to read describes them as a `Loss` and calls `report`: on the driver while it
plans, in the tasks while they fetch. Nothing else in the source decides whether a gap is an error.
Holes that compaction, transaction markers or aborted transactions leave are not losses: those offsets never were
records to read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafkasource.errors import DataLoss, explained
from kafkasource.kafka import counters
from kafkasource.types import TopicPartition

log = logging.getLogger("kafkasource.source")

# The names are those of the JVM connector's error conditions (KAFKA_DATA_LOSS.<name>), so that they can be searched
# for; the last three are ours: it does not notice these losses, or cannot have them.
ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO = "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO"
INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS = "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS"
PARTITIONS_DELETED = "PARTITIONS_DELETED"
PARTITION_OFFSET_CHANGED = "PARTITION_OFFSET_CHANGED"
COULD_NOT_READ_OFFSET_RANGE = "COULD_NOT_READ_OFFSET_RANGE"
TOPIC_RECREATED = "TOPIC_RECREATED"  # by its id: also where the new log is as long as the old one, or longer
LOG_TRUNCATED = "LOG_TRUNCATED"  # by its leader's epoch (KIP-320), likewise
FIRST_START_UNKNOWN = "FIRST_START_UNKNOWN"  # another connector, or version, planned the first micro-batch

UNSEEN = (
    "With subscribePattern, a topic on which this client lacks the right Describe looks like one that does not exist"
)
"""Brokers leave such a topic out when they are asked for all topics. Asked for it by name, they refuse."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that the query had to read and cannot. `action` says how the query continues if it may
    (`failOnDataLoss=false`). `skipped`: how many offsets of each topic it does not read, where that is known.
    """

    condition: str
    text: str
    action: str
    cause: str = "it aged out, or a topic was deleted, before it was read"
    deleted: bool = False  # a topic was deleted, certainly, and nothing else is wrong
    skipped: Mapping[str, int] = field(default_factory=dict)


def report(losses: Iterable[Loss], *, fail_on_data_loss: bool, fail_on_deleted_topic: bool = True) -> None:
    """Raise one `DataLoss` for all losses that `failOnDataLoss` and `failOnDeletedTopic` forbid. Without any, warn of
    each loss, count its skipped offsets and return."""
    reported = list(losses)
    fatal = [loss for loss in reported if fail_on_data_loss and (fail_on_deleted_topic or not loss.deleted)]
    if fatal:
        texts = " ".join(f"[KAFKA_DATA_LOSS.{loss.condition}] {loss.text}" for loss in fatal)
        causes = "; ".join(dict.fromkeys(loss.cause for loss in fatal))
        raise DataLoss(
            f"Some data may have been lost: {causes}. {texts}"
            " To warn and go on instead, set the option failOnDataLoss to false"
            f" {explained('some-data-may-have-been-lost')}"
        )
    for loss in reported:
        log.warning("Some data may have been lost. [KAFKA_DATA_LOSS.%s] %s %s", loss.condition, loss.text, loss.action)
        for topic, offsets in loss.skipped.items():
            counters.count("kafkasource_offsets_skipped_total", offsets, topic)


def describe(partitions: Iterable[TopicPartition], more: Mapping[TopicPartition, str] | None = None) -> str:
    """`t-0, t-1`, sorted. Cuts a long list and counts the rest. `more`: a text for each partition, in brackets."""
    names = [f"{tp} ({more[tp]})" if more else str(tp) for tp in sorted(partitions)]
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
