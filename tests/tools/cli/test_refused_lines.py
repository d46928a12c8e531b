"""`pykafka write` with a line that the client or a broker refuses, on brokers in this process."""

import json

import pytest
from fake_broker import Error, FakeKafka, serving

from kafkasource import options
from kafkasource.errors import KafkaSourceError, MessageTooLarge
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import PRODUCE
from kafkasource.tools.cli import main
from kafkasource.tools.cli.write import _Topic


@pytest.fixture
def kafka():
    with serving(FakeKafka(topics={"t": 2})) as kafka:
        yield kafka


@pytest.fixture
def write(kafka, tmp_path, monkeypatch, capsys):
    """`write(lines, *words)`: exit code, the numbers of records written, standard error."""

    def run(lines, *words):
        with (tmp_path / "stdin").open("w+") as file:
            file.write("".join(f"{line}\n" for line in lines))
            file.seek(0)
            monkeypatch.setattr("sys.stdin", file)
            code = main(["write", "t", "--json", "-b", kafka.bootstrap_servers, *words])
        out, err = capsys.readouterr()
        return code, [(row["partition"], row["records"]) for row in json.loads(out)] if out else None, err

    return run


def to(partition):
    return json.dumps({"value": "v", "partition": partition})


def test_a_line_for_a_partition_that_the_topic_does_not_have_is_named_and_those_before_it_are_written(write):
    code, written, err = write([to(0), to(1), to(0), to(7), to(1)], "--format", "json")
    assert (code, written) == (1, [(0, 2), (1, 1)])
    assert err.splitlines() == [
        "3 records written to 2 partitions of t",
        "pykafka: line 4 cannot be written: topic 't' has no partition 7; it has 0 to 1",
    ]


def test_a_partition_for_all_lines_that_the_topic_does_not_have_is_said_before_a_line_is_read(write, kafka):
    code, written, err = write(["a"], "--partition", "7")
    assert (code, written, err) == (1, None, "pykafka: topic 't' has no partition 7; it has 0 to 1\n")
    assert not kafka.asked(PRODUCE)


def test_a_partition_that_the_topic_has_got_meanwhile_is_written_to(kafka):
    given = options.parse({"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": "t"}, "sink")
    topic = _Topic(ClientConfig.from_options(given), "t", may_be_missing=False)
    with pytest.raises(KafkaSourceError, match="no partition 2"):
        topic.check_partition(2)
    kafka.topics["t"].leaders.append(1)
    topic.check_partition(2)


def test_of_a_line_that_is_too_large_it_is_said_where_it_stands_and_how_much_is_written(write):
    code, written, err = write(["small", "x" * 5_000, "small"], "--partition", "0", "-X", "max.request.size=2000")
    assert (code, written) == (1, [(0, 1)])
    assert err.startswith(
        "1 record written to 1 partition of t\npykafka: one of lines 1 to 3 cannot be written: a record for"
    )
    assert "kafka.max.request.size" in err


def test_where_a_broker_refuses_a_record_it_is_said_how_much_is_written(write, kafka):
    kafka.fault(PRODUCE, Error(MessageTooLarge.CODE))
    code, written, err = write(["a"], "--partition", "0")
    assert (code, written) == (1, [])
    assert err.startswith("0 records written to t\npykafka: not all lines up to 1 are written: ")
