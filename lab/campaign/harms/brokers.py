"""Faults of brokers. One broker at a time, so that two replicas of three are there: Kafka itself survives no more."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import kafka
from confluent_kafka import KafkaException
from descendants import descendants

from lab.campaign.faults import Fault
from lab.campaign.harms.lane import Doing, NotPossible
from lab.campaign.queries import SINKS, Names
from lab.campaign.rig import Brokers

SETTLE_S = 1.0  # after each fault: for others who wait for whole brokers
MOST_ADDED = 4
IN_SYNC_S = 120.0
HALTS_S = 30.0  # a broker that cannot write


class Growing(Protocol):
    """A producer that is told how many partitions the source has."""

    def grow(self, partitions: int) -> None: ...


class BrokerHarms:
    def __init__(self, brokers: Brokers, names: Names, producers: Sequence[Growing]) -> None:
        self._brokers, self._names, self._producers = brokers, names, producers
        self._added = 0
        self._by_kind: dict[str, Doing] = {
            "kill a broker": self._kill,
            "hang a broker": self._hang,
            "stop a broker": self._stop,
            "move leaders": self._move_leaders,
            "add a partition": self._add_partition,
            "upgrade a broker": self._upgrade,
            "fill a disk": self._fill_disk,
        }

    def do(self, fault: Fault) -> None:
        with self._brokers.whole:
            self._by_kind[fault.kind](fault)
        time.sleep(SETTLE_S)

    def _kill(self, fault: Fault) -> None:
        self._brokers.broker.kill(fault.node)
        time.sleep(fault.lasts_s)
        self._brokers.broker.restart(fault.node)
        self._await_replicas()

    def _hang(self, fault: Fault) -> None:
        self._brokers.broker.pause(fault.node)
        time.sleep(fault.lasts_s)
        self._brokers.broker.resume(fault.node)
        self._await_replicas()

    def _stop(self, fault: Fault) -> None:
        self._brokers.broker.terminate(fault.node)
        time.sleep(fault.lasts_s)
        self._brokers.broker.restart(fault.node)
        self._await_replicas()

    def _fill_disk(self, fault: Fault) -> None:
        """No file of the node may grow: each write that would make it fails, and Kafka halts.

        By a limit of the process, which is gone with it. A full tmpfs would need root, and stay mounted after a
        campaign that was killed.
        """
        supervisors = self._brokers.broker.pids
        nodes = {pid: text for each in supervisors for pid, text in descendants(each).items()}
        (pid,) = [pid for pid, text in nodes.items() if b"/node-%d.properties" % fault.node in text]
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))
        deadline = time.monotonic() + HALTS_S
        while Path(f"/proc/{pid}/exe").exists():
            if time.monotonic() > deadline:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
                raise NotPossible(f"node {fault.node} wrote nothing within {HALTS_S:g} s")
            time.sleep(0.05)
        time.sleep(fault.lasts_s)
        self._brokers.broker.restart(fault.node)
        self._await_replicas()

    def _await_replicas(self) -> None:
        """Until each replica is in sync: the next broker that goes away would else take the only whole one with it."""
        deadline = time.monotonic() + IN_SYNC_S
        while time.monotonic() < deadline:
            try:
                topics = self._brokers.admin.list_topics(timeout=10).topics.values()
                partitions = [each for topic in topics for each in topic.partitions.values()]
                if all(each.leader > 0 and len(each.isrs) == len(each.replicas) for each in partitions):
                    return
            except KafkaException:
                pass
            time.sleep(0.3)
        raise TimeoutError(f"replicas are not in sync after {IN_SYNC_S:g} s")

    def _move_leaders(self, fault: Fault) -> None:
        """Of the source and of one copy, each to the replica after it: by a new order of replicas, and an election."""
        admin = kafka.KafkaAdminClient(bootstrap_servers=self._brokers.servers, request_timeout_ms=20000)
        try:
            copied = sorted(SINKS)[int(fault.draw * len(SINKS))]
            for topic in (self._names.source, self._names.target(copied)):
                found = self._brokers.admin.list_topics(topic, timeout=20).topics[topic].partitions
                turned = {
                    kafka.TopicPartition(topic, number): [*each.replicas[1:], each.replicas[0]]
                    for number, each in found.items()
                }
                admin.alter_partition_reassignments(turned)
                admin.elect_leaders(0, {topic: sorted(found)})
        finally:
            admin.close()

    def _add_partition(self, fault: Fault) -> None:
        if self._added == MOST_ADDED:
            raise NotPossible(f"{MOST_ADDED} are added")
        self._added += 1
        count = self._brokers.add_partition(self._names.source)
        for producer in self._producers:
            producer.grow(count)

    def _upgrade(self, fault: Fault) -> None:
        if not self._brokers.upgrade(fault.node):
            raise NotPossible(f"node {fault.node} has the newest version")
        self._await_replicas()
