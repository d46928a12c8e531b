"""Checks the user's rights on the topics, groups and transactional ids of a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkasource.errors import AuthorizationFailed, KafkaSourceError, UnknownTopicOrPartition
from kafkasource.exactly_once.names import TransactionalIds
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.permissions import Permissions
from kafkasource.kafka.cluster.transactions import lacking
from kafkasource.tools.cli.doctor.finding import FAILED, OK, WARNING, Finding

_UNSAID = "the brokers do not say"


def permission_findings(
    cluster: Cluster, topics: Sequence[str], groups: Sequence[str], prefix: str | None
) -> Iterator[Finding]:
    """Nothing where no topic, group or prefix is given."""
    permissions = Permissions(cluster)
    if not (topics or groups or prefix is not None):
        return
    yield _cluster(permissions)
    for topic in topics:
        yield _topic(permissions, topic)
    for group in groups:
        yield _group(permissions, group, "to commit offsets and to be a member")
    if prefix is None:
        yield _idempotent(permissions)
        return
    if missing := lacking(cluster.supports):
        remedy = "write there with deliveryGuarantee=at_least_once"
        yield Finding(FAILED, "exactly once", f"the brokers do not offer {', '.join(missing)}", remedy)
        return
    # A query's own id follows the prefix, so only an ACL of the prefix allows all names of the job.
    ids = TransactionalIds(prefix.removesuffix("-"))
    for transactional_id in (ids.driver, ids.task(0)):
        yield _transactional_id(permissions, transactional_id)
    for group in (ids.marker_group, ids.kept_group):
        yield _group(permissions, group, "as the sink keeps there what is committed (exactly once)")


def _cluster(permissions: Permissions) -> Finding:
    try:
        operations = permissions.of_cluster()
    except KafkaSourceError as error:
        return Finding(WARNING, "on the cluster", str(error))
    return Finding(OK, "on the cluster", _UNSAID if operations is None else f"allowed: {_listed(operations)}")


def _topic(permissions: Permissions, topic: str) -> Finding:
    what = f"topic {topic}"
    try:
        operations = permissions.of_topic(topic)
    except UnknownTopicOrPartition:
        return Finding(
            WARNING, what, "there is no such topic", "make it: `pykafka topics create`, or the option createTopic"
        )
    except AuthorizationFailed:
        return Finding(FAILED, what, "not allowed: not even to know of it, if it exists", _allow("read or write", what))
    except KafkaSourceError as error:
        return Finding(FAILED, what, str(error))
    if operations is None:
        return Finding(OK, what, _UNSAID)
    uses = [f"{verb} allowed" if name in operations else f"{verb} not allowed" for name, verb in _USES]
    shown = f"{', '.join(uses)} (allowed: {_listed(operations)})"
    if operations.isdisjoint(name for name, _ in _USES):
        return Finding(FAILED, what, shown, _allow("read or write", what))
    return Finding(OK, what, shown)


_USES = (("read", "reading"), ("write", "writing"))


def _group(permissions: Permissions, group: str, why: str) -> Finding:
    what = f"group {group}"
    try:
        operations = permissions.of_group(group)
    except AuthorizationFailed:
        return Finding(FAILED, what, "not allowed: not even to know of it", _allow("read", what, why))
    except KafkaSourceError as error:
        return Finding(FAILED, what, str(error))
    if operations is None:
        return Finding(OK, what, _UNSAID)
    shown = f"allowed: {_listed(operations)}"
    if "read" not in operations:
        return Finding(FAILED, what, shown, _allow("read", what, why))
    return Finding(OK, what, shown)


def _idempotent(permissions: Permissions) -> Finding:
    what = "idempotence"
    try:
        allowed = permissions.may_write_transactions(None)
    except KafkaSourceError as error:
        return Finding(WARNING, what, str(error))
    if allowed is False:  # no failure: a user of a job that only reads has no such right, and needs none
        shown = "not allowed: the user may write no topic, or (before Kafka 2.8) lacks idempotent_write on the cluster"
        return Finding(OK, what, shown)
    return Finding(OK, what, _UNSAID if allowed is None else "allowed: a job that writes may number its batches")


def _transactional_id(permissions: Permissions, name: str) -> Finding:
    what = "transactional id"
    try:
        allowed = permissions.may_write_transactions(name)
    except KafkaSourceError as error:
        return Finding(FAILED, what, f"{name}: {error}")
    if allowed is False:
        remedy = _allow("write and describe", f"every {what} that begins with the prefix (pattern type prefixed)")
        return Finding(FAILED, what, f"{name}: writing not allowed", remedy)
    return Finding(OK, what, f"{name}: {_UNSAID if allowed is None else 'writing allowed'}")


def _allow(operations: str, what: str, why: str = "") -> str:
    return f"an ACL must allow the user {operations} on {what}" + (f", {why}" if why else "")


def _listed(operations: frozenset[str]) -> str:
    return ", ".join(sorted(operations)) or "nothing"
