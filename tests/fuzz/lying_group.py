"""A member of a group, turn by turn, whose coordinator lies: it has errors of the package only, and goes on or ends."""

from __future__ import annotations

import random
from collections.abc import Callable

import fake_groups
import pytest
from fake_broker import FakeNet
from fake_consumer_groups import ConsumerKafka
from lying_broker import with_lies
from message_bodies import with_defaults

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.group.assignors import ASSIGNORS, assignors_named
from kafkasource.kafka.group.condition import InterruptibleCondition
from kafkasource.kafka.group.consumer_membership import ConsumerMembership
from kafkasource.kafka.group.loop import MemberLoop
from kafkasource.kafka.group.membership import Membership, Terms
from kafkasource.kafka.group.states import MemberState

TURNS = 40


class LyingGroup(ConsumerKafka):
    def __init__(self, rng: random.Random) -> None:
        super().__init__(nodes=2, topics={"t": 3, "u": 1})
        self.rng = rng
        self.lies_left = rng.choice((1, 3, 1000))

    def answer(self, request):
        body = super().answer(request)
        if body is None or not self.lies_left or self.rng.random() < 0.6:
            return body
        self.lies_left -= 1
        fields = request.api.response.fields
        return with_lies(self.rng, fields, request.version, with_defaults(fields, body))


def alone(work: Callable[[], bool]) -> bool:
    """Nobody else comes, so that the coordinator need not wait for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake_groups, "WAIT_S", 0.0)
        return work()


def belong(rng: random.Random) -> MemberState:
    """A member for some turns, polled now and then; the state it ends in. Raises what its user would be told."""
    net = FakeNet(LyingGroup(rng), seed=rng.random())
    consumer = rng.random() < 0.5  # the coordinator assigns (KIP-848)
    terms = Terms(
        ("t",),
        () if consumer else assignors_named(rng.sample(list(ASSIGNORS), rng.choice((1, 2)))),
        45_000,
        300_000,
        3_000,
        instance_id=rng.choice((None, None, "static")),
        must_poll=rng.random() < 0.7,
    )
    cluster = net.cluster(default_api_timeout_ms=5_000)
    membership = (ConsumerMembership if consumer else Membership)(terms, net.now * 1000)
    loop = MemberLoop(
        cluster, "g", membership, InterruptibleCondition(), lambda: net.now * 1000, net.now * 1000 + 60_000
    )
    try:
        for turn in range(TURNS):
            if not alone(loop.turn):
                break
            if rng.random() < 0.3:
                changes = membership.poll(net.now * 1000)
                assert changes.assigned <= membership.held
            if turn == TURNS - 5:
                membership.close(net.now * 1000)
        assert membership.error is None or isinstance(membership.error, KafkaSourceError), membership.error
        return membership.state
    finally:
        cluster.close()
