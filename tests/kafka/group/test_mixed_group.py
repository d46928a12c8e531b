"""One group of three clients on a real broker: every record is consumed by exactly one, whoever is killed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

pytestmark = [pytest.mark.broker, pytest.mark.peers, pytest.mark.slow]
APP = Path(__file__).with_name("members_app.py")
PARTITIONS = 6
WAIT_S = 60.0


class Group:
    """The processes, and what they said."""

    def __init__(self, servers, topic):
        self.said = threading.Condition()
        self.shares = {}
        self.consumed = Counter()
        self.processes = {}
        self.errors = {}
        self._arguments = (servers, f"{topic}-group", topic)
        self._producer = Producer({"bootstrap.servers": servers})
        self._topic = topic
        self.produced = 0

    def start(self, client, *rest, name=None):
        command = [sys.executable, APP, client, *self._arguments, *rest]
        client = name or client
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes[client] = process
        self.shares[client] = None
        threading.Thread(target=self._listen, args=(client, process), daemon=True).start()
        threading.Thread(target=self._collect, args=(client, process), daemon=True).start()

    def _listen(self, client, process):
        with process.stdout:
            for line in process.stdout:
                first, *rest = line.split()
                with self.said:
                    if first == "has":
                        self.shares[client] = [int(each) for each in rest]
                    else:
                        self.consumed[int(first), int(rest[0])] += 1
                    self.said.notify_all()

    def _collect(self, client, process):
        with process.stderr:
            self.errors[client] = "".join(list(process.stderr)[-20:])

    def kill(self, client):
        process = self.processes.pop(client)
        process.kill()
        process.wait()
        with self.said:
            del self.shares[client]

    def end(self):
        for client in list(self.processes):
            self.kill(client)

    def produce(self, count):
        for _ in range(count):
            self._producer.produce(self._topic, b"x", partition=self.produced % PARTITIONS)
            self.produced += 1
        assert self._producer.flush(30) == 0

    def expect(self, wanted):
        with self.said:
            assert self.said.wait_for(wanted, WAIT_S), (self.shares, sum(self.consumed.values()), self.errors)

    def expect_shares(self, *sizes):
        def settled():
            shares = list(self.shares.values())
            everything = sorted(partition for share in shares for partition in share or ())
            return None not in shares and everything == list(range(PARTITIONS)) and sorted(map(len, shares)) == [*sizes]

        self.expect(settled)

    def expect_all_consumed_once(self):
        everything = {(n % PARTITIONS, n // PARTITIONS): 1 for n in range(self.produced)}
        self.expect(lambda: sum(self.consumed.values()) >= self.produced)
        assert self.consumed == everything


@pytest.fixture
def group(kafka_broker, kafka_topic):
    made = Group(kafka_broker.bootstrap_servers, kafka_topic(partitions=PARTITIONS))
    yield made
    made.end()


def test_every_record_is_consumed_by_exactly_one_and_the_others_take_over(group):
    group.start("ours")  # first, so that it leads: its assignor decides for all three
    group.expect_shares(6)
    group.start("kafka-python")
    group.start("confluent")
    group.expect_shares(2, 2, 2)
    group.produce(600)
    group.expect_all_consumed_once()
    group.kill("ours")
    group.produce(600)
    group.expect_shares(3, 3)
    group.expect_all_consumed_once()
    group.start("ours")  # and now it follows
    group.expect_shares(2, 2, 2)
    group.kill("kafka-python")
    group.produce(600)
    group.expect_shares(3, 3)
    group.expect_all_consumed_once()


@pytest.mark.parametrize("leader", ["ours", "confluent"])
def test_a_cooperative_group_shares_without_a_stop(group, leader):
    follower = {"ours": "confluent", "confluent": "ours"}[leader]
    group.start(leader, "cooperative-sticky")
    group.expect_shares(6)
    group.start(follower, "cooperative-sticky")
    group.expect_shares(3, 3)
    group.produce(600)
    group.expect_all_consumed_once()
