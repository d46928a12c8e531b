"""What the fetcher does about each fault: the table of it. Doing it is the fetcher's."""

from __future__ import annotations

from enum import Enum, auto

from kafkasource.errors import (
    BrokerError,
    CorruptMessage,
    InconsistentTopicId,
    KafkaSourceError,
    MalformedRecordTimestamp,
    OffsetOutOfRange,
    ProtocolError,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedRecordFormat,
)
from kafkasource.records.compression import RecordBatchTooLarge


class Recovery(Enum):
    """What a failed fetch calls for."""

    FAIL = auto()
    REFRESH = auto()  # later, whoever leads then
    RECONNECT = auto()  # over another connection
    ASK_BOUNDS = auto()  # the offset may be gone
    REFRESH_THEN_ASK = auto()  # the topic may be gone, or the asked broker behind the news


def recovery(error: KafkaSourceError) -> Recovery:
    if isinstance(error, OffsetOutOfRange):
        return Recovery.ASK_BOUNDS
    if isinstance(error, (UnknownTopicOrPartition, UnknownTopicId, InconsistentTopicId)):
        return Recovery.REFRESH_THEN_ASK
    if isinstance(error, (UnsupportedRecordFormat, RecordBatchTooLarge, MalformedRecordTimestamp)):
        return Recovery.FAIL  # it would be the same the second time
    if isinstance(error, (ProtocolError, CorruptMessage)) or isinstance(error.__cause__, ProtocolError):
        return Recovery.RECONNECT
    if isinstance(error, BrokerError) and error.is_unknown:
        return Recovery.REFRESH  # Java's consumer goes on too (FetchCollector.handleInitializeErrors)
    return Recovery.REFRESH if error.retriable else Recovery.FAIL
