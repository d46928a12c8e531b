"""InitProducerId (key 22): the producer id and epoch of an idempotent or transactional producer (KIP-98).

Version 6 prepares for two-phase commit (KIP-939) and is unstable in 4.3: never negotiated (`apis.Api.stable_versions`).
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BOOL, INT16, INT32, INT64, STRING, Field

# fmt: off
INIT_PRODUCER_ID_REQUEST = Message("InitProducerIdRequest", api_key=22, versions=(0, 6), flexible_since=2, fields=[
    Field("transactional_id", STRING, nullable_since=0),  # null: idempotent only
    Field("transaction_timeout_ms", INT32),  # the broker aborts what stays open for longer
    Field("producer_id", INT64, since=3, default=-1),  # KIP-360: keep the id, raise the epoch; -1: a new one
    Field("producer_epoch", INT16, since=3, default=-1),
    Field("enable2_pc", BOOL, since=6),  # KIP-939
    Field("keep_prepared_txn", BOOL, since=6)])  # KIP-939

INIT_PRODUCER_ID_RESPONSE = Message("InitProducerIdResponse", api_key=22, versions=(0, 6), flexible_since=2, fields=[
    Field("throttle_time_ms", INT32, ignorable=True),
    Field("error_code", INT16),
    Field("producer_id", INT64, default=-1),
    Field("producer_epoch", INT16),
    Field("ongoing_txn_producer_id", INT64, since=6, default=-1),  # KIP-939
    Field("ongoing_txn_producer_epoch", INT16, since=6, default=-1)])
