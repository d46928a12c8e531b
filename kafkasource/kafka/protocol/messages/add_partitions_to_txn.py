"""AddPartitionsToTxn (key 24): the partitions that a transaction is about to write to (KIP-98).

Versions up to 3 are the clients', later ones the brokers' among themselves (KIP-890). Where the feature
`transaction.version` is 2, Produce adds its partitions by itself.
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BOOL, INT16, INT32, INT64, STRING, Array, Field

LAST_CLIENT_VERSION = 3

_TOPICS = Array([Field("name", STRING), Field("partitions", Array(INT32))])
_TOPIC_RESULTS = Array(
    [
        Field("name", STRING),
        Field(
            "results_by_partition",
            Array([Field("partition_index", INT32), Field("partition_error_code", INT16)]),
        ),
    ]
)

# fmt: off
ADD_PARTITIONS_TO_TXN_REQUEST = Message(
    "AddPartitionsToTxnRequest", api_key=24, versions=(0, 5), flexible_since=3, fields=[
        Field("transactions", Array([
            Field("transactional_id", STRING),
            Field("producer_id", INT64),
            Field("producer_epoch", INT16),
            Field("verify_only", BOOL),  # is it in the transaction already? Nothing is added then
            Field("topics", _TOPICS)]), since=4),
        Field("v3_and_below_transactional_id", STRING, until=3),
        Field("v3_and_below_producer_id", INT64, until=3),
        Field("v3_and_below_producer_epoch", INT16, until=3),
        Field("v3_and_below_topics", _TOPICS, until=3)])

ADD_PARTITIONS_TO_TXN_RESPONSE = Message(
    "AddPartitionsToTxnResponse", api_key=24, versions=(0, 5), flexible_since=3, fields=[
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16, since=4, ignorable=True),
        Field("results_by_transaction", Array([
            Field("transactional_id", STRING),
            Field("topic_results", _TOPIC_RESULTS)]), since=4),
        Field("results_by_topic_v3_and_below", _TOPIC_RESULTS, until=3)])
