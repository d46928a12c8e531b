"""Cases of rows: their columns, the records that a read sees, and the moment at which a batch read looks."""

from __future__ import annotations

from parity import T0, Again, Batch, DeleteRecords, Produce, Stream, Topic, bad_value, option, reads, same

from parity_cases.shared import EARLIEST, after, refused

TRANSACTIONS = {"subscribe": "$transactions"}
READ_COMMITTED = {"kafka.isolation.level": "read_committed"}

CASES = (
    *option(
        "`includeHeaders`",
        same("false (default): no such column", Batch({"subscribe": "$headers"}, reads(6))),
        same(
            "true: null where a record has none; duplicates and null values as they are",
            Batch({"subscribe": "$headers", "includeHeaders": "true"}, reads(6)),
            Stream({"subscribe": "$headers", "includeHeaders": "TRUE", **EARLIEST}, reads(6)),
        ),
        bad_value("not a boolean: an error", Batch({"includeHeaders": "some"}, **refused("some", "includeHeaders"))),
    ),
    *option(
        "`kafka.isolation.level`",
        same(
            "`read_uncommitted` (default): aborted and open transactions too",
            Batch(TRANSACTIONS, reads(offsets={"transactions-0": [0, 1, 2, 4, 5, 6, 8, 9, 11, 12]})),
            Stream(TRANSACTIONS | EARLIEST, reads(10, ends=[{"transactions": {"0": 13}}])),
        ),
        same(
            "`read_committed`: without them, up to the last stable offset; a limit counts their offsets",
            Batch(TRANSACTIONS | READ_COMMITTED, reads(offsets={"transactions-0": [0, 1, 2, 8, 9]})),
            Stream(
                {**TRANSACTIONS, **EARLIEST, **READ_COMMITTED, "maxOffsetsPerTrigger": "3"},
                reads(5, batches=[3, 1, 1], ends=[{"transactions": {"0": 11}}]),
            ),
        ),
        bad_value(
            "another word: an error",
            Batch({"kafka.isolation.level": "read_all"}, **refused("isolation.level", "kafka.isolation.level")),
        ),
    ),
    *option(
        "a record without a timestamp",
        same(
            "-1 ms, a time before 1970, among records that have one",
            Topic(1),
            Produce(2, timestamp=-1),
            Produce(1),
            Batch({"subscribe": "$mine"}, reads(4, times=[T0, -1, -1, T0 + 3000])),
            Stream({"subscribe": "$mine", **EARLIEST}, reads(4, times=[T0, -1, -1, T0 + 3000])),
        ),
    ),
    *option(
        "a batch DataFrame, run again",
        same(
            "sees what came since",
            Topic(4),
            Batch({"subscribe": "$mine"}, reads(4)),
            Produce(3),
            Again(sees=reads(7)),
        ),
        same(
            "and may find records aged out",
            Topic(8),
            Batch({"subscribe": "$mine"}, reads(8)),
            DeleteRecords({0: 5}),
            Again(sees=reads(offsets={"mine-0": range(5, 8)})),
        ),
        same(
            "timestamps are looked up once",
            Topic(4),
            Batch(
                {"subscribe": "$mine", "startingTimestamp": after(1), "endingTimestamp": after(3)},
                reads(offsets={"mine-0": [1, 2]}),
            ),
            DeleteRecords({0: 1}),
            Again(sees=reads(offsets={"mine-0": [1, 2]})),
        ),
    ),
    *option(
        "an empty topic",
        same(
            "no rows, no micro-batch",
            Batch({"subscribe": "$empty"}, reads(0)),
            Stream({"subscribe": "$empty"}, reads(0)),
        ),
    ),
)
