"""A batch's buffer is somebody else's only when its request was answered or its socket is closed (CVE-2026-35554)."""

from selectors import EVENT_WRITE

import pytest
from fake_broker import CLOSE, SILENCE, TWICE, WRONG_CORRELATION_ID, Cut, Error, FakeKafka, FakeNet, FakeTransport
from hypothesis import given, settings
from hypothesis import strategies as st
from random_inputs import examples
from sink_fakes import T0, T1, Rig

from kafkasource.kafka.protocol.apis import PRODUCE
from kafkasource.kafka.records.builder import BatchBuilder

FAULTS = st.sampled_from(
    [None, None, SILENCE, CLOSE, TWICE, WRONG_CORRELATION_ID, Cut(3), Cut(20), Error(6), Error(7), Error(87), Error(10)]
)


class SlowTransport(FakeTransport):
    """Takes this many bytes a turn, and none once it is stuck."""

    turn = False
    written = 0
    stuck_after = None

    def send(self, pieces):
        self.turn = not self.turn
        if self.stuck or not self.turn:
            return 0
        sent = super().send(pieces)
        self.written += sent
        return sent

    @property
    def stuck(self):
        return self.stuck_after is not None and self.written >= self.stuck_after

    def ready(self, events):
        return super().ready(events & ~EVENT_WRITE if self.stuck else events)


class SlowNet(FakeNet):
    """Its connections get stuck, each after as many bytes as the next entry says; None: never."""

    def __init__(self, kafka, stuck_after=()):
        super().__init__(kafka)
        self.stuck_after = list(stuck_after)

    def open(self, address):
        transport = super().open(address)
        transport.__class__ = SlowTransport
        transport.stuck_after = self.stuck_after.pop(0) if self.stuck_after else None  # type: ignore[attr-defined]
        return transport


class NetRig(Rig):
    """The rig on a real client, with an eye on every buffer that goes back."""

    def __init__(self, stuck_after=(), **written):
        super().__init__(max_block_ms=60_000, buffer_memory_bytes=64 * 4096, **written)
        self.kafka = FakeKafka(topics={"t": 2})
        self.net = SlowNet(self.kafka, stuck_after)
        self.client = self.net.client()
        self.build(self.client.now_ms)  # type: ignore[attr-defined]
        self.client.metadata.want(["t"])
        release, deallocate = self.queues.release, self.pool.deallocate

        def watched_release(batch):
            for request in self.sender._in_flight:
                assert request.pending.done or batch not in request.batches, "its request is still under way"
            release(batch)

        def watched_deallocate(buffer):
            try:
                buffer.append(0)  # Python refuses to move memory that somebody views
            except BufferError:
                pytest.fail("a view of the buffer is left")
            buffer.pop()
            deallocate(buffer)
            buffer[:] = b"\xee" * len(buffer)  # the next owner's

        self.queues.release, self.pool.deallocate = watched_release, watched_deallocate

    def settle_all(self, delivery):
        for _ in range(2000):
            self.sender.run_once()
            if not self.sender._in_flight and not self.queues._partitions:
                return
        raise AssertionError("not settled")


@settings(max_examples=examples(150), deadline=None)
@given(
    faults=st.lists(FAULTS, max_size=12),
    most_bytes=st.sampled_from([1 << 30, 1 << 30, 3000, 500]),
    codec=st.sampled_from(["none", "zstd"]),
    counts=st.lists(st.integers(1, 150), min_size=1, max_size=4),
    delivery_timeout_ms=st.sampled_from([500, 5000, 120_000]),
    retries=st.sampled_from([0, 1, 100]),
    stuck_after=st.lists(st.sampled_from([None, None, 100, 1000, 3000]), max_size=6),
)
def test_no_view_is_left_of_a_buffer_that_goes_back(
    faults, most_bytes, codec, counts, delivery_timeout_ms, retries, stuck_after
):
    rig = NetRig(stuck_after, delivery_timeout_ms=delivery_timeout_ms, request_timeout_ms=400, retries=retries)
    rig.queues.new_builder = lambda buffer: BatchBuilder(buffer, codec=codec)
    rig.net.most_bytes_at_once = most_bytes
    delivery = rig.sender.begin()
    rig.kafka.fault(PRODUCE, *faults)
    for i, count in enumerate(counts):
        rig.append(delivery, (T0, T1)[i % 2], count)
    rig.settle_all(delivery)
    assert delivery.failed or delivery._open_batches == 0
    rig.sender.end(delivery)
    rig.sender.run_once()
    assert rig.leaked_bytes == 0


def test_a_request_that_is_written_slowly_keeps_its_buffer_beyond_its_tasks_deadline():
    """Half of it is on the wire: the other half must be the same batch's, or the connection must end."""
    rig = NetRig([None, 2000], delivery_timeout_ms=10_000, request_timeout_ms=60_000)
    rig.net.most_bytes_at_once = 1000
    delivery = rig.sender.begin()
    rig.append(delivery, count=37)
    while not delivery.failed:
        rig.sender._drop(rig.client.now_ms())  # type: ignore[attr-defined]  # as the beginning of a turn
        if not delivery.failed:
            rig.sender.run_once()
    (half_written,) = [transport for transport in rig.net.transports if transport.written >= 2000]  # type: ignore[attr-defined]
    assert not half_written.closed
    assert rig.leaked_bytes == 4096
    rig.settle_all(delivery)
    assert half_written.closed
    assert rig.leaked_bytes == 0
