"""`pykafka lag` counts offsets as read or as unknown, on brokers in this process."""

import json

import pytest
from fake_broker import LOG_END, FakeKafka, serving

from kafkasource.source.plan.offsets import StreamOffset, to_json
from kafkasource.tools.cli import main
from kafkasource.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
END = LOG_END


@pytest.fixture
def kafka():
    with serving(FakeKafka(topics={"t": 2})) as kafka:
        yield kafka


@pytest.fixture
def lag(kafka, capsys):
    """`lag(*words)`: exit code, standard output, standard error."""

    def run(*words):
        code = main(["lag", *words, "-b", kafka.bootstrap_servers])
        return code, *capsys.readouterr()

    return run


def first_plan(offsets, start=None):
    return json.dumps(to_json(StreamOffset(offsets, start=None if start is None else StreamOffset(start))))


def test_the_records_of_a_first_micro_batch_count_until_it_is_done(lag, checkpoint):
    plan = first_plan({T0: END}, start={T0: 0})
    checkpoint(0, plan, done=False)
    code, out, _ = lag("--checkpoint", checkpoint.location, "--fail-above", str(END - 1))
    said = f"lag {END:,} in 1 of 1 partition, query of {checkpoint.location} in its first micro-batch"
    assert (code, out.splitlines()[0]) == (1, said)
    checkpoint(0, plan)
    code, out, _ = lag("--checkpoint", checkpoint.location, "--fail-above", "0")
    assert (code, out.split(",")[0]) == (0, "no lag in 1 partition")


def test_of_two_sources_in_a_first_micro_batch_the_one_that_starts_first_counts(lag, checkpoint):
    checkpoint(0, first_plan({T0: END}, start={T0: 7}), first_plan({T0: END}, start={T0: 10}), done=False)
    assert lag("--checkpoint", checkpoint.location)[1].startswith(f"lag {END - 7:,} in 1 of 1 partition")


@pytest.mark.parametrize("other", [(), (first_plan({T0: END}, start={T0: 0}),)], ids=["alone", "beside one of ours"])
def test_where_the_start_of_a_first_micro_batch_is_not_known_its_lag_is_not_0(lag, checkpoint, other):
    of_the_jvm_connector = f'{{"t":{{"0":{END}}}}}'
    checkpoint(0, of_the_jvm_connector, *other, done=False)
    _, out, _ = lag("--checkpoint", checkpoint.location)
    assert "; 1 without a committed offset" in out
    assert out.splitlines()[-1].split() == ["t", "0", "-", str(END), "-"]


def test_a_monitor_does_not_stay_green_where_a_partition_has_no_leader(lag, kafka, checkpoint):
    checkpoint(0, f'{{"t":{{"0":{END},"1":{END}}}}}')
    within = ("--checkpoint", checkpoint.location, "--fail-above", "0")
    assert lag(*within)[0] == 0
    kafka.topics["t"].leaders[1] = -1
    code, out, err = lag(*within)
    assert out.splitlines()[0].endswith("; 1 without a leader")
    assert (code, err) == (1, "pykafka: the lag of 1 partition is not known, as they have no leader: t-1\n")
    assert lag(*within[:2])[0] == 0


def test_a_monitor_does_not_stay_green_where_a_partition_with_records_has_no_offset(lag, checkpoint, monkeypatch):
    checkpoint(0, f'{{"t":{{"0":{END},"1":{END}}}}}', done=False)  # of the JVM connector: it does not say its start
    within = ("--checkpoint", checkpoint.location, "--fail-above", str(10 * END))
    code, out, _ = lag(*within)
    assert (code, "; 2 without a committed offset" in out.splitlines()[0]) == (1, True)
    assert lag(*within[:2])[0] == 0
    monkeypatch.setattr("fake_broker.LOG_START", END)  # the records have aged out: there are none to read
    assert lag(*within)[0] == 0


def test_a_monitor_does_not_stay_green_where_an_offset_is_beyond_the_end(lag, checkpoint):
    checkpoint(0, f'{{"t":{{"0":{END},"1":{END + 1}}}}}')
    code, out, _ = lag("--checkpoint", checkpoint.location, "--fail-above", "0")
    assert (code, "; 1 beyond the end of the log" in out.splitlines()[0]) == (1, True)


def test_json_says_why_a_lag_is_not_known(lag, kafka, checkpoint):
    kafka.topics["t"].leaders[1] = -1
    checkpoint(0, '{"t":{"0":5,"1":5,"2":5}}')
    report = json.loads(lag("--checkpoint", checkpoint.location, "--json")[1])
    assert [partition["why_unknown"] for partition in report["partitions"]] == [None, "no leader", "gone"]
    assert [partition["lag"] for partition in report["partitions"]] == [END - 5, None, None]
