"""AddOffsetsToTxn (key 25): the group whose offsets a transaction is about to commit (KIP-98).

Where the feature `transaction.version` is 2, TxnOffsetCommit does this by itself.
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, INT64, STRING, Field

# fmt: off
ADD_OFFSETS_TO_TXN_REQUEST = Message("AddOffsetsToTxnRequest", api_key=25, versions=(0, 4), flexible_since=3, fields=[
    Field("transactional_id", STRING),
    Field("producer_id", INT64),
    Field("producer_epoch", INT16),
    Field("group_id", STRING)])

ADD_OFFSETS_TO_TXN_RESPONSE = Message("AddOffsetsToTxnResponse", api_key=25, versions=(0, 4), flexible_since=3, fields=[
    Field("throttle_time_ms", INT32),
    Field("error_code", INT16)])
