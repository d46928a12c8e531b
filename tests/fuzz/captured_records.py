"""Not a suite of its own: `capture.py` runs it for fetched records of all kinds: codecs, transactions, old formats."""

from __future__ import annotations

from typing import Any

from record_wire import CODECS, TRANSACTIONAL, batch, record
from test_every_version_on_a_broker import (  # noqa: F401 - fixtures among them
    Conversation,
    conversation,
    decode_response,
    first_partition,
    topic,
    topic_id,
)

from kafkasource.kafka.protocol.apis import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    PRODUCE,
)

HEADERS = [(b"h", b"v"), ("å".encode(), None), (b"h", b"")]


def test_fetched_records_of_every_kind(conversation: Conversation, topic: str, topic_id: Any) -> None:  # noqa: F811
    records = [record(i, key, value, HEADERS[:i], timestamp_delta=i) for i, (key, value) in enumerate(ROWS)]
    for codec in CODECS:
        produce(conversation, topic, batch(records, codec=codec))
    # The broker makes messages of magic 0 or 1 for who asks in an old version, but not of zstd.
    fetch(conversation, topic, topic_id, range(0, 10), offset=0, isolation=0)

    code = lambda answer: int(answer["error_code"])  # noqa: E731
    conversation.settled(FIND_COORDINATOR, 1, {"key": topic, "key_type": 1}, code)
    for committed in (True, False):
        body = {"transactional_id": topic, "transaction_timeout_ms": 60_000}
        answer = conversation.settled(INIT_PRODUCER_ID, 1, body, code)
        pid, epoch = answer["producer_id"], answer["producer_epoch"]
        owner = {"transactional_id": topic, "producer_id": pid, "producer_epoch": epoch}
        old = {f"v3_and_below_{name}": value for name, value in owner.items()}
        added = old | {"v3_and_below_topics": [{"name": topic, "partitions": [0]}]}
        conversation.settled(
            ADD_PARTITIONS_TO_TXN,
            3,
            added,
            lambda a: int(a["results_by_topic_v3_and_below"][0]["results_by_partition"][0]["partition_error_code"]),
        )
        data = batch(records, codec="lz4", attributes=TRANSACTIONAL, producer=(pid, epoch, 0))
        produce(conversation, topic, data, transactional_id=topic)
        conversation.settled(END_TXN, 3, {**owner, "committed": committed}, code)
    fetch(conversation, topic, topic_id, range(4, 100), offset=len(CODECS) * len(ROWS), isolation=1)


ROWS = [(b"key", b"value"), (None, b"a value that repeats, " * 9), (b"", None), (b"k", b"")]


def produce(conversation: Conversation, topic: str, data: bytes, **more: Any) -> None:  # noqa: F811
    topics = [{"name": topic, "partition_data": [{"index": 0, "records": data}]}]
    body = {"acks": -1, "timeout_ms": 10_000, "topic_data": topics, **more}
    conversation.settled(PRODUCE, 8, body, first_partition("responses", "partition_responses"))


def fetch(
    conversation: Conversation,  # noqa: F811
    topic: str,  # noqa: F811
    topic_id: Any,  # noqa: F811
    versions: range,
    *,
    offset: int,
    isolation: int,
) -> None:
    """A piece of the log at a time, so that each frame is small."""
    for version in conversation.versions(FETCH):
        if version not in versions:
            continue
        of = {"topic_id": topic_id} if version >= 13 else {"topic": topic}
        for start in (offset, offset + 2 * len(ROWS)):
            asked = of | {"partitions": [{"partition": 0, "fetch_offset": start, "partition_max_bytes": 700}]}
            said = {"isolation_level": isolation} if version >= 4 else {}
            body = {"max_wait_ms": 100, "min_bytes": 1, "topics": [asked], **said}
            conversation.settled(FETCH, version, body, first_partition("responses"))
