"""EndTxn (key 26): commit or abort a transaction (KIP-98).

Version 5 raises the producer epoch at each end (KIP-890); brokers take it only where the feature `transaction.version`
is 2. A client that asks again, because the answer was lost, must use the version of its first request.
"""

from __future__ import annotations

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import BOOL, INT16, INT32, INT64, STRING, Field

# fmt: off
END_TXN_REQUEST = Message("EndTxnRequest", api_key=26, versions=(0, 5), flexible_since=3, fields=[
    Field("transactional_id", STRING),
    Field("producer_id", INT64),
    Field("producer_epoch", INT16),
    Field("committed", BOOL)])  # false: aborted

END_TXN_RESPONSE = Message("EndTxnResponse", api_key=26, versions=(0, 5), flexible_since=3, fields=[
    Field("throttle_time_ms", INT32),
    Field("error_code", INT16),
    Field("producer_id", INT64, since=5, default=-1, ignorable=True),  # KIP-890: for the next transaction
    Field("producer_epoch", INT16, since=5, default=-1, ignorable=True)])
