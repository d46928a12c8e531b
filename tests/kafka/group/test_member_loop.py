"""The thread of a group member, turn by turn, on a network and a clock that need no time."""

from fake_broker import Error, FakeKafka, FakeNet

from kafkasource.errors import GroupAuthorizationFailed
from kafkasource.kafka.group.assignors import assignors_named
from kafkasource.kafka.group.condition import InterruptibleCondition
from kafkasource.kafka.group.loop import MemberLoop
from kafkasource.kafka.group.membership import Membership, Terms
from kafkasource.kafka.protocol.apis import FIND_COORDINATOR


def test_who_waits_hears_of_a_refusal_before_the_loop_waits_again():
    """A member that has FAILED has no timers, so the loop's next turn came a minute later."""
    kafka = FakeKafka(nodes=1, topics={"t": 1})
    net = FakeNet(kafka)
    cluster = net.cluster()
    terms = Terms(("t",), (assignors_named(["range"])[0],), 10_000, 10_000, 2_000, None, None, False, lambda n: 100.0)
    membership = Membership(terms, net.now * 1000)
    heard = []

    class Changed(InterruptibleCondition):
        def notify_all(self):
            heard.append((membership.error, net.now))
            super().notify_all()

    loop = MemberLoop(cluster, "g", membership, Changed(), lambda: net.now * 1000, net.now * 1000)
    kafka.fault(FIND_COORDINATOR, Error(GroupAuthorizationFailed.CODE))
    loop.turn()
    error, at = heard[-1]
    assert isinstance(error, GroupAuthorizationFailed)
    assert at < net.now  # then it waited
