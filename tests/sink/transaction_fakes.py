"""A cluster of one that knows transactions, as brokers were seen to answer, and may fail at any call.

Rules by `transaction_version` (Kafka 3.9: 1, Kafka 4: 2), each seen on the real brokers:
- InitProducerId aborts what is open under the id; older epochs then get 47 (produce, offsets) or 90 (the rest).
- EndTxn again with the same outcome is fine until the id is initialised anew; the opposite, or nothing to end: 48.
- Dialect 2 bumps the epoch at each end, and knows a copy of the request by that; dialect 1 does not.
- InitProducerId that names the producer which holds the id (KIP-360) is 90 where another one does; while a transaction
  is ongoing under the id only the producer ids are compared (TransactionCoordinator.prepareInitProducerIdTransit).
- A producer id has 32,767 epochs, of which 32,766 is the last to be given out (32,767 only fences): InitProducerId, and
  dialect 2's end of a transaction, give another id with epoch 0 then. The end may be asked again under the old id.
- A transaction whose time is up is aborted and its epoch bumped: EndTxn is then 90 in dialect 1, 48 in dialect 2.
- Dialect 1 wants partitions and groups added first (48); dialect 2 adds them itself.
- Offsets are forgotten after a while, but those committed with a retention of their own; transactional ids, too.
- Offsets with a transaction still open on them are waited for in vain (here: DeadlineExceeded at once).
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType

from fake_transactions import LAST_EPOCH

from kafkasource.errors import BrokerError, DeadlineExceeded, UnsupportedApiVersion, error_for
from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.kafka.cluster.transactions import Ahead, DescribedTransaction, Listed, ListedTransaction
from kafkasource.types import ProducerId, TopicPartition

OFFSETS = TopicPartition("__consumer_offsets", 0)


class Crash(Exception):
    """The process is gone."""


STREAM = {"streaming.sql.batchId": "0", "sql.streaming.queryId": "q"}


class FakeContext:
    """pyspark's TaskContext of a stream's task, of its first micro-batch where no other is named."""

    def __init__(self, slot=0, attempt=0, *, batch_id=0, query_id="q"):
        self.slot, self.attempt = slot, attempt
        self.properties = STREAM | {"streaming.sql.batchId": str(batch_id), "sql.streaming.queryId": query_id}

    def partitionId(self):
        return self.slot

    def attemptNumber(self):
        return self.attempt

    def cpus(self):
        return 1

    def getLocalProperty(self, key):
        return self.properties.get(key)


@dataclass
class Transaction:
    producer: ProducerId
    state: str = "Empty"
    committed: bool | None = None  # how the last one ended, until the next InitProducerId
    ended_as: ProducerId | None = None  # who had it before dialect 2's last end gave the next epoch or id
    partitions: set[TopicPartition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)

    @property
    def open(self):
        return self.state == "Ongoing"


class FakeTransactionCluster:
    """Logs are lists of ("row", producer id, row) and ("commit" | "abort", producer id, None)."""

    def __init__(self, transaction_version, partitions=3):
        self.version = transaction_version
        self.logs = {TopicPartition("t", number): [] for number in range(partitions)}
        self.by_id: dict[str, Transaction] = {}  # transactional ids
        self.offsets: dict[tuple[str, TopicPartition], tuple[int, str]] = {}
        self.pending: dict[tuple[str, str, TopicPartition], tuple[int, str]] = {}  # by transactional id, too
        self.kept_longer: set[tuple[str, TopicPartition]] = set()
        self.calls: list[str] = []
        self.crash_at: dict[int, str] = {}  # call number: "before" (the request is lost) or "after" (its answer is)
        self.crash_before: str | None = None  # a call whose name begins so
        self.raise_at: dict[int, tuple[str, Exception]] = {}  # the same, as an error instead of a crash
        self._next_id = 1000
        self.unserved = set()  # APIs that these brokers are too old for
        self.transactions = FakeTransactionCalls(self)
        self.caller = self
        self.groups = FakeGroupCalls(self)

    def supports(self, api, version=0):
        return api not in self.unserved

    def _call(self, name, act):
        number = len(self.calls)
        self.calls.append(name)
        if self.crash_before is not None and name.startswith(self.crash_before):
            self.crash_before = None
            raise Crash(name)
        moment, error = self.raise_at.get(number, (self.crash_at.get(number), Crash(f"{number}: {name}")))
        if moment == "before":
            raise error
        answer = act()
        if moment == "after":
            raise error
        return answer

    def _init(self, name, held_by=None):
        known = self.by_id.get(name)
        if held_by is not None and known is not None:  # of an ongoing transaction the epoch is not looked at
            seen = held_by if not known.open else held_by._replace(producer_epoch=known.producer.producer_epoch)
            if seen != known.producer:
                raise error_for(90, name)
        if known is None:
            self._next_id += 1
            known = self.by_id[name] = Transaction(ProducerId(self._next_id, -1))
        if known.open:
            self._end(name, known, False, bump=True)
        known.producer = self._next(known.producer)
        known.state, known.committed, known.ended_as = "Empty", None, None
        return known.producer

    def _next(self, producer):
        if producer.producer_epoch < LAST_EPOCH:
            return producer._replace(producer_epoch=producer.producer_epoch + 1)
        self._next_id += 1
        return ProducerId(self._next_id, 0)

    def giving_up(self, *, after_ms):
        return nullcontext()

    # Tasks write with these.

    def produce(self, name, producer, tp, rows, tv):
        def act():
            known = self._checked(name, producer, 47)
            self._enter(known, known.partitions, tp, tv)
            self.logs[tp] += [("row", producer.producer_id, row) for row in rows]

        self._call(f"produce {name}", act)

    def _checked(self, name, producer, fenced):
        known = self.by_id[name]
        if known.producer.producer_id != producer.producer_id:
            raise error_for(49, name)
        if known.producer != producer:
            raise error_for(fenced, name)
        return known

    def _enter(self, known, entered, what, tv):
        if tv == 2:
            entered.add(what)
            known.state = "Ongoing"
        elif what not in entered:
            raise error_for(48, "not added")

    def _end_txn(self, name, producer, commit, tv) -> BrokerError | None:
        known = self.by_id.get(name)
        if known is None:
            return error_for(49, name)
        again = producer == (known.ended_as if tv == 2 else known.producer)
        if known.committed is not None and again:
            return None if known.committed == commit else error_for(48, name)
        if producer.producer_id != known.producer.producer_id:
            return error_for(49, name)
        if producer != known.producer:
            return error_for(90, name)
        if not known.open:
            return error_for(48, name)
        self._end(name, known, commit, bump=False)
        if tv == 2:
            known.ended_as, known.producer = producer, self._next(producer)
        return None

    def _end(self, name, known, commit, bump):
        for tp in known.partitions:
            self.logs[tp].append(("commit" if commit else "abort", known.producer.producer_id, None))
        for key in [key for key in self.pending if key[0] == name]:
            row = self.pending.pop(key)
            if commit:
                self.offsets[key[1:]] = row
                self.kept_longer.discard(key[1:])
        known.ended_as = known.producer if bump else None
        if bump:
            known.producer = known.producer._replace(producer_epoch=known.producer.producer_epoch + 1)
        known.state, known.committed = "CompleteCommit" if commit else "CompleteAbort", commit
        known.partitions, known.groups = set(), set()

    def time_is_up(self):
        """Every open transaction has been open for longer than it may be."""
        for name, known in self.by_id.items():
            if known.open:
                self._end(name, known, False, bump=True)

    def away_for_weeks(self):
        """Nobody came for longer than brokers keep offsets and transactional ids."""
        self.forget_ids()
        self.forget_offsets()

    def forget_ids(self):
        """Nobody came for `transactional.id.expiration.ms`."""
        self.time_is_up()
        self.by_id = {}

    def forget_offsets(self):
        self.offsets = {key: row for key, row in self.offsets.items() if key in self.kept_longer}

    def cannot_list(self):
        """Brokers before Kafka 3.0 neither list nor describe transactions."""

        def unsupported(*_):
            raise UnsupportedApiVersion("before 3.0")

        self.transactions.list = self.transactions.describe = unsupported
        self.transactions.describing = lambda name: unsupported

    def delete_topic(self, topic):
        self.logs = {tp: log for tp, log in self.logs.items() if tp.topic != topic}
        self.offsets = {key: row for key, row in self.offsets.items() if key[1].topic != topic}
        for known in self.by_id.values():
            known.partitions = {tp for tp in known.partitions if tp.topic != topic}  # nobody waits for their markers


class FakeTransactionCalls:
    """Stands for `Cluster.transactions`."""

    def __init__(self, cluster):
        self.cluster = cluster

    def version(self):
        return self.cluster._call("transaction_version", lambda: self.cluster.version)

    def init_producer_id(self, name, transaction_timeout_ms, held_by=None):
        return self.cluster._call(f"init {name}", lambda: self.cluster._init(name, held_by))

    def init_producer_ids(self, names, transaction_timeout_ms, held_by=MappingProxyType({})):
        def one(name):
            try:
                return self.cluster._init(name, held_by.get(name))
            except BrokerError as error:
                return error

        return {name: self.cluster._call(f"init {name}", lambda name=name: one(name)) for name in names}

    def add_partitions(self, name, producer, partitions):
        def act():
            self.cluster._checked(name, producer, 90).partitions |= set(partitions)
            self.cluster.by_id[name].state = "Ongoing"

        self.cluster._call(f"add partitions {name}", act)

    def add_offsets(self, name, producer, group):
        def act():
            self.cluster._checked(name, producer, 90).groups.add(group)
            self.cluster.by_id[name].state = "Ongoing"

        self.cluster._call(f"add offsets {name}", act)

    def commit_offsets(self, name, producer, group, offsets, tv):
        def act():
            known = self.cluster._checked(name, producer, 47)
            if any(len(text.encode()) > 4096 for _, text in offsets.values()):
                raise error_for(12, name)
            if not set(offsets) <= set(self.cluster.logs):
                raise error_for(3, name)
            self.cluster._enter(known, known.groups, group, tv)
            self.cluster.pending.update(((name, group, tp), row) for tp, row in offsets.items())

        self.cluster._call(f"offsets {name}", act)

    def end(self, name, producer, commit, tv):
        def act():
            error = self.cluster._end_txn(name, producer, commit, tv)
            if error is not None:
                raise error
            return self.cluster.by_id[name].producer

        return self.cluster._call(f"end {name} {commit}", act)

    def end_each(self, transactions, commit, tv):
        """Each its own request: a crash may come between them, and leaves those before ended."""
        return {
            name: self.cluster._call(
                f"end {name} {commit}", lambda name=name, p=producer: self.cluster._end_txn(name, p, commit, tv)
            )
            for name, producer in transactions
        }

    def ahead(self, prefix, transactional_id, groups):
        return Ahead(self.version, lambda: self.list_reachable(prefix))

    def list_reachable(self, prefix):
        return Listed(self.list(prefix), {})

    def list(self, prefix):
        def act():
            found = [(name, known) for name, known in self.cluster.by_id.items() if name.startswith(prefix)]
            return [
                ListedTransaction(n, known.producer.producer_id, known.state, 1) for n, known in found if known.open
            ]

        return self.cluster._call("list", act)

    def describe(self, names, without=()):
        def one(name):
            known = self.cluster.by_id.get(name)
            return known and DescribedTransaction(
                name, known.state, known.producer.producer_id, known.producer.producer_epoch, 600_000, 0, ()
            )

        return self.cluster._call("describe", lambda: {name: one(name) for name in names})

    def describing(self, name):
        found = self.describe([name])[name]
        return lambda: found


class FakeGroupCalls:
    """Stands for `Cluster.groups`."""

    def __init__(self, cluster):
        self.cluster = cluster

    def committed(self, group, partitions, require_stable=True):
        def act():
            if require_stable and any(of == group for _, of, _ in self.cluster.pending):
                raise DeadlineExceeded("UNSTABLE_OFFSET_COMMIT (88)")
            return {tp: row for (of, tp), row in self.cluster.offsets.items() if of == group}

        return self.cluster._call("fetch committed", act)

    def keep(self, group, offsets, retention_ms):
        def act():
            if not set(offsets) <= {*self.cluster.logs, OFFSETS}:
                raise error_for(3, group)
            self.cluster.offsets.update(((group, tp), row) for tp, row in offsets.items())
            self.cluster.kept_longer.update((group, tp) for tp in offsets)

        self.cluster._call("keep", act)


class CommitsOtherwise(ExactlyOnce):
    """The driver's side, which calls `end_tasks` to commit the task transactions of a decided batch."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.tasks = self._prefix.tasks
        self.commit_all, self.tasks.commit_all = self.tasks.commit_all, self.end_tasks

    def end_tasks(self, decision, transactions):
        """A test's own. Returns the transactions that are gone."""
        return self.commit_all(decision, transactions)


def but_first(act):
    """The driver's side, where this happens between the decision and the commit of the task transactions."""

    class ButFirst(CommitsOtherwise):
        def end_tasks(self, decision, transactions):
            act()
            return super().end_tasks(decision, transactions)

    return ButFirst


def read_committed(log):
    """What a reader with isolation.level=read_committed sees: written without a line of the sink's."""
    seen, held = [], {}
    for kind, producer_id, row in log:
        if kind == "row":
            held.setdefault(producer_id, []).append(row)
        else:
            rows = held.pop(producer_id, [])
            seen += rows if kind == "commit" else []
    return seen


def still_open(log):
    held = set()
    for kind, producer_id, _ in log:
        held = held | {producer_id} if kind == "row" else held - {producer_id}
    return held
