"""The client's knowledge of brokers, topics and leaders, and when to ask again. No I/O: `NetworkClient` asks.

When to ask: at once when somebody called `request_update`, else when the last success is `metadata_max_age_ms` old; but
never sooner after the last attempt, successful or not, than the retry backoff. What an answer may change: brokers are
replaced as a whole, topics one by one. An older leader epoch replaces a newer one only where brokers agree
(`_are_agreed`), and a topic that fails for the moment (no leader yet) keeps what was known of it. An answer about all
topics removes the topics that it does not name, but a wanted topic only after an answer about that topic has said so.
Times are milliseconds of the client's clock.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from kafkasource.errors import (
    BrokerError,
    ClusterMismatch,
    InvalidTopic,
    LeaderNotAvailable,
    ProtocolError,
    RebootstrapRequired,
    TopicAuthorizationFailed,
    error_for,
    row_of,
)
from kafkasource.kafka.config import ClientConfig, backoff_ms
from kafkasource.kafka.network.log_view import LogView, Verdict, compare
from kafkasource.kafka.protocol.schema import Body, Fields
from kafkasource.types import Node, TopicPartition

log = logging.getLogger("kafkasource.client")

NO_ID = uuid.UUID(int=0)
EPOCHS_HOLD = 9
"""The version of Metadata from which on its leader epochs can be relied on. Brokers before 2.4 serve older ones: while
a partition is reassigned, they tell an epoch that the leader has left behind, and the leader refuses each request that
names it (KAFKA-9212). Java's client ignores these epochs, too."""
_FINAL_FOR_TOPIC = (TopicAuthorizationFailed.CODE, InvalidTopic.CODE)
_AGREED_ANSWERS = 5  # franz-go's maxEpochRewinds
_NAMED = 50  # partitions in a line of the log
_MAX_BROKERS, _MAX_PARTITIONS = 10_000, 1_000_000  # of one answer; nothing real comes near
_INTERNAL = ("__consumer_offsets", "__transaction_state")  # brokers before 0.10 do not say so


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    partition: int
    leader_id: int | None  # None: no leader at the moment
    leader_epoch: int | None  # None: the broker is too old to tell
    replicas: tuple[int, ...] = ()
    in_sync_replicas: tuple[int, ...] = ()
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic. `partitions` holds every partition that exists, by number, with or without a leader."""

    name: str
    topic_id: uuid.UUID | None  # None: the broker is too old to tell (< 2.8). A recreated topic has another
    internal: bool
    partitions: dict[int, PartitionMetadata] = field(default_factory=dict)

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, partition) for partition in sorted(self.partitions)]


class Metadata:
    """The cache. Owned by the thread that polls; others may read `topic`, `partition`, `node` (a dict look-up each)."""

    def __init__(self, config: ClientConfig) -> None:
        self._expire_ms = config.metadata_max_age_ms
        self._backoff = (config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._last_refresh_ms = float("-inf")  # the last attempt's end
        self._last_success_ms = float("-inf")
        self._wait_ms = 0.0  # after the last attempt
        self._failures = 0
        self._requested = False
        self._wanted: set[str] = set()
        self._unasked: set[str] = set()  # wanted since the last answer
        self.max_idle_ms: float | None = None  # a wanted topic that nobody uses for this long is forgotten; None: never
        self._used: set[str] = set()  # since the last answer
        self._used_ms: dict[str, float] = {}  # of those wanted: the first answer after their last use
        self._topics: dict[str, TopicMetadata] = {}
        self._rewound: dict[str, list[int | None]] = {}  # topics: nodes that gave an older epoch, answer by answer
        self._unusable: frozenset[str] = frozenset()  # what is wrong with addresses that the last answer had
        self._nodes: dict[int, Node] = {}
        self._taken: list[Body] | None = None  # the topics of the last answer, while nothing has changed since
        self._taken_of_all = False  # it came to a question about all topics
        self.version = 0  # counts successful updates
        self.cluster_id: str | None = None
        self.controller_id: int | None = None
        self.rebootstrap = False  # a broker said that what we know is too old (error 129)
        self.topic_errors: dict[str, int] = {}  # of the last answer that spoke of the topic; no entry: no error

    # Questions about the metadata.

    def __str__(self) -> str:
        """Print the metadata as Java's Cluster does; the first partitions only."""
        nodes = ", ".join(f"{node.host}:{node.port} (id: {node.node_id} rack: {node.rack})" for node in self.nodes())
        topics = list(self._topics.values())
        named = islice(((topic.name, partition) for topic in topics for partition in topic.partitions.values()), _NAMED)
        partitions = ", ".join(
            f"Partition(topic = {topic}, partition = {known.partition}, leader = {known.leader_id}, "
            f"replicas = {list(known.replicas)}, isr = {list(known.in_sync_replicas)})"
            for topic, known in named
        )
        more = sum(len(topic.partitions) for topic in topics) - _NAMED
        rest = f" and {more} more" if more > 0 else ""
        return f"Cluster(id = {self.cluster_id}, nodes = [{nodes}], partitions = [{partitions}{rest}])"

    def topic(self, name: str) -> TopicMetadata | None:
        return self._topics.get(name)

    def topics(self) -> Iterator[TopicMetadata]:
        return iter(list(self._topics.values()))

    @property
    def known(self) -> int:
        """How many topics are remembered."""
        return len(self._topics)

    def partition(self, tp: TopicPartition) -> PartitionMetadata | None:
        topic = self._topics.get(tp.topic)
        return topic.partitions.get(tp.partition) if topic else None

    def view(self, tp: TopicPartition) -> LogView | None:
        """Get what identifies the partition's log. None: no such partition is known."""
        topic = self._topics.get(tp.topic)
        known = topic.partitions.get(tp.partition) if topic else None
        return None if topic is None or known is None else LogView(topic.topic_id, known.leader_epoch)

    def topic_id(self, name: str) -> uuid.UUID | None:
        """None: the topic is not known, or the brokers are too old for ids (< 2.8)."""
        topic = self._topics.get(name)
        return topic.topic_id if topic else None

    def leader_id(self, tp: TopicPartition) -> int | None:
        """The node to ask about a partition; None: unknown, leaderless, or led by a broker that is not registered."""
        known = self.partition(tp)
        return known.leader_id if known and known.leader_id in self._nodes else None

    def node(self, node_id: int) -> Node | None:
        return self._nodes.get(node_id)

    def nodes(self) -> list[Node]:
        return list(self._nodes.values())

    # When to ask.

    def want(self, topics: Iterable[str]) -> bool:
        """Keep these topics up to date from now on. True: some were not wanted before, so an update is requested."""
        topics = set(topics)
        new = topics - self._wanted
        self.keep(topics)
        if new:
            self._unasked |= new
            self._last_refresh_ms = float("-inf")  # the wait is for repeated questions; this is a new one
            self.request_update()
        return bool(new)

    def keep(self, topics: Iterable[str]) -> None:
        """Add topics to every later metadata request. For a caller that sends the first request itself."""
        topics = set(topics)
        self._used |= topics
        self._wanted |= topics

    def use(self, topic: str) -> None:
        """It is not idle (`max_idle_ms`). Any thread."""
        self._used.add(topic)

    def _forget_idle(self, now_ms: float, of_all: bool) -> None:
        """Forget topics that nobody uses, as Java's producer does: a deleted topic would be asked about for ever.

        A topic that an answer about all topics named stays known until the next such answer.
        """
        if self.max_idle_ms is None:
            return
        used, self._used = self._used, set()
        for topic in self._wanted:
            if topic in used or topic not in self._used_ms:
                self._used_ms[topic] = now_ms
        idle = [topic for topic in self._wanted if now_ms - self._used_ms[topic] >= self.max_idle_ms]
        if of_all:
            self._wanted.difference_update(idle)
            for topic in idle:
                del self._used_ms[topic]
        else:
            self.forget(idle)

    def forget(self, topics: Collection[str]) -> None:
        if topics:
            self._taken = None
        for topic in topics:
            self._wanted.discard(topic)
            self._topics.pop(topic, None)
            self._rewound.pop(topic, None)
            self.topic_errors.pop(topic, None)
            self._used_ms.pop(topic, None)

    @property
    def wanted(self) -> list[str]:
        return sorted(self._wanted)

    def request_update(self) -> int:
        """Ask for an update as soon as the backoff allows. Returns the version that is now out of date."""
        self._requested = True
        return self.version

    def time_to_next_update(self, now_ms: float) -> float:
        """Milliseconds until the next request is due; 0: now."""
        to_expire = 0.0 if self._requested else max(self._last_success_ms + self._expire_ms - now_ms, 0.0)
        to_allow = self._last_refresh_ms + self._wait_ms - now_ms
        return max(to_expire, to_allow, 0.0)

    # Results of an attempt.

    def failed(self, now_ms: float, random: float) -> None:
        """The attempt failed: wait longer before each further one."""
        self._last_refresh_ms = now_ms
        self._wait_ms = backoff_ms(self._failures, *self._backoff, random)
        self._failures += 1

    def update(
        self,
        body: Body,
        now_ms: float,
        random: float = 0.5,
        *,
        epochs_hold: bool = True,
        of_all: bool = False,
        node_id: int | None = None,
    ) -> None:
        """Take in a Metadata response. Raises ClusterMismatch, ProtocolError, or LeaderNotAvailable where the broker
        has nothing to tell yet (nothing is changed then). `epochs_hold`: its leader epochs count (`EPOCHS_HOLD`).
        `of_all`: the question was about all topics. `node_id`: of the node that answered; None: not known.

        The topics are the same list again where an answer says the same of them (`LastMetadata`): there is nothing
        to take.
        """
        same = body["topics"] is self._taken and not self._rewound  # else it counts that another node says the same
        self._take(body, epochs_hold, node_id, same_topics=same)
        if of_all and not (same and self._taken_of_all):  # the same may have answered a question about some topics
            self._drop_unnamed(body)
        self._taken, self._taken_of_all = body["topics"], of_all or (same and self._taken_of_all)
        self._forget_idle(now_ms, of_all)
        self.version += 1
        self._last_refresh_ms = self._last_success_ms = now_ms
        self._requested = False
        # Also after success there is a wait, or a caller with a stale leader would ask in a tight loop; and it grows
        # while answers leave something open.
        self._wait_ms = backoff_ms(self._failures, *self._backoff, random)
        self._failures = self._failures + 1 if self.topic_errors else 0
        if self._unasked:
            # Wanted while this question was under way already? That is a new one too, but only once: an answer about
            # all topics says nothing of one that does not exist.
            answered = {topic["name"] for topic in body["topics"]}
            if not self._unasked <= answered:
                self._last_refresh_ms = float("-inf")
                self._requested = True
            self._unasked = set()

    def _take(self, body: Body, epochs_hold: bool, node_id: int | None, same_topics: bool) -> None:
        if body.get("error_code") == RebootstrapRequired.CODE:
            self.rebootstrap = True
            raise error_for(LeaderNotAvailable.CODE, "the client's list of brokers is too old (REBOOTSTRAP_REQUIRED)")
        nodes = self._usable(body["brokers"][:_MAX_BROKERS])
        cluster_id = body.get("cluster_id")
        if self.cluster_id is not None and cluster_id is not None and cluster_id != self.cluster_id:
            raise ClusterMismatch(
                f"cluster {cluster_id} answered where cluster {self.cluster_id} was seen first: all of"
                " kafka.bootstrap.servers must belong to one cluster, also after a restart or a DNS change"
            )
        if not nodes:  # what it says of topics is as empty
            raise error_for(LeaderNotAvailable.CODE, "a broker that is still starting names no broker, not even itself")
        if not same_topics:
            self._taken = None  # until all of it is in
            said_by = None if node_id is None or node_id < 0 else node_id  # a bootstrap server is one of the nodes
            for topic in body["topics"]:
                self._take_topic(topic, epochs_hold, said_by, nodes)
        self._nodes = nodes
        self.cluster_id = cluster_id or self.cluster_id
        controller = body.get("controller_id", -1)
        self.controller_id = controller if controller in nodes else None

    def _usable(self, brokers: Iterable[Body]) -> dict[int, Node]:
        """The brokers by id. One whose address cannot be used is left out: its partitions have no leader here.

        Raises ProtocolError where that leaves none.
        """
        nodes, unusable = {}, {}
        for broker in brokers:
            try:
                nodes[broker["node_id"]] = _node(broker)
            except ProtocolError as error:
                unusable[str(error)] = error
        if unusable and not nodes:
            raise next(iter(unusable.values()))
        for text in unusable.keys() - self._unusable:
            log.warning("%s. The other brokers are used, and its partitions cannot be reached", text)
        self._unusable = frozenset(unusable)
        return nodes

    def _drop_unnamed(self, body: Body) -> None:
        """Forget topics that are not in an answer about all topics, as Java's client does.

        A wanted topic goes only if a broker that was asked for it has denied it, too: this broker may not know it yet.
        """
        named = {topic["name"] for topic in body["topics"]}
        self.forget([name for name in self._wanted - named if row_of(self.topic_errors.get(name, 0)).no_such_topic])
        for known in (self._topics, self._rewound, self.topic_errors):
            for name in known.keys() - named - self._wanted:
                del known[name]

    def _take_topic(self, topic: Body, epochs_hold: bool, said_by: int | None, nodes: Collection[int]) -> None:
        """`said_by`: the id of the node that answered, if it is known; `nodes`: those of the answer."""
        name, code = topic["name"], topic["error_code"]
        if name is None:
            return
        if code:
            self.topic_errors[name] = code
            if row_of(code).no_such_topic:
                self._topics.pop(name, None)
                self._rewound.pop(name, None)
            return
        self.topic_errors.pop(name, None)
        if len(topic["partitions"]) > _MAX_PARTITIONS:
            raise ProtocolError(f"topic {name!r} with {len(topic['partitions'])} partitions")
        topic_id = topic.get("topic_id")
        internal = bool(topic.get("is_internal")) or name in _INTERNAL
        fresh = TopicMetadata(name, None if topic_id == NO_ID else topic_id, internal)
        for raw in topic["partitions"]:
            partition = _partition(raw)
            fresh.partitions[partition.partition] = partition if epochs_hold else replace(partition, leader_epoch=None)
        newer = self._newer_known(fresh) if epochs_hold else []
        if not newer:
            self._rewound.pop(name, None)
        elif not self._are_agreed(name, said_by, nodes):
            fresh.partitions.update((known.partition, known) for known in newer)
        self._topics[name] = fresh

    def _newer_known(self, fresh: TopicMetadata) -> list[PartitionMetadata]:
        """Find the known partitions that have newer epochs in the same topic. Fills in epochs that `fresh` lacks."""
        before = self._topics.get(fresh.name)
        if before is None or compare(LogView(before.topic_id), LogView(fresh.topic_id)) is Verdict.ANOTHER_TOPIC:
            return []
        newer = []
        for number, partition in fresh.partitions.items():
            known = before.partitions.get(number)
            if known is None or known.leader_epoch == partition.leader_epoch:
                continue
            now = LogView(fresh.topic_id, partition.leader_epoch)
            if compare(LogView(before.topic_id, known.leader_epoch), now).is_doubtful:
                newer.append(known)
            elif partition.leader_epoch is None:
                fresh.partitions[number] = replace(partition, leader_epoch=known.leader_epoch)
        return newer

    def _are_agreed(self, topic: str, said_by: int | None, nodes: Collection[int]) -> bool:
        """Decide whether older epochs than the known ones count, now that a node has given some.

        A broker that lags behind gives them. So do all brokers where the topic was made again and has no id. So two
        nodes must say so, or all nodes where there is only one, or five answers in a row, as for franz-go.
        """
        answers = self._rewound.setdefault(topic, [])
        answers.append(said_by)
        agreeing = {node for node in answers if node is not None}
        agreed = len(agreeing) > 1 or agreeing >= set(nodes) or len(answers) >= _AGREED_ANSWERS
        if agreed:
            log.info("leader epochs of topic %r are older than known ones, and brokers agree on them", topic)
            del self._rewound[topic]
        return agreed


def topic_error(code: int, context: str) -> BrokerError:
    """The error of a topic in an answer to Metadata.

    Only a name that is not valid and a missing permission for the topic are final, as in Java's clients. A server that
    starts or stops may say any other code, and something else to the next question.
    """
    return error_for(code, context, retriable=code not in _FINAL_FOR_TOPIC)


def _node(broker: Body) -> Node:
    host, port = broker["host"], broker["port"]
    if not 0 < len(host) <= 255 or not host.isprintable() or not 0 < port <= 65535:
        raise ProtocolError(f"a broker advertises the address {host[:255]!r}:{port}: check its advertised.listeners")
    if broker["node_id"] < 0:  # those below 0 are our names for bootstrap servers
        raise ProtocolError(f"a broker at {host}:{port} has the node id {broker['node_id']}")
    return Node(broker["node_id"], host, port, broker.get("rack"))


def _partition(raw: Body) -> PartitionMetadata:
    leader, epoch = raw["leader_id"], raw.get("leader_epoch", -1)
    return PartitionMetadata(
        raw["partition_index"],
        leader if leader >= 0 else None,
        epoch if epoch >= 0 else None,
        tuple(raw["replica_nodes"]),
        tuple(raw["isr_nodes"]),
        raw["error_code"],
    )


def metadata_body(topics: list[str] | None) -> Callable[[int], Fields]:
    """A Metadata request for these topics (none: the brokers only), or for all with None; never creates a topic."""

    def body(version: int) -> Fields:
        everything: list[Fields] | None = [] if version == 0 else None
        wanted: Body = {"topics": everything if topics is None else [{"name": name} for name in topics]}
        if version >= 4:  # before, a broker with auto.create.topics.enable creates what it is asked about
            wanted["allow_auto_topic_creation"] = False
        return wanted

    return body
