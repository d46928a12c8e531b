"""`pykafka read --group` with a scripted member: when it commits offsets, and when it stops reading a partition."""

import argparse
import contextlib
from types import SimpleNamespace

import pyarrow as pa
import pytest

from kafkasource.errors import CommitFailed
from kafkasource.kafka.group.membership import Changes
from kafkasource.tools.cli import shared_read
from kafkasource.tools.cli.shared_read import read_as_member
from kafkasource.types import OffsetRange, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOTHING = Changes()


class Member:
    """Gives these changes, one a poll, and then nothing; an exception among them is raised."""

    def __init__(self, *script):
        self._script = list(script)
        self.joined = True
        self.more = False
        self.commits = []
        self.closed = False
        self.refuses = False

    def __call__(self, cluster, group, topics, **_):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True

    def poll(self, timeout_s):
        step = self._script.pop(0) if self._script else NOTHING
        if isinstance(step, BaseException):
            raise step
        return step

    def awaits_more(self):
        return self.more

    def commit(self, offsets):
        if self.refuses and offsets:
            raise CommitFailed("not this member's")
        if offsets:
            self.commits.append(dict(offsets))


class Positions:
    """Stands for the reader's: logs that nothing happens to."""

    def __init__(self, ends):
        self.ends, self.offsets = ends, {}

    def begin(self, partitions, start=None):
        self.offsets.update(start.partitions if start else dict.fromkeys(partitions, 0))

    def drop(self, partitions):
        for tp in partitions:
            self.offsets.pop(tp, None)

    def next_ranges(self):
        return [OffsetRange(tp, at, self.ends[tp]) for tp, at in sorted(self.offsets.items()) if at < self.ends[tp]]

    def move(self, offsets):
        self.offsets.update(offsets)


class Reader:
    """Logs of `ends` offsets, each a record; `holes` have none."""

    def __init__(self, ends, committed=None, holes=()):
        self.ends, self.holes = ends, holes
        self.cluster = SimpleNamespace(
            groups=SimpleNamespace(committed_offsets=lambda group, tps: {tp: (committed or {}).get(tp) for tp in tps}),
            metadata=SimpleNamespace(nodes=list),
            caller=SimpleNamespace(giving_up=lambda after_ms: contextlib.nullcontext()),
        )

    def positions(self):
        return Positions(self.ends)

    def read(self, ranges):
        for planned in ranges:
            offsets = [
                n
                for n in range(planned.start_offset, planned.end_offset)
                if (planned.topic_partition, n) not in self.holes
            ]
            if offsets:
                yield pa.RecordBatch.from_pydict({"offset": offsets})


class Output:
    def __init__(self, fails_at=None):
        self.offsets = []
        self._fails_at = fails_at

    def write(self, batch):
        self.offsets += batch.column("offset").to_pylist()
        if self._fails_at is not None and len(self.offsets) >= self._fails_at:
            raise KeyboardInterrupt


def run(reader, member, output=None, **arguments):
    given = {"group": "g", "topics": ["t"], "count": None, "filter": [], "follow": False, **arguments}
    output = output or Output()
    try:
        read_as_member(reader, argparse.Namespace(**given), output, join=member)
    finally:
        assert member.closed
    return output.offsets


def test_a_member_whose_share_still_grows_waits_for_the_rest():
    """The consumer protocol: others have to give up partitions first."""

    class Growing(Member):
        def poll(self, timeout_s):
            step = super().poll(timeout_s)
            self.more = bool(self._script)
            return step

    member = Growing(NOTHING, NOTHING, Changes(assigned=frozenset({T0})), NOTHING, Changes(assigned=frozenset({T1})))
    assert run(Reader({T0: 2, T1: 1}), member) == [0, 1, 0]


def test_the_share_is_read_to_its_end_committed_and_left():
    member = Member(Changes(assigned=frozenset({T0, T1})))
    assert run(Reader({T0: 3, T1: 2}, committed={T1: 1}), member) == [0, 1, 2, 1]
    assert member.commits == [{T0: 3, T1: 2}]


def test_a_share_of_a_topic_that_is_written_to_all_the_time_has_an_end_too(monkeypatch):
    monkeypatch.setattr(shared_read, "_STEP", 2)
    reader = Reader({T0: 3, T1: 1})
    made = reader.positions()

    def one_more_each_time():
        ranges = Positions.next_ranges(made)
        reader.ends.update({tp: end + 1 for tp, end in reader.ends.items()})
        return ranges

    made.next_ranges = one_more_each_time
    reader.positions = lambda: made
    member = Member(Changes(assigned=frozenset({T0})), Changes(assigned=frozenset({T1})))  # the second one comes later
    assert run(reader, member) == [0, 1, 2, 0, 1]
    assert member.commits[-1] == {T1: 2}


def test_an_offset_is_committed_only_after_its_record_was_written_out(monkeypatch):
    monkeypatch.setattr(shared_read, "_STEP", 2)
    member = Member(Changes(assigned=frozenset({T0})))
    assert run(Reader({T0: 5}), member) == [0, 1, 2, 3, 4]
    assert member.commits == [{T0: 2}, {T0: 4}, {T0: 5}]


def test_markers_behind_the_last_record_are_committed_over():
    member = Member(Changes(assigned=frozenset({T0})))
    assert run(Reader({T0: 4}, holes={(T0, 2), (T0, 3)}), member) == [0, 1]
    assert member.commits == [{T0: 4}]


def test_of_count_records_the_last_is_where_the_next_reader_goes_on():
    member = Member(Changes(assigned=frozenset({T0, T1})))
    assert run(Reader({T0: 3, T1: 3}), member, count=4) == [0, 1, 2, 0]
    assert member.commits == [{T0: 3, T1: 1}]


def even(batch):
    return [offset % 2 == 0 for offset in batch.column("offset").to_pylist()]


def test_offsets_of_records_that_match_no_filter_are_committed_too():
    member = Member(Changes(assigned=frozenset({T0})))
    assert run(Reader({T0: 4}), member, filter=[even]) == [0, 2]
    assert member.commits == [{T0: 4}]


def test_count_counts_the_records_that_match_and_the_next_reader_goes_on_behind_the_last():
    member = Member(Changes(assigned=frozenset({T0})))
    assert run(Reader({T0: 9}), member, filter=[even], count=2) == [0, 2]
    assert member.commits == [{T0: 3}]


@pytest.mark.parametrize("change", ["revoked", "lost"])
def test_what_another_member_has_now_is_not_read_or_committed(change, monkeypatch):
    monkeypatch.setattr(shared_read, "_STEP", 2)
    member = Member(Changes(assigned=frozenset({T0})), Changes(**{change: frozenset({T0})}))
    assert run(Reader({T0: 5}), member) == [0, 1]
    assert member.commits == [{T0: 2}]


def test_ctrl_c_commits_what_was_written_out_and_leaves():
    member = Member(Changes(assigned=frozenset({T0})), KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run(Reader({T0: 3}), member, follow=True)
    assert member.commits == [{T0: 3}]


def test_a_batch_that_ctrl_c_cut_short_is_not_committed():
    member = Member(Changes(assigned=frozenset({T0, T1})))
    with pytest.raises(KeyboardInterrupt):
        run(Reader({T0: 3, T1: 3}, committed={T1: 0}), member, Output(fails_at=4), follow=True)
    assert member.commits == [{T0: 3}]


def test_where_the_group_starts_is_committed_for_partitions_that_were_not_reached_so_that_lag_counts_them():
    member = Member(Changes(assigned=frozenset({T0, T1})))
    assert run(Reader({T0: 3, T1: 3}), member, count=2) == [0, 1]
    assert member.commits == [{T0: 2, T1: 0}]


def test_a_commit_that_is_refused_is_told_and_reading_goes_on(capsys):
    member = Member(Changes(assigned=frozenset({T0})))
    member.refuses = True
    assert run(Reader({T0: 3}), member) == [0, 1, 2]
    assert capsys.readouterr().err == "pykafka: not this member's\n"


def test_a_member_without_a_share_waits_for_one_only_while_it_joins():
    member = Member()
    assert run(Reader({}), member) == []
    late = Member(NOTHING, NOTHING, Changes(assigned=frozenset({T0})))
    late.joined = False
    reader = Reader({T0: 1})
    made = reader.positions()

    def joined(partitions, start=None):
        late.joined = True
        Positions.begin(made, partitions, start)

    made.begin = joined
    reader.positions = lambda: made
    assert run(reader, late) == [0]
