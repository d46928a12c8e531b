"""Cases of consumer groups, of patience, and of options for Kafka's client."""

from __future__ import annotations

from parity import Batch, Committed, Stream, Topic, bad_value, better, different, fails, option, reads, same

from parity_cases.shared import EARLIEST, MINE, refused

DESERIALIZER = "org.apache.kafka.common.serialization.StringDeserializer"
REFUSED = {
    "auto.offset.reset": "earliest",
    "key.deserializer": DESERIALIZER,
    "value.deserializer": DESERIALIZER,
    "enable.auto.commit": "true",
    "interceptor.classes": "com.example.Interceptor",
}

CASES = (
    *option(
        "`kafka.group.id`",
        same("in a batch", Batch({"kafka.group.id": "$run-group"}, reads(113))),
        better(
            "what the group has committed when a query has read all",
            "Its offsets, so lag monitors see the query (`commitOffsets` turns that off). The JVM connector commits "
            "nothing.",
            Topic(4),
            Stream({**MINE, "kafka.group.id": "$group"}, theirs=reads(4), ours=reads(4)),
            Committed(group="$group", theirs=reads(ends=[]), ours=reads(ends=[{"mine": {"0": 4}}])),
        ),
    ),
    *option(
        "`groupIdPrefix`",
        same("in a stream", Stream({**EARLIEST, "groupIdPrefix": "$run"}, reads(113))),
    ),
    *option(
        "`fetchOffset.numRetries`, `fetchOffset.retryIntervalMs`",
        same(
            "2, 1",
            Batch({"fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "1"}, reads(113)),
        ),
        bad_value(
            "not numbers: an error",
            Stream({"fetchOffset.numRetries": "few"}, **refused("few", "fetchOffset.numRetries")),
            Stream({"fetchOffset.retryIntervalMs": "soon"}, **refused("soon", "fetchOffset.retryIntervalMs")),
        ),
    ),
    *option(
        "`kafkaConsumer.pollTimeoutMs`",
        same("10000", Batch({"kafkaConsumer.pollTimeoutMs": "10000"}, reads(113))),
        bad_value(
            "not a number: an error",
            Batch({"kafkaConsumer.pollTimeoutMs": "long"}, **refused("long", "kafkaConsumer.pollTimeoutMs")),
        ),
    ),
    *option(
        "other `kafka.*`",
        *(
            same(
                f"`{name}`: refused",
                Batch({f"kafka.{name}": value}, fails(f"Kafka option '{name}' is not supported")),
            )
            for name, value in REFUSED.items()
        ),
    ),
    *option(
        "the source's metrics in a query's progress",
        different(
            "their names",
            "Spark's Python API has none: [lag.md](lag.md#in-prometheus) has the same numbers by name.",
            Stream(
                EARLIEST,
                theirs=reads(
                    113, metrics=["avgOffsetsBehindLatest", "maxOffsetsBehindLatest", "minOffsetsBehindLatest"]
                ),
                ours=reads(113, metrics=[]),
            ),
        ),
    ),
)
