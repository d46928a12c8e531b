"""A task's writes to brokers that lie in their answers: all is acknowledged, or there is an error, in time; and no
buffer is lost.
"""

from __future__ import annotations

import random

from lying_broker import with_lies
from message_bodies import with_defaults
from sink_fakes import T0, T1, Rig

from kafkasource.errors import ConnectionLost, KafkaSourceError
from kafkasource.kafka.protocol.apis import PRODUCE

STEP_MS = 500


def write(rng: random.Random) -> int:
    """The records acknowledged, which are all; raises what the task would be told."""
    rig = Rig(buffer_memory_bytes=64 * 4096, max_in_flight=rng.randint(1, 5))
    delivery = rig.sender.begin()
    rows = rng.randrange(1, 400)
    for _ in range(rows):
        rig.append(delivery, rng.choice((T0, T1)))
    delivery.flushing = True
    version, lies_left = rng.choice((2, 3, 7, 8, 9, 12)), rng.choice((0, 1, 3, 1000))
    for _ in range(int(rig.config.delivery_timeout_ms / STEP_MS) + 300):
        rig.clock.now_ms += STEP_MS
        rig.turn(1)
        for sent in [request for request in rig.client.sent if not request.pending.done]:
            sent.answer(dict.fromkeys(sent.batches, 0))
            if lies_left and rng.random() < 0.5:
                lies_left -= 1
                honest = with_defaults(PRODUCE.response.fields, sent.pending.body)
                sent.pending.body = with_lies(rng, PRODUCE.response.fields, version, honest)
                if rng.random() < 0.1:
                    sent.fail(ConnectionLost("gone"))
        if delivery.failed or delivery.records >= rows:
            break
    rig.turn(3)
    assert rig.leaked_bytes == 0
    if delivery.error is not None:
        assert isinstance(delivery.error, KafkaSourceError), delivery.error
        raise delivery.error
    assert delivery.records == rows
    return rows
