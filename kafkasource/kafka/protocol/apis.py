"""THE table of the APIs we speak. Which version is used is negotiated per connection, from ApiVersions (KIP-35)."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
)


@dataclass(frozen=True, eq=False)
class Api:
    """A request and its response. Version ranges are inclusive."""

    request: Message
    response: Message
    last_stable_version: int | None = None
    throttled_since: int = 0
    """From this version on throttle_time_ms is a pause that the broker wants. A broker before 2.0, which serves earlier
    ones only, has held the answer back for this long (KIP-219)."""

    @property
    def key(self) -> int:
        return self.request.api_key

    @property
    def name(self) -> str:
        return self.request.name.removesuffix("Request")

    @property
    def versions(self) -> tuple[int, int]:
        return self.request.versions

    @property
    def stable_versions(self) -> tuple[int, int]:
        """The versions that may be negotiated. Brokers offer unstable ones only with `unstable.api.versions.enable`."""
        first, last = self.request.versions
        return first, last if self.last_stable_version is None else self.last_stable_version

    def __repr__(self) -> str:
        return f"<Api {self.name}>"

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return _api_of, (self.key,)  # codecs are closures; the other process has its own


def _api(messages: ModuleType, *, last_stable_version: int | None = None, throttled_since: int = 0) -> Api:
    """The API whose two messages the module has, under the module's name."""
    name = messages.__name__.rpartition(".")[2].upper()
    request, response = (getattr(messages, f"{name}_{kind}") for kind in ("REQUEST", "RESPONSE"))
    return Api(request, response, last_stable_version, throttled_since)


PRODUCE = _api(produce, throttled_since=6)
FETCH = _api(fetch, throttled_since=8)
LIST_OFFSETS = _api(list_offsets, throttled_since=3)
METADATA = _api(metadata, throttled_since=6)
OFFSET_COMMIT = _api(offset_commit, throttled_since=4)
OFFSET_FETCH = _api(offset_fetch, throttled_since=4)
FIND_COORDINATOR = _api(find_coordinator, throttled_since=2)
JOIN_GROUP = _api(join_group, throttled_since=3)
HEARTBEAT = _api(heartbeat, throttled_since=2)
LEAVE_GROUP = _api(leave_group, throttled_since=2)
SYNC_GROUP = _api(sync_group, throttled_since=2)
DESCRIBE_GROUPS = _api(describe_groups, throttled_since=2)
LIST_GROUPS = _api(list_groups, throttled_since=2)
SASL_HANDSHAKE = _api(sasl_handshake)
API_VERSIONS = _api(api_versions, throttled_since=2)
CREATE_TOPICS = _api(create_topics, throttled_since=3)
DELETE_TOPICS = _api(delete_topics, throttled_since=2)
DELETE_RECORDS = _api(delete_records, throttled_since=1)
# Version 6 of InitProducerId is for KIP-939, which is unfinished in 4.3.
INIT_PRODUCER_ID = _api(init_producer_id, last_stable_version=5, throttled_since=1)
OFFSET_FOR_LEADER_EPOCH = _api(offset_for_leader_epoch)
ADD_PARTITIONS_TO_TXN = _api(add_partitions_to_txn, throttled_since=1)
ADD_OFFSETS_TO_TXN = _api(add_offsets_to_txn, throttled_since=1)
END_TXN = _api(end_txn, throttled_since=1)
TXN_OFFSET_COMMIT = _api(txn_offset_commit, throttled_since=1)
DESCRIBE_ACLS = _api(describe_acls, throttled_since=1)
CREATE_ACLS = _api(create_acls, throttled_since=1)
DELETE_ACLS = _api(delete_acls, throttled_since=1)
DESCRIBE_CONFIGS = _api(describe_configs, throttled_since=2)
ALTER_CONFIGS = _api(alter_configs, throttled_since=1)
DESCRIBE_LOG_DIRS = _api(describe_log_dirs, throttled_since=1)
SASL_AUTHENTICATE = _api(sasl_authenticate)
CREATE_PARTITIONS = _api(create_partitions, throttled_since=1)
CREATE_DELEGATION_TOKEN = _api(create_delegation_token, throttled_since=1)
DELETE_GROUPS = _api(delete_groups, throttled_since=1)
INCREMENTAL_ALTER_CONFIGS = _api(incremental_alter_configs)
OFFSET_DELETE = _api(offset_delete)
DESCRIBE_CLUSTER = _api(describe_cluster)
DESCRIBE_PRODUCERS = _api(describe_producers)
DESCRIBE_TRANSACTIONS = _api(describe_transactions)
LIST_TRANSACTIONS = _api(list_transactions)
CONSUMER_GROUP_HEARTBEAT = _api(consumer_group_heartbeat)
CONSUMER_GROUP_DESCRIBE = _api(consumer_group_describe)

APIS: dict[int, Api] = {api.key: api for api in tuple(globals().values()) if isinstance(api, Api)}


def _api_of(key: int) -> Api:
    return APIS[key]
