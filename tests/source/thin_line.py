"""A line of so many bytes per second to brokers in this process, in the network's own time: nothing waits."""

from __future__ import annotations

from fake_broker import FakeNet, FakeTransport
from fetch_rig import Kafka, record_batch

from kafkasource.kafka.protocol.apis import FETCH

CHUNK = 16_384


class BigLog(Kafka):
    """Every partition holds `batches` record batches of `rows` values of `value_bytes` each."""

    def __init__(self, batches, value_bytes=1_600, partitions=1, rows=10):
        super().__init__(topics={"t": partitions})
        self.batches, self.rows, self.value = batches, rows, bytes(value_bytes)

    def _fetch(self, request):
        """Of several partitions, as the driver asks; the limit of the whole answer is none that matters here."""
        names = {known.topic_id: name for name, known in self.topics.items()}
        answers = []
        for topic in request.body["topics"]:
            held = self.topics[topic["topic"] or names[topic["topic_id"]]]
            rows = [
                {"partition_index": one["partition"], "error_code": 0, **self._of_partition(request, held, one)}
                for one in topic["partitions"]
            ]
            answers.append({**topic, "partitions": rows})
        return {"error_code": 0, "responses": answers}

    def _of_partition(self, request, topic, asked):
        first, rows = record_batch(0, self.rows, self.value), self.rows
        left = self.batches - asked["fetch_offset"] // rows
        count = min(left, asked["partition_max_bytes"] // len(first) + 1)
        start = asked["fetch_offset"] // rows * rows
        data = b"".join((start + rows * n).to_bytes(8, "big") + first[8:] for n in range(count))
        return {"high_watermark": rows * self.batches, "records": data[: max(asked["partition_max_bytes"], len(first))]}


class ThinTransport(FakeTransport):
    """What a broker answers comes after a round trip, and no faster than the line, which all connections share."""

    net: ThinNet

    def send(self, pieces):
        held, self.incoming = self.incoming, bytearray()
        size = super().send(pieces)
        answer, self.incoming = bytes(self.incoming), held
        net = self.net
        for pos in range(0, len(answer), CHUNK):
            chunk = answer[pos : pos + CHUNK]
            net.free_at = max(net.free_at, net.now + net.round_trip_s) + len(chunk) / net.bytes_per_s
            net.at.append((net.free_at, lambda chunk=chunk: self.arrives(chunk)))
        return size

    def arrives(self, chunk):
        self.incoming += b"" if self.closed else chunk

    def close(self):
        super().close()
        self.net.free_at = self.net.now  # a reset connection's bytes are dropped where they wait


class ThinNet(FakeNet):
    def __init__(self, kafka, bytes_per_s, round_trip_s=0.15):
        super().__init__(kafka)
        self.bytes_per_s, self.round_trip_s = bytes_per_s, round_trip_s
        self.free_at = self.now  # when the line has carried what it was given

    def open(self, address):
        made = super().open(address)
        self.transports[-1] = thin = ThinTransport(self, address, made.node_id, made.fate)
        return thin

    def sizes(self):
        """What fetches asked for, in their order."""
        return [one.body["topics"][0]["partitions"][0]["partition_max_bytes"] for one in self.kafka.asked(FETCH)]


class WindowTransport(FakeTransport):
    """A socket holds `window` bytes that nobody has read; more comes a round trip after somebody has."""

    net: WindowNet

    def __init__(self, *given):
        super().__init__(*given)
        self.unsent, self.is_due = bytearray(), False

    def send(self, pieces):
        held, self.incoming = self.incoming, bytearray()
        size = super().send(pieces)
        self.unsent += self.incoming
        self.incoming = held
        self._more()
        return size

    def receive_into(self, target):
        size = super().receive_into(target)
        self._more()
        return size

    def _more(self):
        if self.unsent and not self.is_due and not self.closed and len(self.incoming) < self.net.window_bytes:
            self.is_due = True
            self.net.at.append((self.net.now + self.net.round_trip_s, self._arrives))

    def _arrives(self):
        self.is_due = False
        room = self.net.window_bytes - len(self.incoming)
        self.incoming += self.unsent[:room]
        del self.unsent[:room]
        self._more()


class WindowNet(ThinNet):
    """A line that carries all that is asked for, to sockets of few bytes."""

    def __init__(self, kafka, window_bytes, round_trip_s=0.002):
        super().__init__(kafka, 1e9, round_trip_s)
        self.window_bytes = window_bytes

    def open(self, address):
        made = super().open(address)
        self.transports[-1] = narrow = WindowTransport(self, address, made.node_id, made.fate)
        return narrow
