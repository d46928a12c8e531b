"""An operator changes the file of a mirror for a week, on two real clusters: each flow has each record once.

Positions are the flows' own, so what is added, excluded, disabled, renamed or changed gets its history and nothing
twice. `values` are read by the consumer of this project, offsets by its client.
"""

import uuid

import pyarrow as pa
import pytest

from kafkasource.errors import UnknownTopicOrPartition
from kafkasource.kafka import ClientConfig, Cluster, TopicPartition
from kafkasource.kafka.cluster.offsets import LATEST
from kafkasource.mirror import job, toml_file
from kafkasource.mirror.files import LocalFiles, newest_record
from kafkasource.reader import Reader
from kafkasource.testing.broker import Broker
from kafkasource.writer import Writer

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture(scope="module")
def west():
    with Broker(use_existing=False) as broker:
        yield broker


@pytest.fixture
def week(spark, kafka_broker, west, tmp_path):
    return Week(spark, {"east": kafka_broker.bootstrap_servers, "west": west.bootstrap_servers}, tmp_path)


class Week:
    def __init__(self, spark, clusters, folder):
        self.spark, self.clusters, self.folder = spark, dict(clusters), folder
        self.name = f"w{uuid.uuid4().hex[:8]}"
        self.orders, self.users = f"{self.name}-orders", f"{self.name}-users"
        self.written = {}

    def write(self, topic, count):
        own = self.written.setdefault(topic, [])
        new = [f"{topic}/{len(own) + number}" for number in range(count)]
        own += new
        options = {"kafka.bootstrap.servers": self.clusters["east"], "topic": topic, "createTopic": "partitions=1"}
        with Writer(options) as writer:
            writer.write(pa.table({"value": new}))

    def plan(self, *flows, head="", west=""):
        clusters = "".join(
            f'[clusters.{name}]\nkafka.bootstrap.servers = "{at}"\n' for name, at in self.clusters.items()
        )
        clusters = clusters.replace("[clusters.west]\n", f"[clusters.west]\n{west}\n")
        blocks = "".join(f'[[flows]]\nfrom = "east"\ntopics = "{self.name}.*"\n{flow}\n' for flow in flows)
        return toml_file.parse(f'checkpoint = "{self.folder}/checkpoint"\n{head}\n{clusters}\n{blocks}', "mirror.toml")

    def mirror(self, *flows, head=""):
        """One run of all there is, as `pykafka mirror --once`."""
        mirror = job.start(self.plan(*flows, head=head), self.spark, once=True)
        try:
            mirror.wait()
        finally:
            mirror.stop()

    def there(self, topic):
        options = {"kafka.bootstrap.servers": self.clusters["west"], "subscribe": topic}
        with Reader({**options, "kafka.isolation.level": "read_committed"}) as reader:
            return [value.decode() for batch in reader for value in batch.column("value").to_pylist()]

    def end_of(self, topic):
        """The end of the log at west; 0 if it has none."""
        with Cluster(ClientConfig.of(self.clusters["west"])) as cluster:
            try:
                return cluster.offsets.list({TopicPartition(topic, 0): LATEST})[TopicPartition(topic, 0)].offset
            except UnknownTopicOrPartition:
                return 0

    def topics_there(self):
        with Cluster(ClientConfig.of(self.clusters["west"])) as cluster:
            return {topic.name for topic in cluster.topics.list()}

    def is_copied(self, *names):
        """Under these names at west, each record of its topic is there once and in order."""
        for name in names:
            (topic,) = [topic for topic in self.written if name.endswith(topic)]
            assert self.there(name) == self.written[topic], name

    def record(self):
        return newest_record(LocalFiles(str(self.folder / "checkpoint")), "east")


WEST = 'to = "west"\ntopic = "w.${topic}"'


def test_a_target_that_is_added_gets_the_history_and_a_topic_that_was_excluded_comes_once(week):
    """Two targets at one cluster have two names in the file."""
    week.clusters["archive"] = week.clusters["west"]
    archive = 'to = "archive"\ntopic = "a.${topic}"'
    week.write(week.orders, 30)
    week.write(week.users, 20)
    week.mirror(WEST)
    week.write(week.orders, 10)
    week.mirror(WEST, archive)
    week.is_copied(f"w.{week.orders}", f"w.{week.users}", f"a.{week.orders}", f"a.{week.users}")
    week.write(week.orders, 10)
    week.write(week.users, 10)
    week.mirror(f'{WEST}\nexclude = ".*-orders"', archive)
    assert week.there(f"w.{week.orders}") == week.written[week.orders][:40]
    week.mirror(WEST, archive)
    week.is_copied(f"w.{week.orders}", f"w.{week.users}", f"a.{week.orders}", f"a.{week.users}")
    assert not week.record().catch_ups


@pytest.mark.extended
def test_a_week(week):
    week.clusters["archive"] = week.clusters["west"]
    archive = 'to = "archive"\ntopic = "a.${topic}"'
    in_west, in_archive = [[f"{at}.{topic}" for topic in (week.orders, week.users)] for at in "wa"]

    def both():
        week.write(week.orders, 7)
        week.write(week.users, 5)

    both()
    week.mirror(WEST)
    week.is_copied(*in_west)
    both()  # Monday: another target
    week.mirror(WEST, archive)
    week.is_copied(*in_west, *in_archive)
    both()  # Tuesday: it is disabled for a day
    week.mirror(WEST, f"{archive}\nenabled = false")
    week.is_copied(*in_west)
    both()
    week.mirror(WEST, archive)
    week.is_copied(*in_west, *in_archive)
    both()  # Wednesday: from now on exactly once
    week.mirror(WEST, archive, head="exactly_once = true")
    week.is_copied(*in_west, *in_archive)
    both()  # Thursday: a topic is excluded at one target, and then taken in again
    week.mirror(f'{WEST}\nexclude = ".*-users"', archive, head="exactly_once = true")
    week.is_copied(in_west[0], *in_archive)
    both()
    week.mirror(WEST, archive, head="exactly_once = true")
    week.is_copied(*in_west, *in_archive)
    both()  # Friday: a cluster gets another name in the file
    week.clusters["store"] = week.clusters.pop("archive")
    store = archive.replace('"archive"', '"store"')
    week.mirror(WEST, store, head="exactly_once = true")
    week.is_copied(*in_west, *in_archive)
    both()  # Saturday: other names at a target are another flow
    week.mirror(WEST.replace("w.$", "new.$"), store, head="exactly_once = true")
    week.is_copied(f"new.{week.orders}", f"new.{week.users}", *in_archive)
    both()  # Sunday: as it was
    week.mirror(WEST, store, head="exactly_once = true")
    week.is_copied(*in_west, *in_archive)


def test_a_target_that_is_added_to_a_mirror_that_runs_on_joins_its_read(week):
    week.clusters["archive"] = week.clusters["west"]
    archive = 'to = "archive"\ntopic = "a.${topic}"'
    week.write(week.orders, 50)
    week.mirror(WEST)
    week.write(week.orders, 50)
    mirror = job.start(week.plan(WEST, archive), week.spark)
    try:
        (run,) = mirror.runs

        def both_have_all():
            return week.record().number > 2 and not run.record.catch_ups and len(week.there(f"a.{week.orders}")) == 100

        mirror.wait(_When(both_have_all))
        week.write(week.orders, 20)
        mirror.wait(_When(lambda: len(week.there(f"a.{week.orders}")) == 120 == len(week.there(f"w.{week.orders}"))))
        assert len(mirror.queries) == 1
        mirror.finish()
    finally:
        mirror.stop()
    week.is_copied(f"w.{week.orders}", f"a.{week.orders}")


# Small requests, one at a time: the first micro-batch lasts long enough to be cut.
SLOW = "kafka.batch.size = 2048\nkafka.max.in.flight.requests.per.connection = 1"


@pytest.mark.extended
@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_micro_batch_that_was_cut_is_finished_under_the_old_plan_before_a_new_one_begins(week, west, exactly_once):
    head = f"exactly_once = {str(exactly_once).lower()}"
    week.write(week.orders, 40_000)
    mirror = job.start(week.plan(WEST, head=head, west=SLOW), week.spark)
    try:
        mirror.wait(_When(lambda: week.end_of(f"w.{week.orders}")))
        west.pause()
    finally:
        mirror.stop()
        west.resume()
    (reader,) = week.record().readers
    assert not (week.folder / "checkpoint/east" / reader.name / "commits/0").exists()
    week.clusters["archive"] = week.clusters["west"]
    week.write(week.users, 10)
    week.mirror(f'{WEST}\nexclude = ".*-users"', 'to = "archive"\ntopic = "a.${topic}"', head=head)
    week.is_copied(f"a.{week.orders}", f"a.{week.users}")
    arrived = week.there(f"w.{week.orders}")
    assert (arrived if exactly_once else list(dict.fromkeys(arrived))) == week.written[week.orders]
    assert f"w.{week.users}" not in week.topics_there()


class _When:
    """An event that is set when a condition holds. The time limit of the test ends a wait that has no end."""

    def __init__(self, condition):
        self._condition = condition

    def wait(self, seconds):
        return self._condition()
