"""One checkpoint, two connectors: each case is run from `kafka` to `pykafka` and from `pykafka` to `kafka`."""

from __future__ import annotations

from parity import AddPartitions, Change, DeleteRecords, Produce, Stream, Topic, different, fails, option, reads, same

from parity_cases.shared import GO_ON, LOST, MINE, after, each

TWO = {**MINE, "subscribe": "$mine,$mine2", "includeHeaders": "true"}
BY_THREE = {**MINE, "maxOffsetsPerTrigger": "3"}
DIES = "the sink of this case dies here"
FROM_LATEST = {"subscribe": "$mine"}
FROM_1 = {"subscribe": "$mine", "startingOffsets": each(1, topic="$mine")}
FROM_4 = {"subscribe": "$mine", "startingOffsets": each(4, topic="$mine")}

MOVED = option(
    "a checkpoint",
    same(
        "goes on under the other connector and back, each row once, also with several topics, `includeHeaders`, limits "
        "and added partitions",
        Topic(4, partitions=2),
        Topic(3, name="mine2"),
        Stream({**TWO, "maxOffsetsPerTrigger": "6"}, reads(11, batches=[5, 6])),
        Change(),
        Produce({0: 2}),
        AddPartitions(2, name="mine2"),
        Produce({1: 3}, name="mine2"),
        Stream(TWO, reads(offsets={"mine-0": [4, 5], "mine2-1": range(3)})),
        Change(),
        Produce({1: 1}),
        AddPartitions(3),
        Produce({2: 2}),
        Stream(TWO, reads(offsets={"mine-1": [4], "mine-2": [0, 1]})),
        Change(),
        Stream(TWO, reads(0, ends=[{"mine": {"0": 6, "1": 5, "2": 2}, "mine2": {"0": 3, "1": 3}}])),
    ),
    same(
        "a micro-batch that had failed is done again by the other, with the same rows",
        Topic(8),
        Stream(BY_THREE, fails(DIES, offsets={"mine-0": range(3)}), dies_in=1),
        Produce(4),
        Change(),
        Stream({**MINE, "maxOffsetsPerTrigger": "100"}, reads(offsets={"mine-0": range(3, 12)}, batches=[3, 6])),
        Change(),
        Stream(MINE, reads(0, ends=[{"mine": {"0": 12}}])),
    ),
    same(
        "also the first one",
        Topic(8),
        Stream(BY_THREE, fails(DIES, rows=0), dies_in=0),
        Change(),
        Stream(MINE, reads(offsets={"mine-0": range(8)}, batches=[3, 5])),
    ),
    same(
        "with its state",
        Topic({0: 4}, partitions=2),
        Stream(MINE, reads(offsets={"mine-0": range(4)}), shape="distinct"),
        Change(),
        Produce({1: 6}),
        Stream(MINE, reads(offsets={"mine-1": [4, 5]}), shape="distinct"),
    ),
    same(
        "of a query that began at `latest` and has had no rows yet",
        Topic(4),
        Stream({"subscribe": "$mine"}, reads(0)),
        Change(),
        Produce(3),
        Stream({"subscribe": "$mine"}, reads(offsets={"mine-0": range(4, 7)})),
    ),
)

FIRST_BATCH = option(
    "a first micro-batch that had failed",
    same(
        "is done again from where it was planned, whatever `startingOffsets` says by now",
        Topic(8),
        Stream(BY_THREE, fails(DIES, rows=0), dies_in=0),
        Produce(2),
        Stream(FROM_LATEST, reads(offsets={"mine-0": range(10)}, batches=[3, 7])),
    ),
    same(
        "from `latest`",
        Topic(4),
        Stream(FROM_LATEST, fails(DIES, rows=0), dies_in=0),
        Produce(3),
        Stream(FROM_LATEST, reads(offsets={"mine-0": range(4, 7)})),
    ),
    same(
        "from a time",
        Topic(8),
        Stream({"subscribe": "$mine", "startingTimestamp": after(2)}, fails(DIES, rows=0), dies_in=0),
        Stream({"subscribe": "$mine", "startingTimestamp": after(7)}, reads(offsets={"mine-0": range(2, 8)})),
    ),
    same(
        "a partition that `startingOffsets` does not name was added: belongs to the next",
        Topic(4),
        Stream(FROM_1, fails(DIES, rows=0), dies_in=0),
        AddPartitions(2),
        Produce({1: 2}),
        Stream(FROM_1, reads(offsets={"mine-0": [1, 2, 3], "mine-1": [0, 1]}, batches=[3, 2])),
    ),
    same(
        "records of it aged out: stops; false: goes on behind the gap",
        Topic(8),
        Stream(MINE, fails(DIES, rows=0), dies_in=0),
        DeleteRecords({0: 5}),
        Stream(MINE, fails(LOST)),
        Stream(GO_ON, reads(offsets={"mine-0": range(5, 8)})),
    ),
    same(
        "is done by the other connector from `startingOffsets` as offsets",
        Topic(4),
        Stream(FROM_LATEST, fails(DIES, rows=0), dies_in=0),
        Produce(3),
        Change(),
        Stream(FROM_4, reads(offsets={"mine-0": range(4, 7)})),
    ),
    different(
        "records of it aged out, and the other connector is to do it again",
        "Neither finds the start that the other kept. pykafka stops, and names the file with it; the JVM connector "
        "begins where the log begins now, without a word.",
        Topic(8),
        Stream(MINE, theirs=fails(DIES, rows=0), ours=fails(DIES, rows=0), dies_in=0),
        DeleteRecords({0: 5}),
        Change(),
        Stream(MINE, theirs=fails("sources/0/0"), ours=reads(offsets={"mine-0": range(5, 8)})),
    ),
)

CASES = (*MOVED, *FIRST_BATCH)
