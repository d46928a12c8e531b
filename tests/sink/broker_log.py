"""One partition's log, with what Kafka's does to batches that are too large, come twice or come out of order."""

from collections import deque

from kafka.record.default_records import DefaultRecordBatch
from sink_fakes import producer_of

OUT_OF_ORDER, TOO_LARGE = 45, 10


class BrokerLog:
    """It knows a producer's last five batches again, and its next sequence (KIP-98)."""

    def __init__(self, max_message_bytes=1 << 20, *, from_0=False):
        """`from_0`: as in Kafka 0.11 a producer that it does not know begins with sequence 0; later with any."""
        self.max_message_bytes, self._from_0 = max_message_bytes, from_0
        self.records, self.values = [], []
        self.last = {}  # by producer id: (sequence, records, base offset)

    def append(self, batch):
        """An error code."""
        return self.place(batch)[0]

    def place(self, batch):
        """An error code, and the base offset."""
        if len(batch) > self.max_message_bytes:
            return TOO_LARGE, -1
        producer_id, _, sequence, count = producer_of(batch)
        last = self.last.setdefault(producer_id, deque(maxlen=5)) if producer_id >= 0 else []
        for known, records, base_offset in last:
            if (known, records) == (sequence, count):
                return 0, base_offset
        expected = last[-1][0] + last[-1][1] & 0x7FFFFFFF if last else 0
        if sequence != expected and (last or (self._from_0 and producer_id >= 0)):
            return OUT_OF_ORDER, -1
        last.append((sequence, count, len(self.values)))
        stored = list(DefaultRecordBatch(batch))
        self.records += stored
        self.values += [record.value for record in stored]
        return 0, last[-1][2]

    def forget(self, batch):
        """Retention has deleted all producers' records, but those of this batch where it is sent again: too young."""
        producer_id, _, *place = producer_of(batch)
        if not any(known[:2] == tuple(place) for known in self.last.get(producer_id, ())):
            self.last.clear()
