"""Cases of writes: modes, columns, options, SQL. Both connectors write, and confluent-kafka reads."""

from __future__ import annotations

from parity import T0, Sql, Topic, Write, WriteStream, bad_value, better, different, fails, option, reads, same

from parity_cases.shared import refused

ONE = reads(written=[("mine", 0, b"k", b"v", None)])
INTO_MINE2 = reads(written=[("mine2", 0, b"k", b"v", None)])
SOON = {"kafka.max.block.ms": "2000"}
HEADERS = (
    "array(named_struct('key', 'h', 'value', binary('1')), named_struct('key', 'h', 'value', CAST(NULL AS BINARY)))"
)
SPARK_REFUSES = "Spark refuses it to every Python data source."
INSERT = "INSERT INTO $it SELECT binary('k'), binary('v'), 'x', 0, 0L, timestamp_millis(1L), 0"  # a source's columns
NO_TOPIC = fails("not present in metadata after 15000 ms")
NO_UPDATE = fails("does not support Update mode")
NO_OPTIONS = "Spark does not give the OPTIONS of a table to a Python source"


def write(select: str, *found: tuple[object, ...], partitions: int = 1, **options: str | None) -> tuple[object, ...]:
    """A write into `$mine`, and the records that must be there afterwards: partition, key, value, headers."""
    seen = reads(written=[("mine", *row) for row in found])
    return (Topic(partitions=partitions), Write(options, seen, select=select))


def rows(values: str, names: str, columns: str = "*") -> str:
    return f"{columns} FROM VALUES {values} AS t({names})"


def no(select: str, phrase: str, ours: str | None = None, **options: str | None) -> Write:
    """A write that both refuse; `ours`: in words of its own."""
    expected = {"sees": fails(phrase)} if ours is None else refused(phrase, ours)
    return Write(options, select=select, **expected)


KEYS = ", ".join(f"('key-{number}', 'v')" for number in range(30))

CASES = (
    *option(
        "`mode`, batch",
        same("`append`", Topic(), Write({}, ONE)),
        different(
            "none, or `errorifexists`",
            f'{SPARK_REFUSES} Add `.mode("append")`.',
            Topic(),
            Write({}, theirs=ONE, ours=fails('cannot be written in the "ErrorIfExists" mode'), mode=None),
        ),
        same(
            "`ignore`, `overwrite`: an error",
            Topic(),
            Write(
                {}, mode="ignore", **refused("Save mode Ignore not allowed", 'cannot be written in the "Ignore" mode')
            ),
            Write({}, fails("Save mode Overwrite not allowed for Kafka"), mode="overwrite"),
        ),
    ),
    *option(
        "`outputMode`, stream",
        same("`append`", Topic(), WriteStream({}, reads(5))),
        same("`complete`", Topic(), WriteStream({}, reads(1), mode="complete", grouped=True)),
        different(
            "`update`, without an aggregation",
            f"{SPARK_REFUSES} `append` writes the same.",
            Topic(),
            WriteStream({}, theirs=reads(5), ours=NO_UPDATE, mode="update"),
        ),
        different(
            "`update`, of an aggregation",
            f"{SPARK_REFUSES} `foreachBatch` with a batch write does it.",
            Topic(),
            WriteStream({}, theirs=reads(1), ours=NO_UPDATE, mode="update", grouped=True),
        ),
    ),
    *option(
        "columns `key`, `value`",
        same(
            "strings, binary, null, empty; no key; null as value is a tombstone",
            *write(
                rows("('k', 'v'), ('', ''), (NULL, 'v'), ('k', NULL)", "key, value"),
                (0, b"k", b"v", None),
                (0, b"", b"", None),
                (0, None, b"v", None),
                (0, b"k", None, None),
            ),
        ),
        same("binary", *write("binary('k') AS key, X'00FF' AS value", (0, b"k", b"\x00\xff", None))),
        same(
            "no key; columns of other names have no effect",
            *write("'v' AS value, 1 AS offset, 2 AS other, 'x' AS Topic", (0, None, b"v", None)),
        ),
        same(
            "a key decides the partition, as in Kafka's Java producer",
            Topic(partitions=3),
            Write({}, reads(30), select=rows(KEYS, "key, value")),
        ),
        same(
            "no value, or `VALUE`; a value or key that is a number, an array or a struct: an error",
            Topic(),
            no("'k' AS key", "Required attribute 'value' not found"),
            no("'v' AS VALUE", "Required attribute 'value' not found"),
            no("1 AS value", "value must be a"),
            no("array('v') AS value", "value must be a"),
            no("named_struct('a', 1) AS value", "value must be a"),
            no("'v' AS value, 1.5 AS key", "key must be a"),
        ),
    ),
    *option(
        "column and option `topic`",
        same(
            "the column",
            Topic(name="mine2"),
            Write({"topic": None}, INTO_MINE2, select="'k' AS key, 'v' AS value, '$mine2' AS topic"),
        ),
        same(
            "the option beats the column",
            Topic(name="mine2"),
            Write({"topic": "$mine2"}, INTO_MINE2, select="'k' AS key, 'v' AS value, '$mine' AS topic"),
        ),
        same(
            "neither; the column is null, or a number: an error",
            no("'v' AS value", "topic option required when no 'topic' attribute is present", topic=None),
            no("'v' AS value, CAST(NULL AS STRING) AS topic", "null topic", topic=None),
            no("'v' AS value, 1 AS topic", "topic must be a", topic=None),
        ),
        different(
            "a topic that does not exist, where brokers make topics by themselves (`auto.create.topics.enable`)",
            "The sink makes a topic only where `createTopic` says how: a typo would make one too. Elsewhere both fail.",
            Write({"topic": "$mine2", "kafka.max.block.ms": "15000"}, theirs=INTO_MINE2, ours=NO_TOPIC),
        ),
        bad_value(
            "a name that no topic can have: an error",
            no("'v' AS value", "InvalidTopicException", "INVALID_TOPIC_EXCEPTION", topic="no/topic"),
        ),
    ),
    *option(
        "column `partition`",
        same(
            "beats the key; null leaves the row to its key",
            *write(
                rows("('k', 'a', 0), ('k', 'b', 2), ('k', 'c', NULL)", "key, value, partition"),
                (0, b"k", b"a", None),
                (2, b"k", b"b", None),
                (2, b"k", b"c", None),
                partitions=3,
            ),
        ),
        same(
            "beyond the topic's, below 0, or not an int: an error",
            Topic(),
            no("'v' AS value, 7 AS partition", "with partition count 1 is not present in metadata", **SOON),
            no("'v' AS value, -1 AS partition", "Invalid partition: -1", "has no partition -1", **SOON),
            no("'v' AS value, '0' AS partition", "partition must be a"),
            no("'v' AS value, 0L AS partition", "partition must be a"),
        ),
    ),
    *option(
        "column `headers`",
        same(
            "in their order, with doubles and nulls; null and empty are none",
            *write(
                rows(
                    f"('1', {HEADERS}), ('2', NULL), ('3', array())",
                    "value, headers",
                    "value, CAST(headers AS array<struct<key:string,value:binary>>) AS headers",
                ),
                (0, None, b"1", [("h", b"1"), ("h", None)]),
                (0, None, b"2", None),
                (0, None, b"3", None),
            ),
        ),
        same(
            "another type: an error", Topic(), no("'v' AS value, map('h', binary('1')) AS headers", "headers must be a")
        ),
    ),
    *option(
        "column `timestamp`",
        better(
            "a time",
            "It is the record's time (SPARK-50160). The JVM connector ignores it and takes the time of the write.",
            Topic(),
            Write(
                {},
                theirs=reads(times=[None]),
                ours=reads(times=[T0]),
                select=f"'v' AS value, timestamp_millis({T0}) AS timestamp",
            ),
        ),
    ),
    *option(
        "options of the write",
        same(
            "any case; what nobody knows has no effect, nor has an option for reads",
            *write(
                "'k' AS key, 'v' AS value",
                (0, b"k", b"v", None),
                includeHeaders="true",
                nobodyKnows="x",
                **{"KAFKA.linger.MS": "1", "kafka.nobody.knows": "x"},
            ),
        ),
        bad_value(
            "`kafka.bootstrap.servers` is missing: an error",
            no("'v' AS value", "bootstrap", **{"kafka.bootstrap.servers": None}),
        ),
        same(
            "`kafka.key.serializer`, `kafka.value.serializer`: refused",
            no("'v' AS value", "Kafka option 'key.serializer' is not supported", **{"kafka.key.serializer": "x"}),
            no("'v' AS value", "Kafka option 'value.serializer' is not supported", **{"kafka.value.serializer": "x"}),
        ),
        same(
            "`kafka.acks`: `all`, `1`, `0`",
            Topic(),
            *(Write({"kafka.acks": acks}, reads(number)) for number, acks in enumerate(("all", "1", "0"), 1)),
        ),
        same(
            "`kafka.compression.type`: all five",
            Topic(),
            *(
                Write({"kafka.compression.type": codec}, reads(number))
                for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd"), 1)
            ),
        ),
        bad_value(
            "`kafka.acks`, `kafka.compression.type`, `kafka.max.block.ms`, `kafka.batch.size`: a bad value: an error",
            Topic(),
            *(
                no("'v' AS value", name.removeprefix("kafka."), **{name: "many"})
                for name in ("kafka.acks", "kafka.compression.type", "kafka.max.block.ms", "kafka.batch.size")
            ),
        ),
        same(
            "`kafka.max.request.size`: a record beyond it: an error",
            Topic(),
            no("repeat('v', 2000) AS value", "max.request.size", **{"kafka.max.request.size": "1000"}),
        ),
        different(
            "`kafka.partitioner.class`",
            "It names a Java class; `partitioner` names a function of yours, with Arrow arrays.",
            Topic(),
            Write(
                {"kafka.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"},
                theirs=ONE,
                ours=fails("partitioner.class"),
            ),
        ),
        different(
            "`kafka.interceptor.classes`",
            "It names Java classes.",
            Topic(),
            Write({"kafka.interceptor.classes": ""}, theirs=ONE, ours=fails("interceptor.classes")),
        ),
        same(
            "`kafka.transactional.id`: an error",
            Topic(),
            no("'v' AS value", "initTransactions", "transactional.id", **{"kafka.transactional.id": "$run-t"}),
        ),
    ),
    *option(
        "SQL",
        better(
            "`CREATE TEMPORARY VIEW v USING ... OPTIONS (...)`, then `INSERT INTO v`",
            "The JVM connector takes no INSERT.",
            Topic(),
            Sql(
                {"subscribe": "$mine"},
                theirs=fails("does not allow insertion"),
                ours=ONE,
                statements=("CREATE TEMPORARY VIEW $it $using", INSERT),
            ),
        ),
        same(
            "`SELECT` from a table `USING kafka OPTIONS (...)`, and `USING` a format of ours that `register` named",
            Sql(
                {"subscribe": "$numbers"},
                reads(113),
                statements=("CREATE TABLE $it $using", "SELECT * FROM $it"),
                registered=True,
            ),
        ),
        better(
            "`INSERT INTO` a table `USING kafka OPTIONS (...)`, and `USING` a format of ours that `register` named",
            "The JVM connector takes no INSERT.",
            Topic(),
            Sql(
                {"subscribe": "$mine"},
                theirs=fails("does not allow insertion"),
                ours=ONE,
                statements=("CREATE TABLE $it $using", INSERT),
                registered=True,
            ),
        ),
        different(
            "`SELECT` from a table `USING pykafka OPTIONS (...)`",
            f"{NO_OPTIONS}. The error says so.",
            Sql(
                {"subscribe": "$other"},
                theirs=reads(5),
                ours=fails(NO_OPTIONS),
                statements=("CREATE TABLE $it $using", "SELECT * FROM $it"),
            ),
        ),
    ),
)
