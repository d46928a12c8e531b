"""Mirrors among three real brokers, as `pykafka mirror` runs them, in the tests' Spark."""

import json
import time
import uuid

import pyarrow as pa
import pytest

from kafkasource.errors import OptionError
from kafkasource.kafka import ClientConfig, Cluster, TopicPartition
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE
from kafkasource.mirror import job, toml_file
from kafkasource.mirror.offset_map import OffsetMapTopic
from kafkasource.reader import Reader
from kafkasource.sink.clusters.offset_spans import Mapped
from kafkasource.testing.broker import Broker
from kafkasource.tools.cli import main
from kafkasource.types import OffsetRange
from kafkasource.writer import Writer

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture(scope="module")
def brokers(kafka_broker):
    """A, which other tests use too, B and C."""
    with Broker(use_existing=False) as b, Broker(use_existing=False) as c:
        yield {"A": kafka_broker.bootstrap_servers, "B": b.bootstrap_servers, "C": c.bootstrap_servers}


@pytest.fixture
def prefix():
    """Of topics that no other test has."""
    return f"m{uuid.uuid4().hex[:8]}"


def plan(brokers, tmp_path, flows):
    clusters = "".join(f'[clusters.{name}]\nkafka.bootstrap.servers = "{at}"\n' for name, at in brokers.items())
    return toml_file.parse(f'checkpoint = "{tmp_path}/checkpoints"\n{clusters}\n{flows}', "mirror.toml")


def mirror_all(spark, plan):
    """What is there now is carried over."""
    mirror = job.start(plan, spark, once=True)
    try:
        mirror.wait()
    finally:
        mirror.stop()


def write(servers, topic, values, *, keys=None):
    with Writer({"kafka.bootstrap.servers": servers, "topic": topic}) as writer:
        writer.write(pa.table({"key": keys or values, "value": values}))


def records(servers, topic, **options):
    """Rows as dicts, by partition and offset."""
    with Reader({"kafka.bootstrap.servers": servers, "subscribe": topic, **options}) as reader:
        return [row for batch in reader for row in batch.to_pylist()]


def admin(servers):
    return Cluster(ClientConfig.of(servers))


def places(rows):
    """What must be the same at both ends."""
    return sorted((row["partition"], row["key"], row["value"], row["timestamp"]) for row in rows)


def test_topics_by_pattern_reach_two_targets_and_offsets_are_translated_to_the_same_records(
    spark, brokers, prefix, tmp_path, capsys
):
    orders, customers = f"{prefix}-orders", f"{prefix}-customers"
    with admin(brokers["A"]) as source:
        source.topics.create([orders], partitions=3, configs={"retention.ms": "7200000"})
        source.topics.create([customers], configs={"cleanup.policy": "compact"})
        source.topics.create([f"{prefix}-other"])
        write(brokers["A"], orders, [f"o{number}" for number in range(3000)])
        write(brokers["A"], customers, [f"c{number}" for number in range(50)])
        write(brokers["A"], f"{prefix}-other", ["x"])
        with admin(brokers["B"]) as target:  # somebody else's records: offsets differ from the source's
            target.topics.create([f"A.{orders}"], partitions=2)
        write(brokers["B"], f"A.{orders}", [f"before{number}" for number in range(100)])

        there = plan(
            brokers,
            tmp_path,
            f"""
            [[flows]]
            from = "A"
            to = ["B", "C"]
            topics = ["{prefix}-ord.*", "{customers}"]
            topic = "${{source}}.${{topic}}"
            """,
        )
        mirror_all(spark, there)
        source.topics.add_partitions({orders: 4})
        write(brokers["A"], orders, [f"late{number}" for number in range(1000)])
        mirror_all(spark, there)
        original = {name: records(brokers["A"], name) for name in (orders, customers)}
        for name in ("B", "C"):
            mirrored = records(brokers[name], f"A.{orders}")
            ours = [row for row in mirrored if not row["value"].startswith(b"before")]
            assert places(ours) == places(original[orders])
            assert places(records(brokers[name], f"A.{customers}")) == places(original[customers])
        assert len(original[orders]) == 4000

        # Topics are like the source's.
        for name in ("B", "C"):
            with admin(brokers[name]) as target:
                found = {topic.name: len(topic.partitions) for topic in target.topics.list()}
                assert found[f"A.{orders}"] == 4
                assert f"A.{prefix}-other" not in found
                settings = {each.name: each.value for each in target.topics.settings([f"A.{orders}"])[f"A.{orders}"]}
                assert settings["retention.ms"] == "7200000"

        # A group that has read some of each partition goes on at B where it was at A.
        group = f"{prefix}-group"
        last = max(row["offset"] for row in original[orders] if row["partition"] == 2)
        stands = {TopicPartition(orders, 0): 17, TopicPartition(orders, 1): 0, TopicPartition(orders, 2): last}
        source.groups.commit(group, stands)
    translate = ["offsets", "translate", "--source", "A", "-b", brokers["B"], "--group", group]
    assert main([*translate, "--source-servers", brokers["A"], "--json", "--yes"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["remark"] for row in told["partitions"]] == ["exact"] * 3
    with admin(brokers["B"]) as target:
        committed = target.groups.committed_offsets(
            group, [TopicPartition(f"A.{orders}", number) for number in range(3)]
        )
    for tp, offset in stands.items():
        here = next(row for row in original[orders] if (row["partition"], row["offset"]) == (tp.partition, offset))
        at = committed[TopicPartition(f"A.{orders}", tp.partition)]
        with Reader({"kafka.bootstrap.servers": brokers["B"], "subscribe": f"A.{orders}"}) as reader:
            where = OffsetRange(TopicPartition(f"A.{orders}", tp.partition), at, at + 1)
            (there_row,) = [row for batch in reader.read([where]) for row in batch.to_pylist()]
        assert (there_row["key"], there_row["value"]) == (here["key"], here["value"])


def test_a_topic_that_a_target_refuses_is_left_out_and_noted_and_the_others_are_copied(
    spark, brokers, prefix, tmp_path
):
    """Its name has 250 characters there. The flow is under `block`."""
    long = f"{prefix}-{'l' * 248}"[:248]
    for topic in (long, f"{prefix}-orders"):
        with admin(brokers["B"]) as cluster:
            cluster.topics.create([topic])
    flow = f'[[flows]]\nfrom = "B"\nto = "C"\ntopics = "{prefix}-.*"\ntopic = "b.${{topic}}"'
    for number in range(2):
        for topic in (long, f"{prefix}-orders"):
            write(brokers["B"], topic, [f"{number}-{each}" for each in range(10)])
        mirror_all(spark, plan({name: brokers[name] for name in "BC"}, tmp_path, flow))
    assert places(records(brokers["C"], f"b.{prefix}-orders")) == places(records(brokers["B"], f"{prefix}-orders"))
    with OffsetMapTopic(ClientConfig.of(brokers["C"]), "mirror-offsets.B.internal") as offset_map:
        assert offset_map.read()[TopicPartition(long, 0)] == Mapped(f"b.{long}", (), (0, 20))


def test_a_second_mirror_on_the_checkpoint_is_refused_and_the_first_one_goes_on(spark, brokers, prefix, tmp_path):
    there = plan(brokers, tmp_path, f'[[flows]]\nfrom = "A"\nto = "B"\ntopics = "{prefix}.*"')
    first = job.start(there, spark)
    try:
        with pytest.raises(OptionError, match=r"another mirror runs with the checkpoint .*/checkpoints/A"):
            job.start(there, spark)
        assert [query.isActive for query in first.queries] == [True]
    finally:
        first.stop()
    mirror_all(spark, there)


def test_a_one_way_mirror_of_topics_of_one_name_that_becomes_two_way_carries_nothing_back(
    spark, brokers, prefix, tmp_path
):
    """Nothing but what applications write: also what they write with the headers of their input, to another topic."""
    both = {name: brokers[name] for name in ("B", "C")}
    topic = f"{prefix}-orders"
    ids = {}
    for name, servers in both.items():
        with admin(servers) as cluster:
            cluster.topics.create([topic], partitions=2)
            ids[name] = cluster.brokers().cluster_id
        write(servers, topic, [f"{name}{number}" for number in range(200)])
    there = f'[[flows]]\nfrom = "B"\nto = "C"\ntopics = "{prefix}-.*"\n'
    back = f'[[flows]]\nfrom = "C"\nto = "B"\ntopics = "{prefix}-.*"\n'
    mirror_all(spark, plan(both, tmp_path, there))
    (copy,) = [row for row in records(both["C"], topic, includeHeaders="true") if row["value"] == b"B0"]
    assert copy["headers"] == [{"key": "mirror.origin", "value": f"{ids['B']}/{topic}".encode()}]
    forwarded = pa.table({"value": [b"enriched"], "headers": pa.array([copy["headers"]], HEADERS_TYPE)})
    with Writer(
        {"kafka.bootstrap.servers": both["C"], "topic": f"{prefix}-enriched", "createTopic": "partitions=1"}
    ) as writer:
        writer.write(forwarded)
    for _ in range(2):  # what came with the first would go back with the second
        mirror_all(spark, plan(both, tmp_path, there + back))
    expected = sorted(
        [f"B{number}".encode() for number in range(200)] + [f"C{number}".encode() for number in range(200)]
    )
    for name, servers in both.items():
        rows = records(servers, topic, includeHeaders="true")
        assert sorted(row["value"] for row in rows) == expected
        came = {row["value"][:1] for row in rows if row["headers"]}
        assert came == {b"C" if name == "B" else b"B"}
        assert [row["value"] for row in records(servers, f"{prefix}-enriched")] == [b"enriched"]


def test_a_topic_whose_records_have_no_timestamp_is_mirrored_as_it_is_and_the_mirror_goes_on(
    spark, brokers, prefix, tmp_path
):
    topic = f"{prefix}-orders"
    there = plan(brokers, tmp_path, f'[[flows]]\nfrom = "B"\nto = ["A", "C"]\ntopics = "{topic}"')
    written, now = [], int(time.time() * 1000)  # what is older than a week goes away at once
    for times in ([-1, now, -1], [now + 1, -1]):
        with Writer({"kafka.bootstrap.servers": brokers["B"], "topic": topic, "createTopic": "partitions=1"}) as writer:
            stamps = pa.array(times, pa.timestamp("ms", "UTC"))
            writer.write(pa.table({"value": [f"{ms}" for ms in times], "timestamp": stamps}))
        mirror_all(spark, there)
        written += times
        for name in ("A", "C"):
            rows = sorted(records(brokers[name], topic), key=lambda row: row["offset"])
            assert [(row["value"], milliseconds(row)) for row in rows] == [(b"%d" % ms, ms) for ms in written]


def test_a_topic_that_was_deleted_at_the_source_holds_up_no_other_and_one_that_was_made_again_does(
    spark, brokers, prefix, tmp_path
):
    there = plan(brokers, tmp_path, f'[[flows]]\nfrom = "B"\nto = "C"\ntopics = "{prefix}-.*"')
    stays, goes, again = (f"{prefix}-{name}" for name in ("stays", "goes", "again"))
    with admin(brokers["B"]) as source:
        source.topics.create([stays, goes, again])
        for topic in (stays, goes, again):
            write(brokers["B"], topic, ["1", "2"])
        mirror_all(spark, there)
        source.topics.delete([goes])
        write(brokers["B"], stays, ["3"])
        mirror_all(spark, there)
        assert [row["value"] for row in records(brokers["C"], stays)] == [b"1", b"2", b"3"]
        assert [row["value"] for row in records(brokers["C"], goes)] == [b"1", b"2"]
        source.topics.delete([again])
        source.topics.create([again])
        with pytest.raises(job.MirrorFailed, match="TOPIC_RECREATED"):
            mirror_all(spark, there)


@pytest.mark.extended
def test_a_topic_of_kafka_0_9_where_no_record_has_a_timestamp_is_mirrored_to_a_broker_of_today(
    spark, brokers, prefix, tmp_path
):
    topic = f"{prefix}-orders"
    with Broker(version="0.9.0.1", use_existing=False) as old:
        there = plan(
            {"old": old.bootstrap_servers, "B": brokers["B"]},
            tmp_path,
            f'[[flows]]\nfrom = "old"\nto = "B"\ntopics = "{topic}"',
        )
        for first in (0, 100):
            write(old.bootstrap_servers, topic, [f"{number}" for number in range(first, first + 100)])
            mirror_all(spark, there)
        rows = records(brokers["B"], topic)
    assert sorted((int(row["value"]), milliseconds(row)) for row in rows) == [(number, -1) for number in range(200)]


def milliseconds(row):
    return round(row["timestamp"].timestamp() * 1000)
