"""A commit reports what it has written once and completely, and a report that fails does no harm."""

import contextvars
import logging
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.exactly_once.counts import TransactionCounts
from kafkasource.sink import commit_report as commit_log
from kafkasource.sink.commit_report import SinkCommit, gathered, tell
from kafkasource.sink.reports import ClusterReport
from kafkasource.types import TopicPartition, Written

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


heard = []


def listener(commit):
    heard.append(commit)


def failing(commit):
    raise RuntimeError("no such database")


def leaving(commit):
    sys.exit("done")


goes_on = threading.Event()
variable = contextvars.ContextVar("variable")


def looking(commit):
    heard.append(variable.get())


def hanging(commit):
    goes_on.wait()
    heard.append(commit)


@pytest.fixture(autouse=True)
def nothing_heard():
    heard.clear()


def test_reports_of_all_tasks_become_one_per_partition():
    reports = [
        ClusterReport({T0: Written(10, 100, 5, 14), T1: Written(1, 20, 0, 0)}),
        ClusterReport(),
        ClusterReport({T0: Written(3, 40, 0, 2)}),
    ]
    commit = gathered(reports, batch_id=7, query_id="q")
    assert commit.written == {T0: Written(13, 140, 0, 14), T1: Written(1, 20, 0, 0)}
    assert (commit.records, commit.bytes, commit.tasks, commit.batch_id) == (14, 160, 2, 7)


def test_offsets_that_no_broker_told_leave_the_counts():
    commit = gathered([ClusterReport({T0: Written(10, 100)}), ClusterReport({T0: Written(3, 40, 20, 22)})])
    assert commit.written == {T0: Written(13, 140, 20, 22)}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(0, 99)), max_size=20), st.randoms())
def test_the_order_of_reports_does_not_matter(batches, random):
    reports = [ClusterReport({TopicPartition("t", p): Written(n, 10 * n, at, at + n - 1)}) for p, n, at in batches]
    commit = gathered(reports)
    random.shuffle(reports)
    assert gathered(reports) == commit
    assert commit.records == sum(n for _, n, _ in batches)
    for tp, one in commit.written.items():
        mine = [(n, at) for p, n, at in batches if p == tp.partition]
        assert (one.first_offset, one.last_offset) == (min(at for _, at in mine), max(at + n - 1 for n, at in mine))


def test_a_batch_is_one_line_at_info_and_the_listener_gets_it(caplog):
    caplog.set_level(logging.INFO, "kafkasource.sink")
    reports = [ClusterReport({T0: Written(10, 100, 5, 14), T1: Written(1, 20)})]
    commit = gathered(reports, batch_id=7, query_name="orders")
    tell(commit, f"{__name__}:listener")
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert record.getMessage() == (
        "committed batch 7 of query orders: 11 records in 120 bytes from 1 task to 2 partitions (t-0 10 at 5-14, t-1 1)"
    )
    assert heard == [commit]


def test_a_line_stays_short_with_a_thousand_partitions():
    commit = gathered([ClusterReport({TopicPartition("t", n): Written(1, 1, 0, 0) for n in range(1000)})])
    assert str(commit).endswith("t-19 1 at 0-0 and 980 more)")


def test_an_empty_batch_is_told_too(caplog):
    caplog.set_level(logging.INFO, "kafkasource.sink")
    tell(gathered([ClusterReport()], batch_id=8), f"{__name__}:listener")
    assert caplog.messages == ["committed batch 8: no records"]
    assert heard == [SinkCommit({}, 0, batch_id=8)]


def test_a_batch_of_an_earlier_run_is_not_told_as_one_without_records(caplog):
    caplog.set_level(logging.INFO, "kafkasource.sink")
    tell(gathered([ClusterReport()], batch_id=8), f"{__name__}:listener", by_earlier_run=True)
    assert caplog.messages == ["batch 8 was committed by an earlier run: nothing is written again"]
    assert heard == []


@pytest.mark.parametrize(
    ("transactions", "told"),
    [
        (TransactionCounts(4, 4, 1234.0), "; 4 transactions, open for up to 1.2 s"),
        (TransactionCounts(1, 1), "; 1 transaction"),
        (TransactionCounts(4, 3, 60_000.0), "; 3 of 4 transactions, open for up to 60.0 s"),
        (TransactionCounts(2, 2, 0.0, 0, 3), "; 2 transactions, open for up to 0.0 s, 3 left open before aborted"),
        (TransactionCounts(), ""),
        (None, ""),
    ],
)
def test_with_exactly_once_the_line_tells_of_transactions(transactions, told):
    commit = gathered([ClusterReport({T0: Written(10, 100, 5, 14)})], batch_id=7, transactions=transactions)
    assert (
        str(commit) == f"committed batch 7: 10 records in 100 bytes from 1 task to 1 partition (t-0 10 at 5-14){told}"
    )


def test_transactions_of_an_earlier_run_that_were_recovered_are_told(caplog):
    caplog.set_level(logging.INFO, "kafkasource.sink")
    commit = gathered([ClusterReport()], batch_id=8, transactions=TransactionCounts(recovered=2))
    tell(commit, f"{__name__}:listener", by_earlier_run=True)
    assert caplog.messages == [
        "batch 8 was committed by an earlier run: nothing is written again (2 of an earlier run recovered)"
    ]
    assert heard == [commit]


@pytest.mark.parametrize(("name", "said"), [("failing", "no such database"), ("leaving", "SystemExit: done")])
def test_a_listener_that_fails_or_calls_sys_exit_cannot_undo_a_commit(caplog, name, said):
    tell(gathered([], batch_id=7), f"{__name__}:{name}")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"{name} failed; committed batch 7" in record.getMessage()
    assert said in caplog.text


def test_a_listener_that_hangs_is_not_waited_for_for_ever_and_not_called_beside_itself(caplog, monkeypatch):
    monkeypatch.setattr(commit_log, "LISTENER_S", 0.01)
    goes_on.clear()
    try:
        for batch in (7, 8):
            tell(gathered([], batch_id=batch), f"{__name__}:hanging")
        assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
        assert f"{__name__}:hanging has not returned after 0 s" in caplog.messages[0]
        assert f"{__name__}:hanging is not called: an earlier call" in caplog.messages[1]
        assert heard == []
    finally:
        goes_on.set()
    commit_log._left_behind.join(60)
    tell(gathered([], batch_id=9), f"{__name__}:listener")
    assert [commit.batch_id for commit in heard] == [7, 9]


def test_a_listener_sees_the_context_variables_of_who_commits():
    variable.set("of the commit")
    tell(gathered([], batch_id=7), f"{__name__}:looking")
    assert heard == ["of the commit"]
