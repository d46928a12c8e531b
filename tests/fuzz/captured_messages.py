"""Not a suite of its own: `capture.py` runs it for message sets of all kinds from brokers of before 0.10."""

from __future__ import annotations

import pytest
from legacy_wire import message, wrapped
from test_every_version_on_a_broker import first_partition
from test_guide_versions_on_old_brokers import OldConversation, broker, conversation, topic  # noqa: F401 - fixtures

from kafkasource.kafka.protocol.apis import FETCH, PRODUCE

ROWS = [(b"key", b"value", -1), (None, b"a value that repeats, " * 9, -1), (b"", None, -1), (b"k", b"", -1)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
def test_fetched_messages_of_every_kind(conversation: OldConversation, topic: str, codec: str) -> None:  # noqa: F811
    if codec == "none":
        data = b"".join(message(offset, key, value, magic=0) for offset, (key, value, _) in enumerate(ROWS))
    else:
        data = wrapped(ROWS, len(ROWS) - 1, codec=codec, magic=0)
    for version in conversation.versions(PRODUCE):
        topics = [{"name": topic, "partition_data": [{"index": 0, "records": data}]}]
        body = {"acks": -1, "timeout_ms": 10_000, "topic_data": topics}
        conversation.settled(PRODUCE, version, body, first_partition("responses", "partition_responses"))
    for version in conversation.versions(FETCH):
        for size in (250, 2000):  # the last message cut, or not
            asked = {"topic": topic, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": size}]}
            body = {"max_wait_ms": 100, "min_bytes": 1, "topics": [asked]}
            conversation.settled(FETCH, version, body, first_partition("responses"))
