"""The group is told what the query has finished: in order, not too often, and never at the query's expense."""

import logging
import os
import signal
import subprocess
import sys
import threading
import uuid
from dataclasses import replace
from itertools import pairwise

import pytest
from fake_broker import Answer, Error, FakeKafka, FakeNet
from hypothesis import given
from hypothesis import strategies as st

from kafkasource import options
from kafkasource.errors import (
    ConnectionLost,
    DeadlineExceeded,
    GroupAuthorizationFailed,
    UnknownMemberId,
)
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import FIND_COORDINATOR, OFFSET_COMMIT
from kafkasource.source.commits.committer import CommitLedger, GroupCommitter, group_to_commit
from kafkasource.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
CONFIG = ClientConfig.of("broker:9092")
LIVE_MEMBERS = UnknownMemberId(25, "OffsetCommit of 'g'")


class Scripted:
    """A cluster that meets each commit with the next of `outcomes`: an error to raise, or None as for all later."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.commits = []
        self.groups = self
        self.groups_asked = set()
        self.closed = False
        self.may_answer = threading.Event()
        self.may_answer.set()

    def commit(self, group, offsets):
        self.groups_asked.add(group)
        self.commits.append(dict(offsets))
        assert self.may_answer.wait(60)
        error = self.outcomes.pop(0) if self.outcomes else None
        if error is not None:
            raise error

    def close(self):
        self.closed = True


class Clock:
    now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def committing():
    """`committing(cluster)`: a committer whose clock stands still, closed after the test."""
    made = []

    def make(cluster):
        made.append(GroupCommitter(CONFIG, "g", open_cluster=lambda config: cluster, clock=Clock()))
        return made[-1]

    yield make
    for committer in made:
        committer.close()


@pytest.mark.parametrize(
    ("given_options", "group"),
    [
        ({}, None),
        ({"kafka.group.id": "g"}, "g"),
        ({"kafka.group.id": "g", "commitOffsets": "false"}, None),
        ({"groupIdPrefix": "p"}, None),
        ({"groupIdPrefix": "p", "commitOffsets": "true"}, "p"),
        ({"groupIdPrefix": "p", "kafka.group.id": "g", "commitOffsets": "true"}, "g"),
    ],
)
def test_a_named_group_is_committed_to_unless_told_otherwise(given_options, group):
    required = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "t"}
    assert group_to_commit(options.parse({**required, **given_options}, "source")) == group


# What is due when.


def committed_by(ledger, now_s):
    """Commit what is due, as the thread does."""
    offsets = dict(ledger.due(now_s))
    if offsets:
        ledger.committed(offsets, now_s)
    return offsets


def test_the_first_offer_is_due_at_once():
    ledger = CommitLedger()
    assert ledger.due(5.0) == {}
    assert ledger.wait_s(5.0) is None
    ledger.offer({T0: 1}, {})
    assert ledger.wait_s(5.0) == 0
    assert committed_by(ledger, 5.0) == {T0: 1}


def test_within_a_second_only_the_newest_is_committed():
    ledger = CommitLedger()
    ledger.offer({T0: 1}, {})
    committed_by(ledger, 5.0)
    for offset in (2, 3, 4):
        ledger.offer({T0: offset}, {})
        assert ledger.due(5.25) == {}
    assert ledger.wait_s(5.25) == 0.75
    assert committed_by(ledger, 6.0) == {T0: 4}


def test_what_the_group_knows_is_not_sent_again():
    ledger = CommitLedger()
    ledger.offer({T0: 1, T1: 1}, {})
    committed_by(ledger, 5.0)
    ledger.offer({T0: 1, T1: 2, U0: 0}, {})
    assert committed_by(ledger, 6.0) == {T1: 2, U0: 0}


def test_an_offset_never_goes_back():
    ledger = CommitLedger()
    ledger.offer({T0: 10, T1: 1}, {})
    committed_by(ledger, 5.0)
    ledger.offer({T0: 9, T1: 2}, {})
    assert committed_by(ledger, 6.0) == {T1: 2}


def test_under_a_later_leader_an_offset_goes_back_as_the_truncated_log_did():
    """Else the group would be above what the query has read, and who starts from it would not read what is between."""
    ledger = CommitLedger()
    ledger.offer({T0: 150, T1: 9}, {}, {T0: 5, T1: 5})
    committed_by(ledger, 5.0)
    ledger.offer({T0: 130, T1: 8}, {}, {T0: 6, T1: 5})
    assert committed_by(ledger, 6.0) == {T0: 130}
    ledger.offer({T0: 140, T1: 9}, {}, {T0: 6, T1: 5})
    assert committed_by(ledger, 7.0) == {T0: 140}


def test_an_end_under_an_earlier_leader_that_comes_late_is_not_newer_however_high():
    ledger = CommitLedger()
    ledger.offer({T0: 130}, {}, {T0: 6})
    committed_by(ledger, 5.0)
    ledger.offer({T0: 150, T1: 1}, {}, {T0: 5, T1: 0})
    assert committed_by(ledger, 6.0) == {T1: 1}
    ledger.offer({T0: 140, T1: 1}, {}, {T0: 6, T1: 0})
    assert committed_by(ledger, 7.0) == {T0: 140}


def test_a_topic_created_again_begins_anew_though_its_epochs_are_earlier():
    ledger = CommitLedger()
    ledger.offer({T0: 10}, {"t": uuid.uuid4()}, {T0: 5})
    committed_by(ledger, 5.0)
    ledger.offer({T0: 3}, {"t": uuid.uuid4()}, {T0: 0})
    assert committed_by(ledger, 6.0) == {T0: 3}


def test_a_topic_created_again_begins_anew():
    ledger, old, new = CommitLedger(), uuid.uuid4(), uuid.uuid4()
    ledger.offer({T0: 10, U0: 10}, {"t": old, "u": old})
    committed_by(ledger, 5.0)
    ledger.offer({T0: 3, U0: 9}, {"t": new, "u": old})
    assert committed_by(ledger, 6.0) == {T0: 3}


def test_a_topic_whose_id_becomes_known_later_is_the_same():
    ledger = CommitLedger()
    ledger.offer({T0: 10}, {})
    ledger.offer({T0: 3}, {"t": uuid.uuid4()})
    assert committed_by(ledger, 5.0) == {T0: 10}


def test_a_partition_that_is_not_offered_any_more_is_forgotten():
    """It may come back: brokers drop the offsets of a topic that is deleted."""
    ledger = CommitLedger()
    ledger.offer({T0: 1, U0: 5}, {})
    ledger.offer({T0: 1}, {})
    assert committed_by(ledger, 5.0) == {T0: 1}
    ledger.offer({T0: 1, U0: 5}, {})
    assert committed_by(ledger, 6.0) == {U0: 5}
    ledger.offer({T0: 1}, {})
    ledger.offer({T0: 1, U0: 5}, {})
    assert committed_by(ledger, 7.0) == {U0: 5}


def test_all_is_committed_again_before_brokers_forget_it():
    ledger = CommitLedger()
    ledger.offer({T0: 1, T1: 1}, {})
    committed_by(ledger, 0.0)
    ledger.offer({T0: 2, T1: 1}, {})
    committed_by(ledger, 300.0)
    assert ledger.wait_s(300.0) == 300.0
    assert ledger.due(599.0) == {}
    assert committed_by(ledger, 600.0) == {T0: 2, T1: 1}
    assert ledger.wait_s(601.0) == 599.0


def test_failures_are_tried_again_later_and_later_and_once_a_minute_at_last():
    ledger, now_s, waits = CommitLedger(), 0.0, []
    ledger.offer({T0: 1}, {})
    for _ in range(9):
        assert ledger.due(now_s) == {T0: 1}
        ledger.failed(now_s)
        waits.append(ledger.wait_s(now_s))
        now_s += waits[-1]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    committed_by(ledger, now_s)
    ledger.offer({T0: 2}, {})
    ledger.failed(now_s)
    assert ledger.wait_s(now_s) == 1


offers = st.fixed_dictionaries(dict.fromkeys([T0, T1, U0], st.integers(0, 9)))


@given(st.lists(st.one_of(offers, st.integers(0, 700), st.booleans()), max_size=40))
def test_commits_go_up_are_a_second_apart_and_end_at_the_newest(script):
    """A dict is an offer, a number lets time pass, a boolean says how the next commit goes."""
    ledger, now_s, sent, newest, works = CommitLedger(), 0.0, [], {}, True
    for step in script:
        if isinstance(step, dict):
            ledger.offer(step, {})
            newest = {tp: max(offset, newest.get(tp, 0)) for tp, offset in step.items()}
        elif isinstance(step, bool):
            works = step
        else:
            now_s += step
        offsets = dict(ledger.due(now_s))
        if offsets and works:
            ledger.committed(offsets, now_s)
            sent.append((now_s, offsets))
        elif offsets:
            ledger.failed(now_s)
    now_s += ledger.wait_s(now_s) or 0
    final = committed_by(ledger, now_s)
    if final:
        sent.append((now_s, final))
    assert all(later - earlier >= 1 for (earlier, _), (later, _) in pairwise(sent))
    group = {}
    for _, offsets in sent:
        assert all(offset >= group.get(tp, 0) for tp, offset in offsets.items())
        group.update(offsets)
    assert group == newest


# The thread.


def test_close_sends_what_is_pending_and_no_more(committing):
    cluster = Scripted()
    committer = committing(cluster)
    for offset in range(1, 101):
        committer.offer({T0: offset})
    committer.close()
    assert cluster.commits == [{T0: 1}, {T0: 100}]
    assert cluster.groups_asked == {"g"}
    assert cluster.closed


def test_flush_returns_when_the_group_knows(committing):
    cluster = Scripted()
    committer = committing(cluster)
    committer.offer({T0: 1})
    committer.offer({T0: 2})
    committer.flush()
    assert cluster.commits[-1] == {T0: 2}
    assert not cluster.closed
    committer.flush()
    assert cluster.commits == [{T0: 1}, {T0: 2}]


def test_an_idle_query_commits_once(committing):
    cluster = Scripted()
    committer = committing(cluster)
    for _ in range(100):
        committer.offer({T0: 1})
    committer.flush()
    assert cluster.commits == [{T0: 1}]


def test_a_topic_created_again_with_as_many_records_is_committed_again(committing):
    """Brokers delete a group's offsets with the topic."""
    cluster = Scripted()
    committer = committing(cluster)
    for topic_id in (uuid.uuid4(), uuid.uuid4()):
        committer.offer({T0: 1}, {"t": topic_id})
        committer.flush()
    assert cluster.commits == [{T0: 1}, {T0: 1}]


def test_nothing_is_opened_before_the_first_offer(committing):
    opened = []
    committer = GroupCommitter(CONFIG, "g", open_cluster=opened.append)
    committer.offer({})
    committer.flush()
    committer.close()
    assert opened == []
    assert "kafkasource-group-offsets" not in [thread.name for thread in threading.enumerate()]


def test_an_offer_does_not_wait_for_a_broker_that_hangs(committing):
    cluster = Scripted()
    cluster.may_answer.clear()
    committer = committing(cluster)
    for offset in range(1, 51):
        committer.offer({T0: offset})
    committer.flush(timeout_s=0)
    cluster.may_answer.set()
    committer.flush()
    assert cluster.commits == [{T0: 1}, {T0: 50}]


def test_close_gives_up_on_a_broker_that_hangs(committing):
    cluster = Scripted()
    cluster.may_answer.clear()
    committer = committing(cluster)
    committer.offer({T0: 1})
    committer.close(timeout_s=0)
    assert not cluster.closed
    cluster.may_answer.set()


def test_a_group_with_live_members_is_warned_of_once(committing, caplog):
    cluster = Scripted(LIVE_MEMBERS, LIVE_MEMBERS, LIVE_MEMBERS)
    committer = committing(cluster)
    for offset in (1, 2, 3, 4):
        committer.offer({T0: offset})
        committer.flush()
    assert cluster.commits[-1] == {T0: 4}
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "the consumer group 'g'" in warning
    assert "UNKNOWN_MEMBER_ID (25)" in warning
    assert "live members" in warning
    assert "The query goes on" in warning


def test_each_kind_of_failure_is_warned_of_and_an_unreachable_cluster_is_one_kind(committing, caplog):
    def late(cause):
        error = DeadlineExceeded("not done in time")
        error.__cause__ = cause
        return error

    cluster = Scripted(
        late(ConnectionLost("cut")),
        ConnectionLost("cut"),
        DeadlineExceeded("?"),
        GroupAuthorizationFailed(30, "g"),
        ZeroDivisionError("a bug"),
    )
    committer = committing(cluster)
    for offset in range(1, 7):
        committer.offer({T0: offset})
        committer.flush()
    assert cluster.commits[-1] == {T0: 6}
    assert [record.levelno for record in caplog.records if record.levelno >= logging.WARNING] == [logging.WARNING] * 3


@pytest.mark.parametrize("timeout_ms", [60_000, 1_000])  # beyond the time that news of topics take, and below
def test_topics_that_were_deleted_do_not_hold_up_the_others(caplog, timeout_ms):
    """The coordinator has committed the other partitions of the request."""
    kafka = FakeKafka(topics={"t": 2})
    net = FakeNet(kafka)
    committer = GroupCommitter(
        replace(CONFIG, default_api_timeout_ms=timeout_ms),
        "g",
        open_cluster=lambda config: net.cluster(default_api_timeout_ms=config.default_api_timeout_ms),
        clock=lambda: net.now,
    )
    committer.offer({U0: 1, T0: 1})
    committer.flush()
    committer.offer({U0: 1, T0: 2})
    committer.close()
    assert kafka.committed == {("g", "t", 0): 2}
    sent = [
        {(t["name"], p["partition_index"]) for t in one.body["topics"] for p in t["partitions"]}
        for one in kafka.asked(OFFSET_COMMIT)
    ]
    assert sent[-1] == {("t", 0)}  # what the group cannot take is not sent again
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_another_failure_beside_a_deleted_topic_is_not_taken_for_a_commit(caplog):
    kafka = FakeKafka(topics={"t": 2})
    net = FakeNet(kafka)
    rows = [
        {"name": "u", "partitions": [{"partition_index": 0, "error_code": 3}]},
        {"name": "t", "partitions": [{"partition_index": 0, "error_code": 29}]},
    ]
    kafka.fault(OFFSET_COMMIT, Answer({"topics": rows}))
    committer = GroupCommitter(CONFIG, "g", open_cluster=lambda config: net.cluster(), clock=lambda: net.now)
    committer.offer({U0: 1, T0: 1})
    committer.flush()
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "TOPIC_AUTHORIZATION_FAILED" in warning
    committer.close()
    assert kafka.committed == {("g", "t", 0): 1}


def test_a_coordinator_that_moves_and_loads_is_found_and_waited_for(caplog):
    kafka = FakeKafka(nodes=2, topics={"t": 2})
    net = FakeNet(kafka)
    kafka.coordinator = 1
    kafka.fault(OFFSET_COMMIT, Error(16), Error(14), Error(14))

    def open_cluster(config):
        assert config.default_api_timeout_ms == 10_000  # a newer commit is due before the query's own minute is over
        return net.cluster()

    committer = GroupCommitter(CONFIG, "g", open_cluster=open_cluster)
    committer.offer({T0: 5, T1: 7})
    committer.close()
    assert kafka.committed == {("g", "t", 0): 5, ("g", "t", 1): 7}
    assert len(kafka.asked(OFFSET_COMMIT)) == 4
    assert len(kafka.asked(FIND_COORDINATOR)) == 4  # each of these codes asks for it again
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_after_close_an_offer_begins_anew(committing):
    cluster = Scripted()
    committer = committing(cluster)
    committer.offer({T0: 1})
    committer.close()
    committer.offer({T0: 1})
    committer.close()
    assert cluster.commits == [{T0: 1}, {T0: 1}]


# Processes.


def test_a_forked_child_has_a_thread_of_its_own_and_sends_nothing_of_its_parents(committing):
    opened = []

    def open_cluster(config):
        opened.append(Scripted())
        return opened[-1]

    committer = GroupCommitter(CONFIG, "g", open_cluster=open_cluster, clock=Clock())
    committer.offer({T0: 1})
    committer.flush()
    committer.offer({T0: 2})  # pending: the clock stands still
    child = os.fork()
    if child == 0:
        status = 1
        try:
            committer.flush(timeout_s=0)
            committer.offer({T1: 8})
            committer.close()
            status = 0 if opened[1].commits == [{T1: 8}] and opened[0].commits == [{T0: 1}] else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    committer.close()
    assert opened[0].commits == [{T0: 1}, {T0: 2}]


SENDER = """
import os, sys, threading
from kafkasource.kafka.config import ClientConfig
from kafkasource.source.commits.committer import GroupCommitter
from kafkasource.types import TopicPartition

class Printing:
    @property
    def groups(self):
        return self

    def commit(self, group, offsets):
        # Not print: the signal may interrupt the main thread's own print, which keeps the lock of stdout then.
        os.write(1, f"{group} { {str(tp): offset for tp, offset in offsets.items()} }\\n".encode())
        if "hang" in sys.argv:
            threading.Event().wait()

    def close(self):
        pass

committer = GroupCommitter(ClientConfig.of("broker:9092"), "g", open_cluster=lambda config: Printing(), clock=lambda: 0)
committer.offer({TopicPartition("t", 0): 1})
if "hang" not in sys.argv:
    committer.flush()
    committer.offer({TopicPartition("t", 0): 2})
"""


def run(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )


def test_a_hanging_commit_does_not_keep_the_process_alive():
    with run(SENDER, "hang") as process:
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_sigterm_which_is_how_spark_stops_a_reader_sends_the_last_commit_first():
    """`input()` is where the reader process waits for Spark's next call."""
    with run(SENDER + "print('waiting', flush=True)\ninput()\n") as process:
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        process.wait(60)
    assert lines == ["g {'t-0': 1}\n", "waiting\n"]
    assert rest == "g {'t-0': 2}\n"
    assert process.returncode == -signal.SIGTERM


def test_sigterm_is_left_to_who_handles_it_and_given_back(committing):
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        committer = committing(Scripted())
        committer.offer({T0: 1})
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        committer.close()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

        def theirs(*_):
            pass

        signal.signal(signal.SIGTERM, theirs)
        committer.offer({T0: 1})
        assert signal.getsignal(signal.SIGTERM) is theirs
        committer.close()
        assert signal.getsignal(signal.SIGTERM) is theirs
    finally:
        signal.signal(signal.SIGTERM, before)
