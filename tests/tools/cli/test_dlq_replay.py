"""`pykafka dlq replay` on a real Kafka: confluent-kafka writes the dead letters and reads what came back."""

import json
import signal
import subprocess
import sys
import uuid

import pytest
from child_environment import with_package
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_producer import ordered_producer
from confluent_reader import messages_of

from kafkasource.tools.cli import main
from lab.campaign import crash_points

pytestmark = pytest.mark.broker

CUT, WIDE = "the value: the bytes end", "the value: bytes are left over"


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.2", marks=pytest.mark.extended)])
def servers(request):
    from kafkasource.testing.broker import Broker

    if request.param == "4.3.1":
        yield request.getfixturevalue("kafka_broker").bootstrap_servers
        return
    with Broker(version=request.param) as broker:  # the older dialect of transactions
        yield broker.bootstrap_servers


class Letters:
    """A topic of dead letters and the topic they came from, of three partitions."""

    def __init__(self, servers, name):
        self.servers, self.origin, self.topic = servers, name, f"{name}-dlq"
        admin = AdminClient({"bootstrap.servers": servers})
        for made in admin.create_topics([NewTopic(self.origin, 3), NewTopic(self.topic, 2)]).values():
            made.result(30)
        self.written = 0

    def write(self, reason, count=1, partition=0, transactional=False):
        """Each in a transaction of its own where `transactional`: its marker lies behind it."""
        more = {"transactional.id": f"{self.topic}-writer"} if transactional else {}
        producer = ordered_producer(self.servers, **more)
        if transactional:
            producer.init_transactions(30)
        for _ in range(count):
            number, self.written = self.written, self.written + 1
            if transactional:
                producer.begin_transaction()
            producer.produce(self.topic, b"v%d" % number, b"k", partition, headers=self._headers(number, reason))
            if transactional:
                producer.commit_transaction(30)
        assert producer.flush(30) == 0

    def _headers(self, number, reason):
        said = {"topic": self.origin, "partition": str(number % 3), "offset": str(number), "message": reason}
        return [("own", b"\x00%d" % number), *((f"__dlq.errors.{key}", text.encode()) for key, text in said.items())]

    def command(self, *words, **environment):
        """In a process of its own."""
        command = [
            sys.executable,
            "-m",
            "kafkasource",
            "dlq",
            "replay",
            self.topic,
            "-b",
            self.servers,
            "--json",
            *words,
        ]
        return subprocess.run(command, env=with_package(**environment), capture_output=True, text=True, timeout=120)

    def run(self, *words):
        """The output of the command."""
        done = self.command(*words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def came_back(self, topic=None, partitions=(0, 1, 2)):
        """(partition, value, headers) that a reader with read_committed sees, in the order of their values."""
        messages = messages_of(self.servers, topic or self.origin, partitions, settled=True)
        records = [(message.partition(), message.value(), message.headers()) for message in messages]
        return sorted(records, key=lambda record: int(record[1][1:]))

    def expected(self, numbers):
        return [(number % 3, b"v%d" % number, [("own", b"\x00%d" % number)]) for number in numbers]


@pytest.fixture
def letters(servers):
    return Letters(servers, f"replay-{uuid.uuid4().hex[:10]}")


def test_records_go_back_as_they_were_to_the_partition_they_came_from_and_each_once(letters):
    letters.write(CUT, 4)
    letters.write(WIDE, 3, partition=1, transactional=True)
    assert letters.run("--dry-run") == {
        "sent": {letters.origin: 7},
        "left": 0,
        "rows": 0,
        "passed_over": {},
        "dry_run": True,
    }
    assert letters.came_back() == []
    assert letters.run()["sent"] == {letters.origin: 7}
    assert letters.came_back() == letters.expected(range(7))
    assert letters.run() == {"sent": {}, "left": 0, "rows": 0, "passed_over": {}, "dry_run": False}
    letters.write(CUT)
    assert letters.run()["sent"] == {letters.origin: 1}
    assert letters.run()["sent"] == {}  # the second run had no row of partition 1
    assert letters.came_back() == letters.expected(range(8))


@pytest.mark.parametrize("point", ["deciding", "ended"])
def test_a_run_that_is_killed_leaves_the_next_one_to_send_the_rest_once(letters, tmp_path, point):
    letters.write(CUT, 5)
    file = tmp_path / "crash"
    file.write_text(point)
    killed = letters.command(**crash_points.environment(file))
    assert killed.returncode == -signal.SIGKILL
    assert letters.run()["sent"] == ({letters.origin: 5} if point == "deciding" else {})
    assert letters.came_back() == letters.expected(range(5))


def test_a_topic_to_send_to_that_is_not_there_is_an_error_and_nothing_is_sent(letters, capsys):
    letters.write(CUT)
    assert main(["dlq", "replay", letters.topic, "--to", "no-such-topic", "-b", letters.servers]) == 1
    assert "no-such-topic" in capsys.readouterr().err
    assert letters.run("--dry-run")["sent"] == {letters.origin: 1}


@pytest.mark.parametrize("partition", ["all of them", "-1", "99999999999", "1_0"])
def test_a_letter_whose_partition_is_no_number_goes_back_by_its_key(letters, partition):
    """Another program may write such headers."""
    producer = ordered_producer(letters.servers, partitioner="murmur2_random")  # the Java client's
    said = [("__dlq.errors.topic", letters.origin.encode()), ("__dlq.errors.partition", partition.encode())]
    producer.produce(letters.topic, b"v0", b"k", 0, headers=[*said, ("__dlq.errors.message", CUT.encode())])
    producer.produce(letters.origin, b"v1", b"k")
    assert producer.flush(30) == 0
    assert letters.run()["sent"] == {letters.origin: 1}
    (back, beside) = letters.came_back()
    assert (back[1], back[0]) == (b"v0", beside[0])


def test_a_replay_with_nothing_to_send_says_so_and_prints_no_empty_table(letters, capsys):
    letters.write(CUT)
    for words, said in (
        (["--reason", "no such words"], "nothing was sent\n1 record stays"),
        ([], "SENT  TO TOPIC\n   1"),
    ):
        assert main(["dlq", "replay", letters.topic, "-b", letters.servers, *words]) == 0
        assert capsys.readouterr().out.startswith(said)
    assert main(["dlq", "replay", letters.topic, "-b", letters.servers, "--dry-run"]) == 0
    assert capsys.readouterr().out == "nothing would be sent\n"


def test_a_letter_whose_topic_is_gone_is_named_by_the_exit_code_and_the_others_have_gone_back(letters, capsys):
    there, letters.origin = letters.origin, "no-such-topic"
    letters.write(CUT, 2)
    letters.origin = there
    letters.write(CUT)
    said = "2 records cannot go back: topic 'no-such-topic' does not exist\nThey stay."
    for words, sent in ((["--dry-run"], "WOULD BE SENT"), ([], "SENT"), ([], "nothing was sent")):
        assert main(["dlq", "replay", letters.topic, "-b", letters.servers, *words]) == 1
        out = capsys.readouterr().out
        assert out.startswith(sent) or out.lstrip().startswith(sent)
        assert said in out
    assert letters.came_back() == letters.expected([2])
    moved = letters.run("--from-topic", "no-such-topic", "--to", letters.origin)
    assert (moved["sent"], moved["passed_over"]) == ({letters.origin: 2}, {})
