"""How much a micro-batch takes, and when."""

from __future__ import annotations

from parity import Batch, Produce, Stream, Topic, bad_value, better, fails, option, reads, same

from parity_cases.shared import ALL, EARLIEST, MINE, each, refused

BY_50 = {**EARLIEST, "maxOffsetsPerTrigger": "50"}
BY_40_TO_50 = {**BY_50, "minOffsetsPerTrigger": "40"}
THREES = {**MINE, "maxOffsetsPerTrigger": "3"}

CASES = (
    *option(
        "`maxOffsetsPerTrigger`",
        same(
            "101, 11 and 1 offsets by 50: shared by size",
            Stream(BY_50, reads(113, batches=[49, 49, 15], ends=ALL)),
        ),
        same(
            "1: each partition moves, though that exceeds the limit",
            Stream(
                {"startingOffsets": each(98, 9, 0), "maxOffsetsPerTrigger": "1"},
                reads(6, batches=[3, 2, 1], ends=ALL),
            ),
        ),
        same(
            "2^63-1",
            Stream({**EARLIEST, "maxOffsetsPerTrigger": str(2**63 - 1)}, reads(113, batches=[113], ends=ALL)),
        ),
        same("has no effect on a batch read", Batch({"maxOffsetsPerTrigger": "10"}, reads(113))),
        bad_value(
            "not a number: an error",
            Stream({"maxOffsetsPerTrigger": "many"}, **refused("many", "maxOffsetsPerTrigger")),
        ),
        better(
            "0",
            "Refused; the JVM connector takes it and reads nothing.",
            Stream({**EARLIEST, "maxOffsetsPerTrigger": "0"}, theirs=reads(0), ours=fails("maxOffsetsPerTrigger")),
        ),
    ),
    *option(
        "`minOffsetsPerTrigger`",
        same(
            "the first micro-batch of a run does not wait, less than the minimum does",
            Stream(BY_40_TO_50, reads(98, batches=[49, 49])),
            Stream(BY_40_TO_50, reads(15, batches=[15], ends=ALL)),
        ),
        same(
            "alone",
            Topic(20),
            Stream({**MINE, "minOffsetsPerTrigger": "15"}, reads(20)),
            Produce(5),
            Stream({**MINE, "minOffsetsPerTrigger": "15"}, reads(5)),
        ),
        same(
            "more than `maxOffsetsPerTrigger`: an error",
            Stream(
                {"minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"},
                fails("The value of minOffsetPerTrigger(20) is higher than the maxOffsetsPerTrigger(15)"),
            ),
        ),
    ),
    *option(
        "`maxTriggerDelay`",
        same(
            "is over: what there is goes",
            Stream({**BY_40_TO_50, "maxTriggerDelay": "1ms"}, reads(113, batches=[49, 49, 15], ends=ALL)),
        ),
        bad_value(
            "not a time: an error",
            Stream({**BY_40_TO_50, "maxTriggerDelay": "soon"}, **refused("soon", "maxTriggerDelay")),
        ),
    ),
    *option(
        "`maxBytesPerTrigger`",
        better(
            "1",
            "A limit in bytes as stored in the log, never less than a record; the JVM connector has none.",
            Stream(
                {"startingOffsets": each(98, 9, 0), "maxBytesPerTrigger": "1"},
                theirs=reads(6, batches=[6]),
                ours=reads(6, batches=[1] * 6, ends=ALL),
            ),
        ),
    ),
    *option(
        "triggers",
        same(
            "AvailableNow ends where the logs ended when it first looked",
            Topic(6),
            Stream(THREES, reads(6, batches=[3, 3]), during=(Produce(4),)),
            Stream(THREES, reads(4, batches=[3, 1], ends=[{"mine": {"0": 10}}])),
        ),
        same(
            "Once has no limits",
            Stream(BY_40_TO_50, reads(113, batches=[113], ends=ALL), trigger={"once": True}),
        ),
    ),
    *option(
        "two streams in one query",
        same("a union keeps both limits", Stream(BY_50, reads(118, batches=[54, 49, 15]), shape="union")),
        same("a self-join", Stream({**EARLIEST, "subscribe": "$other"}, reads(5), shape="self-join")),
    ),
)
