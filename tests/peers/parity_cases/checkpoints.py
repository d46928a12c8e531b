"""One checkpoint, two connectors: each case is run from `kafka` to `pykafka` and from `pykafka` to `kafka`."""

from __future__ import annotations

from parity import AddPartitions, Change, Produce, Stream, Topic, fails, option, reads, same

from parity_cases.shared import MINE

TWO = {**MINE, "subscribe": "$mine,$mine2", "includeHeaders": "true"}
BY_THREE = {**MINE, "maxOffsetsPerTrigger": "3"}
DIES = "the sink of this case dies here"

CASES = option(
    "a checkpoint",
    same(
        "goes on under the other connector and back: each row once, with several topics, `includeHeaders`, limits, and "
        "partitions added in between",
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
        "with state: keys that were seen under the one are known to the other",
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
