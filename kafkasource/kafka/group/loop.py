"""The thread of a group member: it does what the membership asks for, and reports the results to it.

All threads use the membership only with the lock of `changed`, and call its `notify_all` after a change. The loop has a
cluster of its own. Another thread that needs the loop's attention calls `Caller.wakeup`.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Iterable

from kafkasource.errors import BootstrapFailed, DeadlineExceeded, KafkaSourceError
from kafkasource.kafka.cluster.caller import checked
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.routing import GROUP
from kafkasource.kafka.group import requests
from kafkasource.kafka.group.condition import InterruptibleCondition
from kafkasource.kafka.group.consumer_membership import ConsumerMembership
from kafkasource.kafka.group.consumer_protocol import Assignment
from kafkasource.kafka.group.membership import Membership
from kafkasource.kafka.group.racks import NO_RACKS, ReplicaRacks
from kafkasource.kafka.group.states import REQUESTS, MemberAction, MemberState
from kafkasource.kafka.network.pending import Pending
from kafkasource.kafka.protocol.schema import Body
from kafkasource.types import TopicPartition

log = logging.getLogger("kafkasource.group")

LEAVE_MS = 1_000  # what was sent is heard even if it is not answered by then
MOST_WAIT_MS = 60_000.0


class MemberLoop:
    """See the module. `reach_by_ms`: until then a cluster that no bootstrap server leads to is waited for."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        membership: Membership,
        changed: InterruptibleCondition,
        now_ms: Callable[[], float],
        reach_by_ms: float,
    ) -> None:
        self._cluster = cluster
        self._caller = cluster.caller
        self._group = group
        self._membership = membership
        self._changed = changed
        self._now_ms = now_ms
        self._reach_by_ms = reach_by_ms
        self._seen = membership.state
        self._request: MemberAction | None = None
        self._pending: Pending | None = None
        self._counts: dict[str, int] = {}  # as leader: what the assignment was made for
        self._look_again_ms = 0.0

    def run(self) -> None:
        try:
            while self.turn():
                pass
        except Exception as error:  # a bug of ours: no caller may wait for a member whose thread has ended
            with self._changed.lock:
                self._membership.crash(error, self._now_ms())
                self._changed.notify_all()
        finally:
            self._cluster.close()

    def turn(self) -> bool:
        """Do what is due, then wait for what comes next; False: the member is closed."""
        with self._changed.lock:
            self._membership.tick(self._now_ms())
            actions = self._membership.take_actions()
            self._changed.notify_all()
            state, identity = self._membership.state, self._membership.identity
        if state is not self._seen:
            text = "group %r: %s -> %s, as member %r in generation %d"
            log.debug(text, self._group, self._seen.value, state.value, identity.member_id, identity.generation_id)
            self._seen = state
        for action in actions:
            self._carry_out(action)
        with self._changed.lock:
            if self._membership.has_actions:
                return True  # the user closed it, say, while we looked for the coordinator
            if self._membership.state is MemberState.CLOSED:
                return False
            wait = min(self._membership.wait_ms(self._now_ms()), MOST_WAIT_MS)
        if self._pending is None or not self._pending.done:
            self._caller.poll(wait)
        self._take_answer()
        self._watch_partitions()
        return True

    def _carry_out(self, action: MemberAction) -> None:
        if action in REQUESTS or action is MemberAction.ABANDON:
            self._drop_request()
        if action is MemberAction.FIND_COORDINATOR:
            self._cluster.coordinators.forget(GROUP, self._group)
        elif action is MemberAction.LEAVE:
            self._leave()
        elif action in REQUESTS:
            try:
                self._pending, self._request = self._send(action), action
            except Exception as error:
                with self._changed.lock:
                    now_ms = self._now_ms()
                    if isinstance(error, BootstrapFailed) and now_ms < self._reach_by_ms:
                        error = DeadlineExceeded(str(error))
                    self._membership.failed(action, error, now_ms)
                    self._changed.notify_all()  # a FAILED member runs no timers: its next turn may be a minute away

    def _drop_request(self) -> None:
        """The coordinator does nothing for this connection while it holds a JoinGroup or SyncGroup of ours."""
        pending, self._pending = self._pending, None
        if pending is not None and not pending.done and self._request is not MemberAction.HEARTBEAT:
            self._caller.disconnect(pending.node_id)

    def _send(self, action: MemberAction) -> Pending | None:
        with self._caller.giving_up(lambda: self._membership.under_way is not action):  # the user has closed it, say
            node_id = self._cluster.coordinators.of(GROUP, self._group)
            assignments = self._assign() if action is MemberAction.SYNC_AS_LEADER else {}
        with self._changed.lock:
            if self._membership.under_way is not action:
                return None  # something happened while we looked for the coordinator
            api, body, timeout_ms = requests.request_of(action, self._group, self._membership, assignments)
            return self._caller.send(node_id, api, body, timeout_ms=timeout_ms)

    def _leave(self) -> None:
        """Say once that the member leaves. If no broker receives it, the session ends after its timeout."""
        with self._changed.lock:
            identity = self._membership.leaving
        if identity is None:
            return
        api, body = requests.leave_request(self._group, self._membership, identity)
        network = self._cluster.network
        with contextlib.suppress(Exception), self._caller.giving_up(lambda: network.unreachable, after_ms=LEAVE_MS):
            node_id = self._cluster.coordinators.of(GROUP, self._group)
            self._caller.wait(self._caller.send(node_id, api, body))

    def _take_answer(self) -> None:
        pending, request = self._pending, self._request
        if pending is None or request is None or not pending.done:
            return
        self._pending = self._request = None
        answer: Body = {}
        names = self._topic_names(pending, request)
        with self._changed.lock:
            now_ms = self._now_ms()
            try:
                answer = pending.result()
                with self._caller.reading(pending.api):
                    checked(answer, f"{request.value} of group {self._group!r}")
                self._tell(request, answer, names, now_ms)
            except Exception as error:
                self._membership.failed(request, error, now_ms, answer.get("member_id") or "")
            self._changed.notify_all()

    def _topic_names(self, pending: Pending, request: MemberAction) -> dict[uuid.UUID, str]:
        """The names of the topics that the answer assigns. A topic that nobody knows by its id yet is left out."""
        membership = self._membership
        if not isinstance(membership, ConsumerMembership) or pending.error is not None:
            return {}
        rows = (pending.result()["assignment"] or {}).get("topic_partitions", ())
        names = {topic_id: name for name, topic_id in membership.topic_ids.items()}
        if any(row["topic_id"] not in names for row in rows):
            try:
                with self._caller.giving_up(lambda: membership.under_way is not request):
                    found = self._cluster.topics.describe(membership.terms.topics, propagation_ms=0)
            except KafkaSourceError as error:
                log.debug("group %r: the topics of an assignment are not known yet: %s", self._group, error)
                return names
            names |= {topic.topic_id: name for name, topic in found.items() if topic is not None and topic.topic_id}
        return names

    def _tell(self, request: MemberAction, answer: Body, names: dict[uuid.UUID, str], now_ms: float) -> None:
        if isinstance(self._membership, ConsumerMembership):
            self._membership.answered(request, answer, names, now_ms)
        elif request is MemberAction.JOIN:
            self._membership.joined(answer, now_ms)
        elif request is MemberAction.HEARTBEAT:
            self._membership.heartbeat_done(now_ms)
        else:
            self._membership.synced(Assignment.decode(answer["assignment"]), now_ms)

    # As leader.

    def _assign(self) -> dict[str, Assignment]:
        with self._changed.lock:
            members, skip = self._membership.leading, self._membership.skip_assignment
        subscriptions = [member.subscription for member in (members or {}).values()]
        topics = {topic for subscription in subscriptions for topic in subscription.topics}
        counts = self._count(topics)
        racks = self._racks(counts) if any(subscription.rack_id for subscription in subscriptions) else NO_RACKS
        with self._changed.lock:
            if self._membership.leading is not members:
                return {}  # out of date meanwhile
            self._counts = dict.fromkeys(topics, 0) | counts
            return {} if skip else self._membership.assignments(counts, racks)

    def _count(self, topics: Iterable[str]) -> dict[str, int]:
        found = self._cluster.topics.describe(topics, propagation_ms=0) if topics else {}
        self._look_again_ms = self._now_ms() + self._cluster.config.metadata_max_age_ms
        return {name: len(topic.partitions) for name, topic in found.items() if topic is not None}

    def _racks(self, topics: Iterable[str]) -> ReplicaRacks:
        """The racks of the replicas, from the response that `_count` received."""
        metadata = self._cluster.metadata
        rack_of = {node.node_id: node.rack for node in metadata.nodes()}
        return {
            TopicPartition(name, index): frozenset(filter(None, map(rack_of.get, partition.replicas)))
            for name in topics
            if (topic := metadata.topic(name)) is not None
            for index, partition in topic.partitions.items()
        }

    def _watch_partitions(self) -> None:
        """A topic that was made, grew or went: the leader lets the group rebalance (`metadata.max.age.ms`)."""
        with self._changed.lock:
            leads = self._membership.leading is not None and self._membership.state is MemberState.STABLE
        if not leads or self._now_ms() < self._look_again_ms:
            return
        try:
            with self._caller.giving_up(lambda: self._membership.state is not MemberState.STABLE):
                counts = dict.fromkeys(self._counts, 0) | self._count(self._counts)
        except Exception:
            return  # asked again when it is due
        if counts != self._counts:
            with self._changed.lock:
                self._membership.rejoin(self._now_ms())
