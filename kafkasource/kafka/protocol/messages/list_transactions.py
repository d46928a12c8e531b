"""ListTransactions (key 66): the transactions that a broker coordinates (KIP-664)."""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, INT64, STRING, Array, Field

# fmt: off
LIST_TRANSACTIONS_REQUEST = Message("ListTransactionsRequest", api_key=66, versions=(0, 2), flexible_since=0, fields=[
    Field("state_filters", Array(STRING)),  # empty: all; as the other filters
    Field("producer_id_filters", Array(INT64)),
    Field("duration_filter", INT64, since=1, default=-1),  # KIP-994: those that run for more than this many ms
    Field("transactional_id_pattern", STRING, since=2, nullable_since=2, default=None)])  # KIP-1152: an RE2 expression

LIST_TRANSACTIONS_RESPONSE = Message("ListTransactionsResponse", api_key=66, versions=(0, 2), flexible_since=0, fields=[
    Field("throttle_time_ms", INT32),
    Field("error_code", INT16),
    Field("unknown_state_filters", Array(STRING)),
    Field("transaction_states", Array([
        Field("transactional_id", STRING),
        Field("producer_id", INT64),
        Field("transaction_state", STRING)]))])
