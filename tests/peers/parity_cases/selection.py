"""Cases of the choice of topics and partitions."""

from __future__ import annotations

from parity import Batch, Stream, bad_value, better, fails, option, reads, same

from parity_cases.shared import ALL, EARLIEST, each

NONE = {"subscribe": None}

CASES = (
    *option(
        "`subscribe`",
        same("one topic", Batch({}, reads(113)), Stream(EARLIEST, reads(113, ends=ALL))),
        same("two topics, with spaces and empty names", Batch({"subscribe": "$numbers, ,$other,"}, reads(118))),
        bad_value("empty: an error", Batch({"subscribe": " , "}, fails("No topics to subscribe to"))),
        same(
            "a topic that does not exist: an error",
            Batch({"subscribe": "$run-none"}, fails("This server does not host this topic-partition")),
        ),
    ),
    *option(
        "`subscribePattern`",
        same(
            "searched in the name, not matched as a whole",
            Batch({"subscribePattern": "$run-num"}, reads(113)),
            Stream({"subscribePattern": "$run-(num|oth)", **EARLIEST}, reads(118)),
        ),
        same("never internal topics", Batch({"subscribePattern": "^$run-other$$|^__"}, reads(5))),
        bad_value("empty: an error", Batch({"subscribePattern": ""}, fails("Pattern to subscribe is empty"))),
    ),
    *option(
        "`assign`",
        same(
            "some partitions",
            Batch({"assign": '{"$numbers":[0,2]}'}, reads(102)),
            Stream({"assign": '{"$numbers":[1,2]}', **EARLIEST}, reads(12, ends=[{"numbers": {"1": 11, "2": 1}}])),
        ),
        same("a partition that does not exist is left out", Batch({"assign": '{"$numbers":[1,7]}'}, reads(11))),
        bad_value(
            "bad JSON, or none: an error",
            Batch({"assign": '{"$numbers":'}, fails('Expected e.g. {"topicA":[0,1],"topicB":[0,1]}')),
            Batch({"assign": "$numbers"}, fails("No topicpartitions to assign")),
        ),
    ),
    *option(
        "the three together",
        same(
            "none, or two of them: an error",
            Batch(NONE, fails("One of the following options must be specified for Kafka source")),
            Batch(
                {"subscribe": "$numbers", "assign": '{"$numbers":[0]}'},
                fails("Only one of the following options can be specified"),
            ),
        ),
    ),
    *option(
        "`kafka.bootstrap.servers`",
        bad_value(
            "missing: an error",
            Batch(
                {"kafka.bootstrap.servers": None},
                fails("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer"),
            ),
        ),
    ),
    *option(
        "names of options",
        same(
            "any case",
            Batch({"SUBSCRIBE": "$numbers", "STARTINGoffsets": "EARLIEST", "EndingOffsets": each(5, 5, 1)}, reads(11)),
        ),
        same(
            "one that nobody knows has no effect (here it is logged, with the nearest name)",
            Batch({"subscribeTo": "x", "kafka.no.such.option": "x"}, reads(113)),
        ),
    ),
    *option(
        "`.schema()`",
        same(
            "refused for a stream",
            Stream(
                EARLIEST,
                fails("Kafka source has a fixed schema and cannot be set with a custom one"),
                schema="value STRING",
            ),
        ),
        better(
            "some of its columns, in an order of the user's",
            "The source makes these columns alone, or those that `columns` names; the JVM connector always makes all.",
            Stream(
                EARLIEST,
                theirs=fails("Kafka source has a fixed schema and cannot be set with a custom one"),
                ours=reads(113),
                schema="offset BIGINT, partition INT, topic STRING, value BINARY, key BINARY, timestampType INT, "
                "timestamp TIMESTAMP",
            ),
        ),
    ),
)
