"""A checkpoint that goes back, or has a copy beside it, loses no row and doubles none unless the query stops."""

import copy
import json
import pickle
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from producers_of_fakes import FakeProducer, FakeProducers
from pyspark.sql.types import BinaryType, StringType, StructField, StructType
from random_inputs import examples
from transaction_fakes import Crash, FakeContext, FakeTransactionCluster, read_committed

from kafkasource.errors import error_for
from kafkasource.exactly_once.driver import same_rows, without_rows
from kafkasource.exactly_once.driver.begin import BatchBegin
from kafkasource.exactly_once.errors import CheckpointBehind, LostTransactions
from kafkasource.exactly_once.task import content
from kafkasource.kafka.cluster import cache as cluster_cache
from kafkasource.sink import task as task_module
from kafkasource.sink import writer as writer_module
from kafkasource.sink.clusters import targets
from kafkasource.sink.writer import StreamWriter
from kafkasource.source.plan.admission import share_offsets
from kafkasource.types import TopicPartition

SCHEMA = StructType([StructField("value", BinaryType()), StructField("topic", StringType())])
SOURCE = [TopicPartition(topic, partition) for topic in ("a", "b") for partition in range(2)]
TARGETS = [TopicPartition(f"{prefix}.{topic}", 0) for prefix in ("v1", "v2") for topic in ("a", "b")]
LIMIT = 6  # offsets of a micro-batch, shared over the partitions by what is left in them


@dataclass
class Checkpoint:
    """Two of them may be copies of one, and then are one query to Kafka."""

    prefix: str = "v1"  # of the target topics
    planned: list[dict[TopicPartition, int]] = field(default_factory=list)  # the end of each batch
    committed: int = 0  # batches
    stopped: str = ""  # the error

    def ranges(self, latest):
        """The ranges of the next batch, or of the last batch, if that was not committed. None: nothing is new."""
        begin = self.planned[self.committed - 1] if self.committed else dict.fromkeys(SOURCE, 0)
        if len(self.planned) == self.committed:
            end = share_offsets(begin, latest, LIMIT)
            if end == begin:
                return None
            self.planned.append(end)
        end = self.planned[self.committed]
        return {tp: range(begin[tp], end[tp]) for tp in SOURCE if end[tp] > begin[tp]}

    def goes_back(self, batches):
        self.committed = max(0, self.committed - batches)
        del self.planned[self.committed :]


class World:
    """The state of Kafka, and the checkpoints that write to it."""

    def __init__(self, monkeypatch):
        self.monkeypatch = monkeypatch
        self.latest = dict.fromkeys(SOURCE, 0)
        self.clusters = {name: FakeTransactionCluster(2) for name in ("east", "west")}
        for cluster in self.clusters.values():
            cluster.logs = {tp: [] for tp in TARGETS}
        self.checkpoints = [Checkpoint()]
        self.options = {}
        monkeypatch.setattr(
            cluster_cache, "shared_cluster", lambda config: self.clusters[config.bootstrap_servers[0][0]]
        )
        monkeypatch.setattr(task_module, "shared_producers", self.producers)

    def producers(self, found):
        return {name: FakeProducers(target, self.clusters[name], TARGETS) for name, target in found.items()}

    # What happens.

    def records(self, number, count):
        self.latest = self.latest | {SOURCE[number]: self.latest[SOURCE[number]] + count}

    def batch(self, which, dies_at=None):
        """One micro-batch. `dies_at`: the driver is gone at this call to a cluster in its commit."""
        checkpoint = self.checkpoints[which % len(self.checkpoints)]
        ranges = None if checkpoint.stopped else checkpoint.ranges(self.latest)
        if ranges is None:
            return
        batch_id, rows = checkpoint.committed, {tp: [f"{tp}/{n}" for n in found] for tp, found in ranges.items()}
        sent, messages = pickle.dumps(self.writer(checkpoint)), []
        try:
            messages += [self.task(sent, batch_id, slot, tp, rows[tp]) for slot, tp in enumerate(rows)]
            if dies_at is not None:
                name, call = ("east", "west")[dies_at % 2], dies_at // 2
                self.clusters[name].crash_at = {len(self.clusters[name].calls) + call: "after"}
            self.writer(checkpoint).commit(messages, batch_id)
        except Crash:
            return
        except CheckpointBehind as error:
            with suppress(Crash):
                self.writer(checkpoint).abort(messages, batch_id)
            checkpoint.stopped = str(error)
            return
        finally:
            for cluster in self.clusters.values():
                cluster.crash_at = {}
        checkpoint.committed += 1
        self.check(checkpoint, rows)

    def goes_back(self, which, batches):
        self.checkpoints[which % len(self.checkpoints)].goes_back(batches)

    def is_copied(self, prefix):
        """The first one, and the copy goes on with these target topics."""
        if len(self.checkpoints) == 1:
            self.checkpoints.append(copy.deepcopy(self.checkpoints[0]))
            self.checkpoints[1].prefix = prefix

    def changes_its_topics(self, which, prefix):
        self.checkpoints[which % len(self.checkpoints)].prefix = prefix

    # How.

    def writer(self, checkpoint):
        topic = f"{checkpoint.prefix}.${{topic}}"
        clusters = {
            "east": {"kafka.bootstrap.servers": "east:1", "topic": topic, "onlyTopics": "^a$"},
            "west": {"kafka.bootstrap.servers": "west:1", "topic": topic},
        }
        options = {"transactionalIdPrefix": "p", "deliveryGuarantee": "exactly_once", "partitioning": "key"}
        return StreamWriter(targets.parse({"clusters": json.dumps(clusters)} | options | self.options), SCHEMA)

    def task(self, sent, batch_id, slot, tp, values):
        context = FakeContext(slot, batch_id=batch_id)
        self.monkeypatch.setattr(writer_module.TaskContext, "get", lambda: context)  # type: ignore[attr-defined]
        rows = {"value": [value.encode() for value in values], "topic": [tp.topic] * len(values)}
        return pickle.loads(pickle.dumps(pickle.loads(sent).write(iter([pa.RecordBatch.from_pydict(rows)]))))

    def check(self, checkpoint, rows):
        """Each cluster has all rows of the committed batches that it takes, and no topic has a row twice."""
        for name, cluster in self.clusters.items():
            for target in TARGETS:
                seen = Counter(value.decode() for value in read_committed(cluster.logs[target]))
                assert max(seen.values(), default=1) == 1
                if name == "west" or target.topic.endswith("a"):
                    source = target.topic.removeprefix(f"{checkpoint.prefix}.")
                    wanted = {value for tp, values in rows.items() if tp.topic == source for value in values}
                    assert wanted <= seen.keys()
                else:
                    assert not seen


def test_rows_of_a_refused_topic_belong_to_the_batch_in_each_run(monkeypatch):
    """Does what a mirror does. In the second run the cluster takes the topic."""
    refused = ["v1.b"]

    def await_topic(producer, topic, *_):
        if topic in refused:
            raise error_for(17, f"topic {topic!r}")  # INVALID_TOPIC_EXCEPTION
        return producer.metadata.topic(topic)

    monkeypatch.setattr(FakeProducer, "await_topic", await_topic)
    world = World(monkeypatch)
    world.options = {"clusters.west.refusedTopics": "[]"}
    world.records(0, 2), world.records(2, 2)
    world.batch(0, dies_at=7)
    assert [len(read_committed(cluster.logs[TARGETS[1]])) for cluster in world.clusters.values()] == [0, 0]
    refused.clear()
    monkeypatch.setattr(World, "check", lambda *_: None)
    world.batch(0)
    assert (world.checkpoints[0].stopped, world.checkpoints[0].committed) == ("", 1)


WHICH, PREFIX = st.integers(0, 1), st.sampled_from(["v1", "v2"])
STEPS = st.one_of(
    st.tuples(st.just("records"), st.integers(0, 3), st.integers(1, 9)),
    st.tuples(st.just("batch"), WHICH),
    st.tuples(st.just("batch"), WHICH, st.integers(0, 25)),
    st.tuples(st.just("goes_back"), WHICH, st.integers(1, 2)),
    st.tuples(st.just("is_copied"), PREFIX),
    st.tuples(st.just("changes_its_topics"), WHICH, PREFIX),
)


def run(steps):
    with pytest.MonkeyPatch.context() as monkeypatch:
        world = World(monkeypatch)
        for name, *how in steps:
            getattr(world, name)(*how)
    return world


@settings(max_examples=examples(300))
@given(st.lists(STEPS, max_size=20))
def test_a_checkpoint_that_goes_back_or_is_copied_loses_and_doubles_nothing_unless_its_query_stops(steps):
    run([("records", 0, 5), ("records", 2, 5), ("batch", 0), *steps])


class Any64:
    """Is equal to each number."""

    def __eq__(self, other):
        return True

    __hash__ = None


PLANTED = {
    "a skip that compares the number of rows alone": (same_rows, "total", lambda contents: Any64()),
    "a skip that compares nothing": (without_rows, "require_same_rows", lambda *_: None),
    "a sum that leaves out the topic": (content, "_factor", lambda topic: 1),
    "a decided batch that went back counts as lost": (BatchBegin, "_went_on", lambda begin: False),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_such_runs_find_a_planted_bug(bug, monkeypatch):
    monkeypatch.setattr(*PLANTED[bug])
    random = Random(1)

    def step():
        which, prefix = random.randrange(2), random.choice(["v1", "v2"])
        return random.choice(
            [
                ("records", random.randrange(4), random.randint(1, 9)),
                ("batch", which),
                ("batch", which, random.randrange(26)),
                ("goes_back", which, random.randint(1, 2)),
                ("is_copied", prefix),
                ("changes_its_topics", which, prefix),
            ]
        )

    def many_runs():
        for _ in range(500):
            run([("records", 0, 5), ("records", 2, 5), ("batch", 0), *(step() for _ in range(20))])

    with pytest.raises((AssertionError, LostTransactions)):
        many_runs()


GROWS = [("records", number, 4) for number in range(4)]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([("goes_back", 0, 1), ("records", 1, 6)], id="rolled back by one, as many other rows"),
        pytest.param([("goes_back", 0, 2)], id="rolled back by two"),
        pytest.param([("goes_back", 0, 1), ("changes_its_topics", 0, "v2")], id="rolled back by one, other topics"),
        pytest.param([("batch", 0, 8), ("changes_its_topics", 0, "v2")], id="other topics after a crash"),
    ],
)
def test_such_a_query_stops(steps):
    world = run([("records", 0, 9), ("records", 1, 9), ("batch", 0), ("batch", 0), *steps, ("batch", 0)])
    assert world.checkpoints[0].stopped


def test_of_a_checkpoint_and_its_copy_only_one_goes_on():
    world = run([*GROWS, ("batch", 0), ("is_copied", "v2"), ("batch", 1), ("batch", 0), *GROWS, ("batch", 1)])
    stopped, goes_on = (each.stopped for each in world.checkpoints)
    assert "lies in topic v2.a), and now it has 2 other rows (for topic v1.a)" in stopped
    assert "forget its decision with 'pykafka groups delete p-east-marker p-east-kept'" in stopped
    assert "skip" not in stopped
    assert not goes_on
    assert [each.committed for each in world.checkpoints] == [1, 3]


@pytest.mark.parametrize("steps", [[], [("goes_back", 0, 1)], [("batch", 0, 8)], [("is_copied", "v1"), ("batch", 1)]])
def test_the_same_rows_for_the_same_topics_are_skipped_and_the_query_goes_on(steps):
    world = run([*GROWS, ("batch", 0), ("batch", 0), *steps, ("batch", 0), ("batch", 0)])
    assert not any(each.stopped for each in world.checkpoints)
