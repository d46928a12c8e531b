"""Asks the brokers which operations the client may carry out on a resource (KIP-430). Changes nothing.

Of topics, groups and the cluster, brokers tell the operations. Of transactional ids they do not: there a request that
no broker can carry out shows it, as a broker looks at the permission first.

Calls block, retry within the deadline of the `Cluster`, and raise BrokerError for what the broker refuses.
"""

from __future__ import annotations

from kafkasource.errors import AuthorizationFailed, UnsupportedApiVersion, error_for
from kafkasource.kafka.cluster.caller import checked
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.routing import GROUP
from kafkasource.kafka.network.connection import RequestBody
from kafkasource.kafka.network.metadata import metadata_body
from kafkasource.kafka.protocol.acl_operations import operations_of
from kafkasource.kafka.protocol.apis import DESCRIBE_CLUSTER, DESCRIBE_GROUPS, INIT_PRODUCER_ID, METADATA, Api
from kafkasource.kafka.protocol.schema import Body, Fields

_DESCRIBE_GROUPS_VERSION = 5  # from 6 on a group that does not exist is an error (KIP-1043), without its operations
# An epoch without its producer id: INVALID_REQUEST for every user with the permission.
_NO_PRODUCER_ID, _ANY_EPOCH = -1, 0


class Permissions:
    """Questions about the permissions of the user that the cluster's connections log in as."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def of_topic(self, name: str) -> frozenset[str] | None:
        """The operations, as `read`; None: brokers before 2.3 do not say.

        Raises UnknownTopicOrPartition, and TopicAuthorizationFailed where the client may not even know of the topic.
        """
        if not self._cluster.supports(METADATA, 8):
            return None
        plain = metadata_body([name])

        def body(version: int) -> Fields:
            more = {"include_topic_authorized_operations": True} if version >= 8 else {}
            return {**plain(version), **more}

        with self._cluster.caller.reading(METADATA):
            (row,) = checked(self._ask_any(METADATA, body), f"Metadata of {name!r}")["topics"]
        return operations_of(row["topic_authorized_operations"])

    def of_group(self, name: str) -> frozenset[str] | None:
        """The operations, whether the group exists or not; None: brokers before 2.3 do not say.

        Raises GroupAuthorizationFailed where the client may not even know of the group.
        """
        if not self._cluster.supports(DESCRIBE_GROUPS, 3):
            return None
        body = {"groups": [name], "include_authorized_operations": True}
        ask = self._cluster.coordinators.ask
        (row,) = ask(GROUP, name, DESCRIBE_GROUPS, body, max_version=_DESCRIBE_GROUPS_VERSION)["groups"]
        return operations_of(row["authorized_operations"])

    def of_cluster(self) -> frozenset[str] | None:
        """The operations on the cluster itself; None: brokers before 2.8 do not say."""
        if not self._cluster.supports(DESCRIBE_CLUSTER):
            return None
        answer = checked(
            self._ask_any(DESCRIBE_CLUSTER, {"include_cluster_authorized_operations": True}), DESCRIBE_CLUSTER.name
        )
        return operations_of(answer["cluster_authorized_operations"])

    def may_write_transactions(self, transactional_id: str | None) -> bool | None:
        """Whether it may write under this transactional id, without beginning, ending or fencing anything there.

        None instead of an id: whether it may write idempotently, outside of transactions. None as the result: brokers
        before 2.5 know no request that shows it.
        """
        if not self._cluster.supports(INIT_PRODUCER_ID, 3):
            return None
        nothing = {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": 60_000,
            "producer_id": _NO_PRODUCER_ID,
            "producer_epoch": _ANY_EPOCH,
        }

        def body(version: int) -> Fields:
            if version < 3:
                raise UnsupportedApiVersion(f"a broker serves {INIT_PRODUCER_ID.name} up to version {version} only")
            return nothing

        answer = self._ask_any(INIT_PRODUCER_ID, body)
        return not isinstance(error_for(answer["error_code"], INIT_PRODUCER_ID.name), AuthorizationFailed)

    def _ask_any(self, api: Api, body: RequestBody) -> Body:
        """Ask any broker, whatever codes its answer holds."""
        caller = self._cluster.caller

        def attempt(left_ms: float) -> Body:
            pending = caller.send_any(api, body, left_ms)
            caller.wait(pending)
            return pending.result()

        return caller.retrying(api.name, attempt)
