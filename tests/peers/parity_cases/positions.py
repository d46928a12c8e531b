"""Cases of the start and the end of a read."""

from __future__ import annotations

from parity import Batch, Produce, Running, Stream, Topic, bad_value, better, fails, option, reads, same

from parity_cases.shared import ALL, EARLIEST, MINE, after, at, each, from_each, refused

OFFSETS_JSON = 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
TIMES_JSON = 'Expected e.g. {"topicA": {"0": 123456789'
BEYOND = {"endingOffsets": each(200, 11, 1), "kafkaConsumer.pollTimeoutMs": "1000"}
TOLERANT = {"failOnDataLoss": "false"}
NO_END = "ending offset not valid in streaming queries"
NO_MATCH = "No offset matched from request of topic-partition numbers-2"
COMMITTED = {"kafka.group.id": "$run-group", "commitOffsets": "false"}  # at 90 and 5 of the first two partitions

CASES = (
    *option(
        "`startingOffsets`",
        same(
            "a stream starts at `latest` by default",
            Topic(4),
            Stream({"subscribe": "$mine"}, reads(0)),
            Produce(3),
            Stream({"subscribe": "$mine"}, reads(offsets={"mine-0": range(4, 7)}, ends=[{"mine": {"0": 7}}])),
        ),
        same(
            "offsets for each partition, with -1 and -2",
            Batch({"startingOffsets": each(90, -2, 1)}, reads(offsets=from_each(90, 0, 1))),
            Stream({"startingOffsets": each(90, -1, -2)}, reads(offsets=from_each(90, 11, 0), ends=ALL)),
        ),
        same(
            "has no effect on a restart, which goes on from its checkpoint",
            Topic(4),
            Stream(MINE, reads(4)),
            Produce(2),
            Stream({**MINE, "startingOffsets": each(0, topic="$mine")}, reads(offsets={"mine-0": [4, 5]})),
        ),
        same(
            "not all partitions named: an error",
            Stream({"startingOffsets": each(0, 0)}, fails("you must specify all TopicPartitions")),
            Batch(
                {"startingOffsets": each(0, 0)},
                **refused("don't match what are assigned", "you must specify all TopicPartitions"),
            ),
        ),
        same(
            "`latest`, or -1, in a batch: an error",
            Batch({"startingOffsets": "Latest"}, fails("starting offset can't be latest for batch queries on Kafka")),
            Batch({"startingOffsets": each(0, -1, 0)}, fails("can't be latest")),
        ),
        bad_value(
            "bad JSON: an error",
            Batch({"startingOffsets": '{"$numbers":{"0":"x"}}'}, fails(OFFSETS_JSON)),
            Stream({"startingOffsets": "first"}, fails(OFFSETS_JSON)),
        ),
        better(
            '`{"topic":"earliest"}`',
            "One word for all partitions of a topic (SPARK-58774).",
            Stream(
                {"startingOffsets": '{"$numbers":"earliest"}'}, theirs=fails(OFFSETS_JSON), ours=reads(113, ends=ALL)
            ),
        ),
        better(
            "`committed`",
            "Starts where a consumer group stands; `committed:earliest` and `committed:latest` say what to do where it "
            "stands nowhere.",
            Batch(
                {"startingOffsets": "committed:earliest", **COMMITTED},
                theirs=fails(OFFSETS_JSON),
                ours=reads(offsets=from_each(90, 5, 0)),
            ),
            Stream(
                {"startingOffsets": "committed:latest", **COMMITTED},
                theirs=fails(OFFSETS_JSON),
                ours=reads(offsets=from_each(90, 5, 1)),
            ),
            Batch(
                {"startingOffsets": "committed", **COMMITTED},
                theirs=fails(OFFSETS_JSON),
                ours=fails("numbers-2"),
            ),
        ),
    ),
    *option(
        "`endingOffsets`",
        same(
            "offsets for each partition, with -1",
            Batch({"endingOffsets": each(50, 5, -1)}, reads(offsets=from_each(0, 0, 0, to=(50, 5, 1)))),
            Batch(
                {"startingOffsets": each(40, 5, -2), "endingOffsets": each(50, 5, -1)},
                reads(offsets=from_each(40, 5, 0, to=(50, 5, 1))),
            ),
        ),
        same(
            "`earliest`, or -2: an error",
            Batch({"endingOffsets": "earliest"}, fails("ending offset can't be earliest for batch queries on Kafka")),
            Batch({"endingOffsets": each(5, -2, 1)}, fails("can't be earliest")),
        ),
        bad_value("bad JSON: an error", Batch({"endingOffsets": "last"}, fails(OFFSETS_JSON))),
        same(
            "beyond the log's end: an error",
            Batch(BEYOND, fails("Could not read records in offset [101, 200)")),
        ),
        same("the same, with `failOnDataLoss` false: what there is", Batch(BEYOND | TOLERANT, reads(113))),
        same(
            "a start beyond it, found when it is looked up: an error",
            Batch({"startingOffsets": each(200, 0, 0)}, fails("numbers")),
        ),
        same(
            "before the start, or of other partitions than the start: an error",
            Batch(
                {"startingOffsets": each(1, 0, 0), "endingOffsets": each(0, 0, 1)},
                fails("The specified start offset 1 is greater than the end offset 0 for topic numbers partition 0"),
            ),
            Batch(
                {"startingOffsets": each(1, 0, 0), "endingOffsets": each(5, 5)},
                fails("should have the same topic-partitions"),
            ),
        ),
        same(
            "in a stream that runs on: an error",
            Running({**EARLIEST, "endingOffsets": each(50, 5, 1)}, fails(NO_END)),
        ),
        better(
            "in a stream with AvailableNow",
            "The query stops there.",
            Stream(
                {**EARLIEST, "endingOffsets": each(50, 5, 1)},
                theirs=fails(NO_END),
                ours=reads(offsets=from_each(0, 0, 0, to=(50, 5, 1))),
            ),
        ),
    ),
    *option(
        "`startingTimestamp`",
        same(
            "one time for all partitions",
            Batch({"startingTimestamp": after(-1)}, reads(113)),
        ),
        same(
            "beats `startingOffsetsByTimestamp`, which beats `startingOffsets`",
            Batch(
                {
                    "startingTimestamp": after(0),
                    "startingOffsetsByTimestamp": at(5, 0, 0),
                    "startingOffsets": each(100, 10, 0),
                },
                reads(113),
            ),
            Stream(
                {"startingOffsetsByTimestamp": at(50, 0, 0), "startingOffsets": "earliest"},
                reads(offsets=from_each(50, 0, 0), ends=ALL),
            ),
        ),
        bad_value(
            "not a number: an error",
            Batch({"startingTimestamp": "noon"}, fails("Expected a single long value")),
        ),
    ),
    *option(
        "`startingOffsetsByTimestamp`",
        same(
            "the first record that is not older, for each partition",
            Batch({"startingOffsetsByTimestamp": at(49.001, 5, 0)}, reads(offsets=from_each(50, 5, 0))),
        ),
        same(
            "-1 and -2 are `latest` and `earliest`",
            Stream({"startingOffsetsByTimestamp": each(-1, -2, -2)}, reads(offsets=from_each(101, 0, 0), ends=ALL)),
        ),
        bad_value(
            "not all partitions named, or bad JSON: an error",
            Stream(
                {"startingOffsetsByTimestamp": at(0, 0)},
                **refused("don't match what are assigned", "must specify all TopicPartitions"),
            ),
            Batch({"startingOffsetsByTimestamp": "noon"}, fails(TIMES_JSON)),
        ),
    ),
    *option(
        "`startingOffsetsByTimestampStrategy`",
        same(
            "`error` (default) where no record is that new",
            Batch({"startingTimestamp": after(5)}, fails(NO_MATCH)),
            Stream({"startingTimestamp": after(5), "startingOffsetsByTimestampStrategy": "error"}, fails(NO_MATCH)),
        ),
        same(
            "`latest`",
            Batch(
                {"startingTimestamp": after(5), "startingOffsetsByTimestampStrategy": "latest"},
                reads(offsets=from_each(5, 5, 1)),
            ),
            Stream(
                {"startingTimestamp": after(5), "startingOffsetsByTimestampStrategy": "LATEST"},
                reads(offsets=from_each(5, 5, 1), ends=ALL),
            ),
        ),
        bad_value(
            "another word: an error",
            Batch(
                {"startingTimestamp": after(0), "startingOffsetsByTimestampStrategy": "first"},
                **refused("No value found for 'FIRST'", "startingOffsetsByTimestampStrategy"),
            ),
        ),
    ),
    *option(
        "`endingTimestamp`",
        same(
            "exclusive; `latest` where no record is that new",
            Batch({"endingTimestamp": after(5)}, reads(offsets=from_each(0, 0, 0, to=(5, 5, 1)))),
            Batch({"endingTimestamp": after(10**6)}, reads(113)),
        ),
        same(
            "beats `endingOffsetsByTimestamp`, which beats `endingOffsets`",
            Batch(
                {
                    "endingTimestamp": after(5),
                    "endingOffsetsByTimestamp": at(0, 0, 0),
                    "endingOffsets": each(2, 2, 1),
                },
                reads(offsets=from_each(0, 0, 0, to=(5, 5, 1))),
            ),
            Batch(
                {"endingOffsetsByTimestamp": at(3, 0, 0.009), "endingOffsets": each(2, 2, 1)},
                reads(offsets=from_each(0, 0, 0, to=(3, 0, 1))),
            ),
        ),
        same(
            "before the start, with records between: an error",
            Batch(
                {
                    "startingTimestamp": after(2),
                    "startingOffsetsByTimestampStrategy": "latest",
                    "endingTimestamp": after(1),
                },
                fails("is greater than the"),
            ),
        ),
        better(
            "before the start, with no record between",
            "An error all the same, before any broker is asked.",
            Batch(
                {"startingTimestamp": after(0), "endingTimestamp": after(-1)},
                theirs=reads(0),
                ours=fails("is greater than the end"),
            ),
        ),
        better(
            "in a stream with AvailableNow",
            "The query stops there; the JVM connector reads on without a word.",
            Stream(
                {**EARLIEST, "endingTimestamp": after(5)},
                theirs=reads(113),
                ours=reads(offsets=from_each(0, 0, 0, to=(5, 5, 1))),
            ),
        ),
    ),
    *option(
        "`endingOffsetsByTimestamp`",
        bad_value(
            "before the start, or bad JSON: an error",
            Batch(
                {"startingOffsetsByTimestamp": at(5, 0, 0), "endingOffsetsByTimestamp": at(1, 0, 0)},
                fails(f"The specified start timestamp {after(5)} is greater than the end timestamp {after(1)}"),
            ),
            Batch({"endingOffsetsByTimestamp": "noon"}, fails(TIMES_JSON)),
        ),
        better(
            "in a stream with AvailableNow",
            "The query stops there.",
            Stream(
                {**EARLIEST, "endingOffsetsByTimestamp": at(50, 5, 0)},
                theirs=fails("ending timestamp not valid in streaming queries"),
                ours=reads(offsets=from_each(0, 0, 0, to=(50, 5, 0))),
            ),
        ),
    ),
)
