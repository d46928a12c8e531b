"""THE table of the APIs we speak. Which version is used is negotiated per connection, from ApiVersions (KIP-35)."""

from __future__ import annotations

from dataclasses import dataclass

from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    api_versions,
    consumer_group_describe,
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

    key: int
    name: str
    request: Message
    response: Message
    last_stable_version: int | None = None
    throttled_since: int = 0
    """From this version on throttle_time_ms is a pause that the broker wants. A broker before 2.0, which serves earlier
    ones only, has held the answer back for this long (KIP-219)."""

    @property
    def versions(self) -> tuple[int, int]:
        return self.request.versions

    @property
    def stable_versions(self) -> tuple[int, int]:
        """What may be negotiated: brokers offer an unstable version only with `unstable.api.versions.enable`."""
        first, last = self.request.versions
        return first, last if self.last_stable_version is None else self.last_stable_version

    def __repr__(self) -> str:
        return f"<Api {self.name}>"

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return _api_of, (self.key,)  # codecs are closures; the other process has its own


# fmt: off
PRODUCE = Api(0, "Produce", produce.PRODUCE_REQUEST, produce.PRODUCE_RESPONSE, throttled_since=6)
FETCH = Api(1, "Fetch", fetch.FETCH_REQUEST, fetch.FETCH_RESPONSE, throttled_since=8)
LIST_OFFSETS = Api(
    2, "ListOffsets", list_offsets.LIST_OFFSETS_REQUEST, list_offsets.LIST_OFFSETS_RESPONSE, throttled_since=3)
METADATA = Api(3, "Metadata", metadata.METADATA_REQUEST, metadata.METADATA_RESPONSE, throttled_since=6)
OFFSET_COMMIT = Api(
    8, "OffsetCommit", offset_commit.OFFSET_COMMIT_REQUEST, offset_commit.OFFSET_COMMIT_RESPONSE, throttled_since=4)
OFFSET_FETCH = Api(
    9, "OffsetFetch", offset_fetch.OFFSET_FETCH_REQUEST, offset_fetch.OFFSET_FETCH_RESPONSE, throttled_since=4)
FIND_COORDINATOR = Api(
    10, "FindCoordinator", find_coordinator.FIND_COORDINATOR_REQUEST, find_coordinator.FIND_COORDINATOR_RESPONSE,
    throttled_since=2)
JOIN_GROUP = Api(11, "JoinGroup", join_group.JOIN_GROUP_REQUEST, join_group.JOIN_GROUP_RESPONSE, throttled_since=3)
HEARTBEAT = Api(12, "Heartbeat", heartbeat.HEARTBEAT_REQUEST, heartbeat.HEARTBEAT_RESPONSE, throttled_since=2)
LEAVE_GROUP = Api(
    13, "LeaveGroup", leave_group.LEAVE_GROUP_REQUEST, leave_group.LEAVE_GROUP_RESPONSE, throttled_since=2)
SYNC_GROUP = Api(14, "SyncGroup", sync_group.SYNC_GROUP_REQUEST, sync_group.SYNC_GROUP_RESPONSE, throttled_since=2)
DESCRIBE_GROUPS = Api(
    15, "DescribeGroups", describe_groups.DESCRIBE_GROUPS_REQUEST, describe_groups.DESCRIBE_GROUPS_RESPONSE,
    throttled_since=2)
LIST_GROUPS = Api(
    16, "ListGroups", list_groups.LIST_GROUPS_REQUEST, list_groups.LIST_GROUPS_RESPONSE, throttled_since=2)
SASL_HANDSHAKE = Api(17, "SaslHandshake", sasl_handshake.SASL_HANDSHAKE_REQUEST, sasl_handshake.SASL_HANDSHAKE_RESPONSE)
API_VERSIONS = Api(
    18, "ApiVersions", api_versions.API_VERSIONS_REQUEST, api_versions.API_VERSIONS_RESPONSE, throttled_since=2)
CREATE_TOPICS = Api(
    19, "CreateTopics", create_topics.CREATE_TOPICS_REQUEST, create_topics.CREATE_TOPICS_RESPONSE, throttled_since=3)
DELETE_TOPICS = Api(
    20, "DeleteTopics", delete_topics.DELETE_TOPICS_REQUEST, delete_topics.DELETE_TOPICS_RESPONSE, throttled_since=2)
DELETE_RECORDS = Api(
    21, "DeleteRecords", delete_records.DELETE_RECORDS_REQUEST, delete_records.DELETE_RECORDS_RESPONSE,
    throttled_since=1)
INIT_PRODUCER_ID = Api(
    22, "InitProducerId", init_producer_id.INIT_PRODUCER_ID_REQUEST, init_producer_id.INIT_PRODUCER_ID_RESPONSE,
    last_stable_version=5, throttled_since=1)  # 6 is for KIP-939, unfinished in 4.3
OFFSET_FOR_LEADER_EPOCH = Api(
    23, "OffsetForLeaderEpoch",
    offset_for_leader_epoch.OFFSET_FOR_LEADER_EPOCH_REQUEST, offset_for_leader_epoch.OFFSET_FOR_LEADER_EPOCH_RESPONSE)
ADD_PARTITIONS_TO_TXN = Api(
    24, "AddPartitionsToTxn",
    add_partitions_to_txn.ADD_PARTITIONS_TO_TXN_REQUEST, add_partitions_to_txn.ADD_PARTITIONS_TO_TXN_RESPONSE,
    throttled_since=1)
ADD_OFFSETS_TO_TXN = Api(
    25, "AddOffsetsToTxn",
    add_offsets_to_txn.ADD_OFFSETS_TO_TXN_REQUEST, add_offsets_to_txn.ADD_OFFSETS_TO_TXN_RESPONSE, throttled_since=1)
END_TXN = Api(26, "EndTxn", end_txn.END_TXN_REQUEST, end_txn.END_TXN_RESPONSE, throttled_since=1)
TXN_OFFSET_COMMIT = Api(
    28, "TxnOffsetCommit", txn_offset_commit.TXN_OFFSET_COMMIT_REQUEST, txn_offset_commit.TXN_OFFSET_COMMIT_RESPONSE,
    throttled_since=1)
DESCRIBE_ACLS = Api(
    29, "DescribeAcls", describe_acls.DESCRIBE_ACLS_REQUEST, describe_acls.DESCRIBE_ACLS_RESPONSE, throttled_since=1)
CREATE_ACLS = Api(
    30, "CreateAcls", create_acls.CREATE_ACLS_REQUEST, create_acls.CREATE_ACLS_RESPONSE, throttled_since=1)
DELETE_ACLS = Api(
    31, "DeleteAcls", delete_acls.DELETE_ACLS_REQUEST, delete_acls.DELETE_ACLS_RESPONSE, throttled_since=1)
DESCRIBE_CONFIGS = Api(
    32, "DescribeConfigs", describe_configs.DESCRIBE_CONFIGS_REQUEST, describe_configs.DESCRIBE_CONFIGS_RESPONSE,
    throttled_since=2)
ALTER_CONFIGS = Api(
    33, "AlterConfigs", alter_configs.ALTER_CONFIGS_REQUEST, alter_configs.ALTER_CONFIGS_RESPONSE, throttled_since=1)
DESCRIBE_LOG_DIRS = Api(
    35, "DescribeLogDirs", describe_log_dirs.DESCRIBE_LOG_DIRS_REQUEST, describe_log_dirs.DESCRIBE_LOG_DIRS_RESPONSE,
    throttled_since=1)
SASL_AUTHENTICATE = Api(
    36, "SaslAuthenticate",
    sasl_authenticate.SASL_AUTHENTICATE_REQUEST, sasl_authenticate.SASL_AUTHENTICATE_RESPONSE)
CREATE_PARTITIONS = Api(
    37, "CreatePartitions", create_partitions.CREATE_PARTITIONS_REQUEST, create_partitions.CREATE_PARTITIONS_RESPONSE,
    throttled_since=1)
CREATE_DELEGATION_TOKEN = Api(
    38, "CreateDelegationToken",
    create_delegation_token.CREATE_DELEGATION_TOKEN_REQUEST, create_delegation_token.CREATE_DELEGATION_TOKEN_RESPONSE,
    throttled_since=1)
DELETE_GROUPS = Api(
    42, "DeleteGroups", delete_groups.DELETE_GROUPS_REQUEST, delete_groups.DELETE_GROUPS_RESPONSE, throttled_since=1)
INCREMENTAL_ALTER_CONFIGS = Api(
    44, "IncrementalAlterConfigs",
    incremental_alter_configs.INCREMENTAL_ALTER_CONFIGS_REQUEST,
    incremental_alter_configs.INCREMENTAL_ALTER_CONFIGS_RESPONSE)
OFFSET_DELETE = Api(47, "OffsetDelete", offset_delete.OFFSET_DELETE_REQUEST, offset_delete.OFFSET_DELETE_RESPONSE)
DESCRIBE_CLUSTER = Api(
    60, "DescribeCluster", describe_cluster.DESCRIBE_CLUSTER_REQUEST, describe_cluster.DESCRIBE_CLUSTER_RESPONSE)
DESCRIBE_PRODUCERS = Api(
    61, "DescribeProducers",
    describe_producers.DESCRIBE_PRODUCERS_REQUEST, describe_producers.DESCRIBE_PRODUCERS_RESPONSE)
DESCRIBE_TRANSACTIONS = Api(
    65, "DescribeTransactions",
    describe_transactions.DESCRIBE_TRANSACTIONS_REQUEST, describe_transactions.DESCRIBE_TRANSACTIONS_RESPONSE)
LIST_TRANSACTIONS = Api(
    66, "ListTransactions", list_transactions.LIST_TRANSACTIONS_REQUEST, list_transactions.LIST_TRANSACTIONS_RESPONSE)
CONSUMER_GROUP_DESCRIBE = Api(
    69, "ConsumerGroupDescribe",
    consumer_group_describe.CONSUMER_GROUP_DESCRIBE_REQUEST, consumer_group_describe.CONSUMER_GROUP_DESCRIBE_RESPONSE)
# fmt: on

APIS: dict[int, Api] = {
    api.key: api
    for api in (
        PRODUCE,
        FETCH,
        LIST_OFFSETS,
        METADATA,
        OFFSET_COMMIT,
        OFFSET_FETCH,
        FIND_COORDINATOR,
        JOIN_GROUP,
        HEARTBEAT,
        LEAVE_GROUP,
        SYNC_GROUP,
        DESCRIBE_GROUPS,
        LIST_GROUPS,
        SASL_HANDSHAKE,
        API_VERSIONS,
        CREATE_TOPICS,
        DELETE_TOPICS,
        DELETE_RECORDS,
        INIT_PRODUCER_ID,
        OFFSET_FOR_LEADER_EPOCH,
        ADD_PARTITIONS_TO_TXN,
        ADD_OFFSETS_TO_TXN,
        END_TXN,
        TXN_OFFSET_COMMIT,
        DESCRIBE_ACLS,
        CREATE_ACLS,
        DELETE_ACLS,
        DESCRIBE_CONFIGS,
        ALTER_CONFIGS,
        DESCRIBE_LOG_DIRS,
        SASL_AUTHENTICATE,
        CREATE_PARTITIONS,
        CREATE_DELEGATION_TOKEN,
        DELETE_GROUPS,
        INCREMENTAL_ALTER_CONFIGS,
        OFFSET_DELETE,
        DESCRIBE_CLUSTER,
        DESCRIBE_PRODUCERS,
        DESCRIBE_TRANSACTIONS,
        LIST_TRANSACTIONS,
        CONSUMER_GROUP_DESCRIBE,
    )
}


def _api_of(key: int) -> Api:
    return APIS[key]
