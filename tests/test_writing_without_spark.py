"""`Writer` on brokers in this process: what is sent, what is told of it, what is refused."""

from typing import Any

import pyarrow as pa
import pytest
from fake_broker import Error, FakeKafka, serve
from fake_registry import a_registry

from kafkasource.errors import BrokerError, OptionError, SchemaError
from kafkasource.kafka.producer.rows import InvalidRow
from kafkasource.kafka.protocol.apis import CREATE_TOPICS, PRODUCE
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE
from kafkasource.kafka.records.batches import decode
from kafkasource.sink.schema import InvalidSchema
from kafkasource.types import TopicPartition
from kafkasource.writer import Writer

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def kafka():
    kafka: Any = FakeKafka(topics={"t": 2, "u": 1})
    with serve(kafka) as (host, port):
        kafka.addresses = {1: (host, port)}
        kafka.options = {"kafka.bootstrap.servers": f"{host}:{port}", "topic": "t"}
        yield kafka


def sent(kafka):
    """(topic, partition, key, value) of all records, in the order of sending."""
    names = {topic.topic_id: name for name, topic in kafka.topics.items()}
    found = []
    for request in kafka.asked(PRODUCE):
        for topic in request.body["topic_data"]:
            name = topic.get("name") or names[topic["topic_id"]]
            for data in topic["partition_data"]:
                place = {"topic": name, "partition": data["index"], "start_offset": 0, "end_offset": 10**9}
                for batch in decode(data["records"], **place).batches:
                    found += [(name, data["index"], row["key"], row["value"]) for row in batch.to_pylist()]
    return found


def test_rows_are_sent_where_they_belong_and_told_when_acknowledged(kafka):
    with Writer(kafka.options) as writer:
        writer.write(pa.table({"value": ["a", "b", "c"], "partition": pa.array([1, 0, 1], pa.int32())}))
        told = writer.flush()
        assert {tp: one.records for tp, one in told.items()} == {T0: 1, T1: 2}
        writer.write(pa.RecordBatch.from_pydict({"value": [b"d"], "partition": pa.array([0], pa.int32())}))
    assert {tp: one.records for tp, one in writer.written.items()} == {T0: 2, T1: 2}
    assert sorted(sent(kafka)) == [
        ("t", 0, None, b"b"),
        ("t", 0, None, b"d"),
        ("t", 1, None, b"a"),
        ("t", 1, None, b"c"),
    ]


def test_rows_may_name_their_topics(kafka):
    options = {"kafka.bootstrap.servers": kafka.options["kafka.bootstrap.servers"]}
    with Writer(options) as writer:
        writer.write(pa.table({"topic": ["u", "t"], "key": [b"k", b"k"], "value": ["1", "2"]}))
    assert {row[0]: row[2:] for row in sent(kafka)} == {"u": (b"k", b"1"), "t": (b"k", b"2")}


def test_columns_are_encoded_and_the_registry_is_asked_once_for_their_types(kafka):
    with a_registry() as registry:
        schema_id = registry.add("t-value", '{"type":"record","name":"R","fields":[{"name":"n","type":"int"}]}')
        options = {"valueFormat": "avro", "keyFormat": "string", "schemaRegistry.url": registry.url}
        rows = pa.table({"value": pa.array([{"n": 1}, None], pa.struct([("n", pa.int32())])), "key": ["a", "b"]})
        with Writer({**kafka.options, **options}) as writer:
            for _ in range(3):
                writer.write(rows)
        assert registry.paths == ["/subjects/t-value/versions/latest"]
        with (
            pytest.raises(SchemaError, match=r"\$\.n: a column of string"),
            Writer({**kafka.options, **options}) as writer,
        ):
            writer.write(pa.table({"value": [{"n": "x"}]}))
        with (
            pytest.raises(InvalidSchema, match="keyFormat=string writes texts"),
            Writer({**kafka.options, **options}) as writer,
        ):
            writer.write(pa.table({"value": [{"n": 1}], "key": [b"k"]}))
    framed = b"\0" + schema_id.to_bytes(4, "big") + b"\2"
    assert sorted(sent(kafka), key=str) == sorted([*[("t", 0, b"a", framed)] * 3, *[("t", 0, b"b", None)] * 3], key=str)


def test_nothing_written_makes_and_sends_nothing(kafka):
    with Writer({**kafka.options, "topic": "new-topic", "createTopic": "partitions=1"}) as writer:
        assert writer.flush() == {}
    assert kafka.asked(CREATE_TOPICS) + kafka.asked(PRODUCE) == []


def test_a_topic_is_made_where_the_option_says_how(kafka):
    with Writer({**kafka.options, "topic": "new-topic", "createTopic": "partitions=3"}) as writer:
        writer.write(pa.table({"value": ["x"]}))
    (asked,) = kafka.asked(CREATE_TOPICS)
    assert [(row["name"], row["num_partitions"]) for row in asked.body["topics"]] == [("new-topic", 3)]


def test_what_a_broker_refuses_is_raised_when_it_is_waited_for_and_later_rows_may_be_written(kafka):
    kafka.fault(PRODUCE, Error(29))
    with Writer(kafka.options) as writer:
        writer.write(pa.table({"value": ["x"]}))
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            writer.flush()
        writer.write(pa.table({"value": ["y"]}))
    assert sum(one.records for one in writer.written.values()) == 1


def test_an_error_in_the_block_gives_up_what_is_under_way_and_is_the_one_raised(kafka):
    def fail():
        with Writer({**kafka.options, "kafka.linger.ms": "60000"}) as writer:
            writer.write(pa.table({"value": ["x"]}))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert kafka.asked(PRODUCE) == []


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ({"key": ["k"]}, InvalidSchema),
        ({"value": ["x"], "partition": pa.array([7], pa.int32())}, InvalidRow),
        ({"value": [1.5]}, InvalidRow),
    ],
)
def test_rows_that_cannot_be_written_are_refused(kafka, rows, error):
    with pytest.raises(error), Writer({**kafka.options, "kafka.max.block.ms": "2000"}) as writer:
        writer.write(pa.table(rows))


BAD_RECORD = pa.struct(
    [
        *(("reason", pa.string()), ("schemaId", pa.int32()), ("key", pa.binary()), ("value", pa.binary())),
        ("clusterId", pa.string()),
    ]
)
READ = pa.table(
    {
        "value": pa.array([b"good", None], pa.binary()),
        "key": pa.array([b"k", None], pa.binary()),
        "topic": ["orders", "orders"],
        "partition": pa.array([None, 3], pa.int32()),
        "offset": pa.array([10, 11], pa.int64()),
        "headers": pa.array([None, [{"key": "h", "value": b"1"}]], HEADERS_TYPE),
        "badRecord": pa.array([None, {"reason": "cut", "schemaId": 7, "key": b"k", "value": b"\0was"}], BAD_RECORD),
    }
)


def test_bad_records_go_to_the_topic_of_dead_letters_as_they_were_read(kafka):
    with Writer({**kafka.options, "badRecords": "topic:u"}) as writer:
        writer.write(READ)
    assert {(topic, key, value) for topic, _, key, value in sent(kafka)} == {
        ("t", b"k", b"good"),
        ("u", b"k", b"\0was"),
    }


@pytest.mark.parametrize(
    ("options", "rows", "words"),
    [
        ({"badRecords": "topic:missing"}, READ, "topic 'missing' does not exist"),
        ({"badRecords": "topic:t"}, READ, "both name 't'"),
        ({"badRecords": "topic:u"}, READ.drop_columns(["headers"]), "needs the column 'headers'"),
        (
            {"badRecords": "topic:u"},
            READ.drop_columns(["badRecord"]).append_column("badRecord", pa.array(["x", "y"])),
            "is not what a read",
        ),
    ],
)
def test_what_dead_letters_lack_is_said_before_a_row_is_sent(kafka, options, rows, words):
    with pytest.raises((OptionError, InvalidSchema), match=words), Writer({**kafka.options, **options}) as writer:
        writer.write(rows)
    assert sent(kafka) == []


def test_another_column_of_that_name_is_none_of_ours(kafka):
    with Writer(kafka.options) as writer:
        writer.write(pa.table({"value": ["a"], "badRecord": ["mine"]}))
    assert [value for *_, value in sent(kafka)] == [b"a"]


def test_exactly_once_is_sparks_affair(kafka):
    with pytest.raises(OptionError, match="Spark's checkpoint"):
        Writer({**kafka.options, "deliveryGuarantee": "exactly_once", "transactionalIdPrefix": "p"})
    with pytest.raises(OptionError, match="commitListener"):
        Writer({**kafka.options, "commitListener": "module:function"})
