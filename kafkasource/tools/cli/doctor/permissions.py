"""Checks the user's rights on the topics, groups and transactional ids of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kafkasource.errors import AuthorizationFailed, KafkaSourceError, UnknownTopicOrPartition
from kafkasource.exactly_once.names import TransactionalIds
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.permissions import Permissions
from kafkasource.kafka.cluster.transactions import lacking
from kafkasource.tools.cli.doctor.finding import FAILED, OK, WARNING, Finding

_UNKNOWN = "the brokers do not say"


def permission_findings(
    cluster: Cluster, topics: Sequence[str], groups: Sequence[str], prefix: str | None
) -> Iterator[Finding]:
    """Nothing where no topic, group or prefix is given."""
    permissions = Permissions(cluster)
    if not (topics or groups or prefix is not None):
        return
    yield _allowed("on the cluster", permissions.of_cluster)
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


def _topic(permissions: Permissions, topic: str) -> Finding:
    what = f"topic {topic}"
    try:
        return _allowed(what, lambda: permissions.of_topic(topic), ("read", "write"))
    except UnknownTopicOrPartition:
        remedy = "make it: `pykafka topics create`, or the option createTopic"
        return Finding(WARNING, what, "there is no such topic", remedy)


def _group(permissions: Permissions, group: str, why: str) -> Finding:
    return _allowed(f"group {group}", lambda: permissions.of_group(group), ("read",), f", {why}")


def _allowed(what: str, ask: Callable[[], frozenset[str] | None], needed: Sequence[str] = (), why: str = "") -> Finding:
    """The allowed operations. A job needs one of `needed`. Raises UnknownTopicOrPartition."""
    remedy = f"an ACL must allow the user {' or '.join(needed)} on {what}{why}"
    try:
        operations = ask()
    except UnknownTopicOrPartition:
        raise
    except AuthorizationFailed as error:
        if not needed:
            return Finding(WARNING, what, str(error))
        return Finding(FAILED, what, "not allowed: not even to know of it, if it exists", remedy)
    except KafkaSourceError as error:
        return Finding(FAILED if needed else WARNING, what, str(error))
    if operations is None:
        return Finding(OK, what, _UNKNOWN)
    shown = f"allowed: {', '.join(sorted(operations)) or 'nothing'}"
    if needed and operations.isdisjoint(needed):
        return Finding(FAILED, what, shown, remedy)
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
    return Finding(OK, what, _UNKNOWN if allowed is None else "allowed: a job that writes may number its batches")


def _transactional_id(permissions: Permissions, name: str) -> Finding:
    what = "transactional id"
    try:
        allowed = permissions.may_write_transactions(name)
    except KafkaSourceError as error:
        return Finding(FAILED, what, f"{name}: {error}")
    if allowed is False:
        remedy = f"an ACL must allow the user write and describe on every {what} that begins with the prefix (pattern"
        return Finding(FAILED, what, f"{name}: writing not allowed", f"{remedy} type prefixed)")
    return Finding(OK, what, f"{name}: {_UNKNOWN if allowed is None else 'writing allowed'}")
