"""The state of one member of a group whose coordinator assigns (KIP-848, `group.protocol=consumer`), without any I/O.

One request does everything: a heartbeat. With epoch 0 it joins; its answers bring the member's epoch and, when it has
changed, the assignment. A member that has given up revoked partitions says so in its next heartbeat, and may then get
others. So it is a cooperative `Membership` that never joins again for a new assignment.

A heartbeat says everything (subscription, owned partitions) when the member joins, after each change of what it owns,
and after each error, because an answer may have been lost. The answer to such a heartbeat has the whole assignment.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

from kafkasource.errors import (
    FencedMemberEpoch,
    ProtocolError,
    StaleMemberEpoch,
    UnsupportedApiVersion,
    UnsupportedVersion,
)
from kafkasource.kafka.group.membership import MemberIdentity, Membership, Terms
from kafkasource.kafka.group.states import MemberAction, MemberEvent, MemberState
from kafkasource.kafka.protocol.schema import Fields
from kafkasource.types import NEVER, TopicPartition


class ConsumerMembership(Membership):
    """See the module. Its terms have no assignors; the generation of its identity is the member epoch."""

    has_given_up = MemberEvent.RELEASED

    def __init__(self, terms: Terms, now_ms: float) -> None:
        super().__init__(terms, now_ms)
        self.topic_ids: dict[str, uuid.UUID] = {}  # of the topics of what it owns
        self.says_all = True  # in its next heartbeat

    def tick(self, now_ms: float) -> None:
        """After a session without an answer, others may own the partitions. The coordinator may know us all the same,
        so the member keeps its epoch, and is a member that owns nothing."""
        if self._session_ms <= now_ms:
            self._session_ms = NEVER
            self._fire_if_known(MemberEvent.RELEASED, now_ms)
            self._lose(now_ms)
            self.says_all = True
        super().tick(now_ms)

    def answered(self, request: MemberAction, answer: Fields, names: Mapping[uuid.UUID, str], now_ms: float) -> None:
        """Take the answer to a heartbeat. `names`: of the topics in it, as far as they are known.

        Raises ProtocolError for an epoch that is none.
        """
        if self.under_way is not request:
            return
        epoch, interval_ms, assignment = answer["member_epoch"], answer["heartbeat_interval_ms"], answer["assignment"]
        if epoch < 0:  # as the epoch of our next heartbeat it would mean that we leave
            raise ProtocolError(f"the coordinator answered a heartbeat with the member epoch {epoch}")
        self.identity = replace(self.identity, generation_id=epoch)
        self._succeeded(now_ms)
        if interval_ms > 0:
            self._heartbeat_ms = now_ms + interval_ms
        if assignment is not None and self.state is not MemberState.REVOKING:  # what it gives up changes it again
            self._take(assignment["topic_partitions"], names)
        if self.state is MemberState.JOINING:
            self._fire(MemberEvent.SYNCED, now_ms)
        elif self._revoking and self.state is MemberState.STABLE:
            self._fire(MemberEvent.SYNCED_LESS, now_ms)
        else:
            self._fire(MemberEvent.HEARTBEAT_DONE, now_ms)

    def _take(self, rows: list[Fields], names: Mapping[uuid.UUID, str]) -> None:
        known = [(names[row["topic_id"]], row) for row in rows if row["topic_id"] in names]
        assigned = {TopicPartition(name, partition) for name, row in known for partition in row["partitions"]}
        if assigned != self.owned or len(known) < len(rows):
            self.says_all = True  # the answer has the whole assignment again
        self.topic_ids |= {name: row["topic_id"] for name, row in known}
        self._revoke(self.owned - assigned)
        self.owned |= assigned

    def failed(self, request: MemberAction, error: Exception, now_ms: float, member_id: str = "") -> None:
        self.says_all = True
        if isinstance(error, (UnsupportedApiVersion, UnsupportedVersion)):
            error = UnsupportedApiVersion(
                f"{error}. Option 'kafka.group.protocol'=consumer needs brokers of Kafka 4.0 or newer that have the "
                "consumer protocol on: set it to classic"
            )
        super().failed(request, error, now_ms, member_id)
        if request is MemberAction.JOIN and isinstance(error, FencedMemberEpoch):
            self._forget_member_id(now_ms)  # the coordinator knows it with an epoch that we do not know

    def commit_failed(self, identity: MemberIdentity, error: Exception, now_ms: float) -> None:
        """A commit under this identity was refused. If its epoch is stale, a heartbeat asks for the new one at once."""
        if not isinstance(error, StaleMemberEpoch):
            super().commit_failed(identity, error, now_ms)
        elif identity == self.identity:
            self._heartbeat_ms = now_ms

    def _rebalance(self, now_ms: float) -> None:
        self._fire(MemberEvent.NOT_YET, now_ms)  # no coordinator says so

    def _do(self, action: MemberAction, now_ms: float) -> None:
        if action is MemberAction.JOIN:
            self.identity = replace(self.identity, member_id=self.identity.member_id or str(uuid.uuid4()))
        super()._do(action, now_ms)
        if action is MemberAction.GIVE_UP:
            self._heartbeat_ms = now_ms
        self.says_all = self.says_all or action in (MemberAction.JOIN, MemberAction.GIVE_UP)

    @property
    def _leaves(self) -> bool:
        return bool(self.identity.member_id)
