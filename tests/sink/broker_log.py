"""One partition's log, with what Kafka's does to batches that come twice or out of order."""

from collections import deque

from kafka.record.default_records import DefaultRecordBatch
from sink_fakes import producer_of

OUT_OF_ORDER, TOO_LARGE = 45, 10


class BrokerLog:
    """One partition."""

    def __init__(self, max_message_bytes):
        self.values, self.last, self.max_message_bytes = [], {}, max_message_bytes

    def append(self, batch):
        """An error code."""
        if len(batch) > self.max_message_bytes:
            return TOO_LARGE
        producer_id, _, sequence, count = producer_of(batch)
        last = self.last.setdefault(producer_id, deque(maxlen=5))
        if (sequence, count) in last:
            return 0
        if last and sequence != sum(last[-1]):
            return OUT_OF_ORDER
        last.append((sequence, count))
        self.values += [record.value for record in DefaultRecordBatch(batch)]
        return 0
