"""Records that are gone, and partitions that come."""

from __future__ import annotations

from parity import (
    AddPartitions,
    Batch,
    DeleteRecords,
    DeleteTopic,
    Produce,
    Running,
    Stream,
    Topic,
    bad_value,
    better,
    fails,
    option,
    reads,
    same,
)

from parity_cases.shared import GO_ON, LOST, MINE, each, refused

BOTH_OF_MINE = {**MINE, "subscribe": None, "subscribePattern": "$mine"}
AGED_FROM_0 = {"subscribe": "$aged", "startingOffsets": each(0, topic="$aged")}
FROM_50 = {"startingOffsets": each(50, topic="$mine")}
FALSE = {"failOnDataLoss": "false"}

CASES = (
    *option(
        "`failOnDataLoss`",
        same(
            "records aged out before they were read: stops; false: goes on behind the gap",
            Topic(8),
            Stream(MINE, reads(8)),
            Produce(8),
            DeleteRecords({0: 12}),
            Stream(MINE, fails(LOST)),
            Stream(GO_ON, reads(offsets={"mine-0": range(12, 16)}, ends=[{"mine": {"0": 16}}])),
        ),
        same(
            "a start before the log's: stops; false: from the log's start",
            Stream(AGED_FROM_0, fails(LOST)),
            Stream(AGED_FROM_0 | FALSE, reads(offsets={"aged-0": range(4, 8)})),
            Batch(AGED_FROM_0, fails(LOST)),
            Batch(AGED_FROM_0 | FALSE, reads(offsets={"aged-0": range(4, 8)})),
            Batch({"subscribe": "$aged"}, reads(offsets={"aged-0": range(4, 8)})),
        ),
        same(
            "a start beyond the log's end: stops; false: from the log's end",
            Topic(8),
            Stream(MINE | FROM_50, fails(LOST)),
            Stream(GO_ON | FROM_50, reads(0)),
            Produce(2),
            Stream(GO_ON | FROM_50, reads(offsets={"mine-0": [8, 9]})),
        ),
        bad_value("not a boolean: an error", Batch({"failOnDataLoss": "maybe"}, **refused("maybe", "failOnDataLoss"))),
        better(
            "a topic was recreated, with fewer records",
            "Both stop. With false the new topic is read from its start; the JVM connector goes on from its end, so "
            "what it held is never read.",
            Topic(8),
            Stream(MINE, theirs=reads(8), ours=reads(8)),
            DeleteTopic(),
            Topic(3),
            Stream(MINE, theirs=fails(LOST), ours=fails(LOST)),
            Stream(GO_ON, theirs=reads(0), ours=reads(offsets={"mine-0": range(3)})),
        ),
        better(
            "a topic was recreated, with more records",
            "Topic ids show that it is another topic, and the query stops. The JVM connector reads on in the middle of "
            "the new one, without a word.",
            Topic(4),
            Stream(MINE, theirs=reads(4), ours=reads(4)),
            DeleteTopic(),
            Topic(8),
            Stream(MINE, theirs=reads(offsets={"mine-0": range(4, 8)}), ours=fails(LOST)),
            Stream(GO_ON, theirs=reads(0), ours=reads(offsets={"mine-0": range(8)})),
        ),
    ),
    *option(
        "deleted topics",
        same(
            "one of a pattern: stops; `failOnDataLoss` false: goes on without it",
            Topic(4),
            Topic(4, name="mine2"),
            Stream(BOTH_OF_MINE, reads(8)),
            DeleteTopic("mine2"),
            Produce(2),
            Stream(BOTH_OF_MINE, fails("have been deleted")),
            Stream(BOTH_OF_MINE | FALSE, reads(offsets={"mine-0": [4, 5]}, ends=[{"mine": {"0": 6}}])),
        ),
        same(
            "all of a pattern: no micro-batch, no error",
            Topic(4),
            Stream(BOTH_OF_MINE, reads(4)),
            DeleteTopic(),
            Stream(BOTH_OF_MINE, reads(0, ends=[{"mine": {"0": 4}}])),
        ),
        same(
            "the subscribed one: an error",
            Topic(4),
            Stream(MINE, reads(4)),
            DeleteTopic(),
            Stream(GO_ON, fails("This server does not host this topic-partition")),
        ),
    ),
    *option(
        "new partitions",
        same(
            "of a running query are read from their start",
            Topic(4),
            Running(
                MINE,
                reads(10, ends=[{"mine": {"0": 4, "1": 4, "2": 2}}]),
                during=(AddPartitions(3), Produce({1: 4, 2: 2})),
            ),
        ),
        same(
            "found at a restart are read from their start, though the query began at `latest`",
            Topic(4),
            Stream({"subscribe": "$mine"}, reads(0)),
            Produce(1),
            Stream({"subscribe": "$mine"}, reads(1)),
            AddPartitions(2),
            Produce({0: 1, 1: 3}),
            Stream({"subscribe": "$mine"}, reads(offsets={"mine-0": [5], "mine-1": range(3)})),
        ),
        same(
            "one that does not start at 0: stops; `failOnDataLoss` false: from where it starts",
            Topic(4),
            Stream(MINE, reads(4)),
            AddPartitions(2),
            Produce({1: 8}),
            DeleteRecords({1: 5}),
            Stream(MINE, fails("Added partition mine-1 starts from 5 instead of 0")),
            Stream(GO_ON, reads(offsets={"mine-1": range(5, 8)}, ends=[{"mine": {"0": 4, "1": 8}}])),
        ),
    ),
)
