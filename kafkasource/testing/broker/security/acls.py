"""ACLs of a test cluster, made and removed through its PLAINTEXT listener, where everybody is the super user."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from kafkasource.errors import DeadlineExceeded, OptionError, check
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.acl_operations import OPERATIONS
from kafkasource.kafka.protocol.apis import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS, Api
from kafkasource.kafka.protocol.schema import Body

# Kafka's numbers: ResourceType, PatternType, AclPermissionType.
RESOURCE_TYPES = {"topic": 2, "group": 3, "cluster": 4, "transactional_id": 5, "delegation_token": 6, "user": 7}
PATTERN_TYPES = {"literal": 3, "prefixed": 4}
PERMISSIONS = {"deny": 2, "allow": 3}
_ANY_NODE = -1
_APPLIED_WITHIN_S, _POLL_S = 60.0, 0.02


@dataclass(frozen=True)
class Acl:
    """One ACL: `Acl("alice", "read", "topic", "orders")` allows User:alice to read the topic.

    user         without `User:`; of a client certificate `CN=name`
    name         of the resource; `*` for all of its type, `kafka-cluster` for the cluster
    pattern      literal, or prefixed (from Kafka 2.0 on)
    permission   allow or deny; a deny wins
    """

    user: str
    operation: str
    resource: str
    name: str = "*"
    pattern: str = "literal"
    permission: str = "allow"

    def __post_init__(self) -> None:
        for value, known in (
            (self.operation, OPERATIONS),
            (self.resource, RESOURCE_TYPES),
            (self.pattern, PATTERN_TYPES),
            (self.permission, PERMISSIONS),
        ):
            if value not in known:
                raise OptionError(f"Acl: {value!r} is not one of {', '.join(known)}")

    def creation(self) -> Body:
        """An element of a CreateAcls request."""
        return {
            "resource_type": RESOURCE_TYPES[self.resource],
            "resource_name": self.name,
            "resource_pattern_type": PATTERN_TYPES[self.pattern],
            "principal": f"User:{self.user}",
            "host": "*",
            "operation": OPERATIONS[self.operation],
            "permission_type": PERMISSIONS[self.permission],
        }

    def filter(self) -> Body:
        """A DescribeAcls request, and an element of a DeleteAcls request, that matches this ACL only."""
        return {
            "resource_type_filter": RESOURCE_TYPES[self.resource],
            "resource_name_filter": self.name,
            "pattern_type_filter": PATTERN_TYPES[self.pattern],
            "principal_filter": f"User:{self.user}",
            "host_filter": "*",
            "operation": OPERATIONS[self.operation],
            "permission_type": PERMISSIONS[self.permission],
        }


def create_acls(bootstrap_servers: str, acls: Sequence[Acl]) -> None:
    """Make all of these, and wait until every broker obeys them. An ACL that is there already is left.

    Raises the error of the first that is refused.
    """
    with _cluster(bootstrap_servers) as cluster:
        _ask(cluster, CREATE_ACLS, {"creations": [acl.creation() for acl in acls]}, "results")
        _await(cluster, acls, there=True)


def delete_acls(bootstrap_servers: str, acls: Sequence[Acl]) -> None:
    """Remove all of these that are there, and wait until no broker obeys them any more."""
    with _cluster(bootstrap_servers) as cluster:
        _ask(cluster, DELETE_ACLS, {"filters": [acl.filter() for acl in acls]}, "filter_results")
        _await(cluster, acls, there=False)


def _cluster(bootstrap_servers: str) -> Cluster:
    return Cluster(ClientConfig.of(bootstrap_servers, client_id="kafkasource-broker"))


def _ask(cluster: Cluster, api: Api, body: Body, results: str) -> None:
    for result in cluster.caller.call(_ANY_NODE, api, body)[results]:
        check(result["error_code"], f"{api.name}: {result['error_message']}")


def _await(cluster: Cluster, acls: Sequence[Acl], *, there: bool) -> None:
    """Wait for every broker: the controller answers before the brokers have read its log."""
    deadline = time.monotonic() + _APPLIED_WITHIN_S
    for node in cluster.brokers().nodes:
        for acl in acls:
            while bool(cluster.caller.call(node.node_id, DESCRIBE_ACLS, acl.filter())["resources"]) != there:
                if time.monotonic() > deadline:
                    raise DeadlineExceeded(f"broker {node.node_id} has not applied {acl} in {_APPLIED_WITHIN_S:g} s")
                time.sleep(_POLL_S)
