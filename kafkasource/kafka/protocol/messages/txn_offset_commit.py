"""TxnOffsetCommit (key 28): offsets of a group that become visible when a transaction commits (KIP-98).

Versions up to 4 want AddOffsetsToTxn before; 5 does that itself and is for the feature `transaction.version` 2 only
(KIP-890).
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import INT16, INT32, INT64, STRING, Array, Field

# fmt: off
TXN_OFFSET_COMMIT_REQUEST = Message("TxnOffsetCommitRequest", api_key=28, versions=(0, 5), flexible_since=3, fields=[
    Field("transactional_id", STRING),
    Field("group_id", STRING),
    Field("producer_id", INT64),
    Field("producer_epoch", INT16),
    Field("generation_id", INT32, since=3, default=-1),  # KIP-447: fences a member that was replaced; -1: no member
    Field("member_id", STRING, since=3),
    Field("group_instance_id", STRING, since=3, nullable_since=3, default=None),
    Field("topics", Array([
        Field("name", STRING),
        Field("partitions", Array([
            Field("partition_index", INT32),
            Field("committed_offset", INT64),
            Field("committed_leader_epoch", INT32, since=2, default=-1, ignorable=True),  # KIP-320
            Field("committed_metadata", STRING, nullable_since=0)]))]))])

TXN_OFFSET_COMMIT_RESPONSE = Message("TxnOffsetCommitResponse", api_key=28, versions=(0, 5), flexible_since=3, fields=[
    Field("throttle_time_ms", INT32),
    Field("topics", Array([
        Field("name", STRING),
        Field("partitions", Array([
            Field("partition_index", INT32),
            Field("error_code", INT16)]))]))])
