"""Cases of the ranges that a task reads."""

from __future__ import annotations

from parity import Batch, Stream, bad_value, better, different, option, reads, same

from parity_cases.shared import EARLIEST, refused

WHOLE = ["numbers-0 0..100", "numbers-1 0..10", "numbers-2 0..0"]
IN_SIX = ["numbers-0 0..24", "numbers-0 25..49", "numbers-0 50..74", "numbers-0 75..100", *WHOLE[1:]]
BY_40 = ["numbers-0 0..32", "numbers-0 33..66", "numbers-0 67..100", *WHOLE[1:]]
BY_40_IN_EIGHT = [
    "numbers-0 0..15",
    "numbers-0 16..32",
    "numbers-0 33..49",
    "numbers-0 50..66",
    "numbers-0 67..83",
    "numbers-0 84..100",
    *WHOLE[1:],
]

CASES = (
    *option(
        "`minPartitions`",
        same(
            "6 of 3: the largest is cut",
            Batch({"minPartitions": "6"}, reads(113, pieces=IN_SIX)),
            Stream({**EARLIEST, "minPartitions": "6"}, reads(113, pieces=IN_SIX)),
        ),
        same("2 of 3: a task for each", Batch({"minPartitions": "2"}, reads(113, pieces=WHOLE))),
        bad_value(
            "0, or not a whole number: an error",
            Batch({"minPartitions": "0"}, **refused("minPartitions must be positive", "minPartitions")),
            Batch({"minPartitions": "1.0"}, **refused("1.0", "minPartitions")),
        ),
    ),
    *option(
        "`maxRecordsPerPartition`",
        same(
            "40 of 101, 11, 1: the first is cut in three",
            Stream({**EARLIEST, "maxRecordsPerPartition": "40"}, reads(113, pieces=BY_40)),
        ),
        same(
            "and `minPartitions` of 8",
            Stream(
                {**EARLIEST, "maxRecordsPerPartition": "40", "minPartitions": "8"}, reads(113, pieces=BY_40_IN_EIGHT)
            ),
        ),
        bad_value(
            "0, or not a whole number: an error",
            Batch(
                {"maxRecordsPerPartition": "0"},
                **refused("maxrecordsperpartition must be positive", "maxRecordsPerPartition"),
            ),
            Batch({"maxRecordsPerPartition": "1.0"}, **refused("1.0", "maxRecordsPerPartition")),
        ),
        better(
            "40 in a batch from `earliest` to `latest`",
            "Cuts there too; with the JVM connector such a range counts as one record.",
            Batch({"maxRecordsPerPartition": "40"}, theirs=reads(113, pieces=WHOLE), ours=reads(113, pieces=BY_40)),
        ),
    ),
    *option(
        "neither",
        different(
            "small ranges of a micro-batch",
            "They share a task, because a Python task costs some 10 ms. `minRecordsPerPartition=1` turns that off.",
            Stream(EARLIEST, theirs=reads(113, pieces=WHOLE), ours=reads(113, pieces=[" + ".join(WHOLE)])),
        ),
    ),
)
