"""On real brokers that forget group offsets after a minute: what is kept stays, the decision record goes."""

import time

import pytest
from transaction_fakes import CommitsOtherwise

from kafkasource.exactly_once.decision_status import LastBatch
from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.exactly_once.errors import LostDecision
from kafkasource.exactly_once.names import TransactionalIds
from kafkasource.exactly_once.task.plan import TaskResult, plan_task
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.testing.broker import Broker
from kafkasource.types import TopicPartition

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.extended]

FORGETFUL = {"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 500}
PATIENCE_S = 240.0


@pytest.fixture(scope="module", params=["3.9.2", "4.3.1"])
def cluster(request):
    with (
        Broker(version=request.param, use_existing=False, properties=FORGETFUL) as broker,
        Cluster(ClientConfig.of(broker.bootstrap_servers)) as cluster,
    ):
        cluster.topics.create(["t", "u"])
        yield cluster


def test_what_is_known_of_a_batch_outlives_its_decision_record(cluster):
    def driver(name, kind=ExactlyOnce):
        return kind(cluster, TransactionalIds(name), timeout_ms=60_000)

    def decide(name, batch_id, topics, kind=ExactlyOnce):
        decider = driver(name).begin().driver
        result = TaskResult(decider, "q", partitions=tuple(TopicPartition(topic, 0) for topic in topics))
        driver(name, kind).commit([result], batch_id)

    class Dies(CommitsOtherwise):
        def end_tasks(self, decision, transactions):
            raise KeyboardInterrupt  # decided, and nobody comes back for a week

    decide("whole", 0, "tu")
    decide("whole", 1, "tu")
    decide("topic", 0, "u")
    with pytest.raises(KeyboardInterrupt):
        decide("early", 0, "tu", Dies)
    groups = [TransactionalIds(name).marker_group for name in ("whole", "topic", "early")]
    deadline = time.monotonic() + PATIENCE_S
    while any(cluster.groups.committed(group) for group in groups):
        assert time.monotonic() < deadline, "the brokers forget nothing"
        time.sleep(1)
    assert driver("whole").begin().last == LastBatch(2, "stream", "q", 1)
    # Its coordinator remembers; a begin that died before it had kept that would not find it so.
    found = driver("early").begin()
    assert found.last.state == "unknown"
    with pytest.raises(LostDecision, match="batch 0 was about to be decided"):
        plan_task(found, "q", 0, 0, "fail")
    cluster.topics.delete(["u"])
    while driver("topic").begin().last is not None:
        assert time.monotonic() < deadline, "the offsets of a deleted topic stay"
        time.sleep(0.5)
    assert plan_task(driver("topic").begin(), "q", 1, 0, "fail").write  # nothing is known under its prefix
    assert driver("whole").begin().last == LastBatch(2, "stream", "q", 1)
