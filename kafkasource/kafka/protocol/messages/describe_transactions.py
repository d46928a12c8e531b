"""DescribeTransactions (key 65): the state of transactions, by their coordinator (KIP-664)."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, INT64, STRING, Array, Field

# fmt: off
DESCRIBE_TRANSACTIONS_REQUEST = Message(
    "DescribeTransactionsRequest", api_key=65, versions=(0, 0), flexible_since=0, fields=[
        Field("transactional_ids", Array(STRING))])

DESCRIBE_TRANSACTIONS_RESPONSE = Message(
    "DescribeTransactionsResponse", api_key=65, versions=(0, 0), flexible_since=0, fields=[
        Field("throttle_time_ms", INT32),
        Field("transaction_states", Array([
            Field("error_code", INT16),
            Field("transactional_id", STRING),
            Field("transaction_state", STRING),  # Empty, Ongoing, PrepareCommit, CompleteCommit, ...
            Field("transaction_timeout_ms", INT32),
            Field("transaction_start_time_ms", INT64),
            Field("producer_id", INT64),
            Field("producer_epoch", INT16),
            Field("topics", Array([  # while it ends: those whose markers are not written yet
                Field("topic", STRING),
                Field("partitions", Array(INT32))]))]))])
