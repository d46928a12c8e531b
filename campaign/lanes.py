"""Carries faults out: one thread for each lane of the schedule."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import kafka
from confluent_kafka import KafkaException

from campaign.fault_log import FaultLog
from campaign.faults import Fault
from campaign.processes import Processes
from campaign.producers import Producing
from campaign.queries import SINKS, Names
from campaign.rig import Rig
from campaign.watch import Watch
from kafkasource.protocol import apis

SETTLE_S = 1.0  # after each fault of the brokers: for others who wait for whole brokers
MEMBERS_SETTLE_S = 5.0  # after each fault of a member: a group that always rebalances reads nothing
MOST_ADDED = 4
CRASH_S = 60.0  # for a process to come to a point
THIN_BYTES_PER_S = 100_000.0
DELAY_S = 0.15


class NotPossible(Exception):
    """There is nothing that this fault could meet now."""


class Lane(threading.Thread):
    """Until `stop`."""

    def __init__(self, name: str, faults: Iterator[Fault], do: Callable[[Fault], None], log: FaultLog) -> None:
        super().__init__(daemon=True)
        self.lane, self._faults, self._do, self._log = name, faults, do, log
        self._ending = threading.Event()

    def run(self) -> None:
        for fault in self._faults:
            if self._ending.wait(fault.pause_s):
                return
            began_ms = self._log.now_ms()
            try:
                self._do(fault)
            except Exception as error:
                self._log.add(fault, began_ms, repr(error)[:300])
            else:
                self._log.add(fault, began_ms, None)

    def stop(self) -> None:
        self._ending.set()

    def wait(self) -> None:
        self.join(600)
        if self.is_alive():
            self._log.note("a lane did not end", lane=self.lane)


class Doer:
    """A method for each kind of the table."""

    def __init__(
        self, rig: Rig, names: Names, processes: Processes, producers: list[Producing], watch: Watch, log: FaultLog
    ) -> None:
        self._rig, self._names, self._processes = rig, names, processes
        self._producers, self._watch, self._log = producers, watch, log
        self._added = 0
        self._by_kind: dict[str, Callable[[Fault], None]] = {
            "kill a broker": self._kill_broker,
            "hang a broker": self._hang_broker,
            "stop a broker": self._stop_broker,
            "move leaders": self._move_leaders,
            "add a partition": self._add_partition,
            "upgrade a broker": self._upgrade,
            "reset connections": self._reset,
            "delay bytes": self._delay,
            "swallow bytes": self._swallow,
            "thin line": self._thin,
            "refuse connections": self._refuse,
            "lose an answer": self._lose_answer,
            "kill a Python process": self._kill_python,
            "crash at a point": self._crash,
            "kill the driver": self._kill_driver,
            "kill a member": lambda fault: processes.members.kill(fault.draw, fault.lasts_s),
            "hang a member": lambda fault: processes.members.hang(fault.draw, fault.lasts_s),
            "a member leaves": lambda fault: processes.members.leave(fault.draw, fault.lasts_s),
        }

    def do(self, fault: Fault) -> None:
        if fault.lane == "brokers":
            with self._rig.whole:
                self._by_kind[fault.kind](fault)
            time.sleep(SETTLE_S)
        else:
            self._by_kind[fault.kind](fault)
            if fault.lane == "members":
                time.sleep(MEMBERS_SETTLE_S)

    # Brokers: one at a time, so that two replicas of three are there.

    def _kill_broker(self, fault: Fault) -> None:
        self._rig.broker.kill(fault.node)
        time.sleep(fault.lasts_s)
        self._rig.broker.restart(fault.node)
        self._await_replicas()

    def _hang_broker(self, fault: Fault) -> None:
        self._rig.broker.pause(fault.node)
        time.sleep(fault.lasts_s)
        self._rig.broker.resume(fault.node)
        self._await_replicas()

    def _stop_broker(self, fault: Fault) -> None:
        self._rig.broker.terminate(fault.node)
        time.sleep(fault.lasts_s)
        self._rig.broker.restart(fault.node)
        self._await_replicas()

    def _await_replicas(self) -> None:
        """Until each replica is in sync: the next broker that goes away would else take the only whole one with it."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                topics = self._rig.admin.list_topics(timeout=10).topics.values()
                partitions = [each for topic in topics for each in topic.partitions.values()]
                if all(each.leader > 0 and len(each.isrs) == len(each.replicas) for each in partitions):
                    return
            except KafkaException:
                pass
            time.sleep(0.3)
        raise TimeoutError("replicas are not in sync after 120 s")

    def _move_leaders(self, fault: Fault) -> None:
        """Of the source and of one copy, each to the replica after it: by a new order of replicas, and an election."""
        admin = kafka.KafkaAdminClient(bootstrap_servers=self._rig.servers, request_timeout_ms=20000)
        try:
            copied = sorted(SINKS)[int(fault.draw * len(SINKS))]
            for topic in (self._names.source, self._names.target(copied)):
                found = self._rig.admin.list_topics(topic, timeout=20).topics[topic].partitions
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
        count = self._rig.add_partition(self._names.source)
        for producer in self._producers:
            producer.grow(count)

    def _upgrade(self, fault: Fault) -> None:
        if not self._rig.upgrade(fault.node):
            raise NotPossible(f"node {fault.node} has the newest version")
        self._await_replicas()

    # The network between a node and all others.

    def _reset(self, fault: Fault) -> None:
        self._rig.proxies[fault.node - 1].reset_all()

    def _delay(self, fault: Fault) -> None:
        proxy = self._rig.proxies[fault.node - 1]
        proxy.delay_s = DELAY_S
        proxy.reset_all()
        time.sleep(fault.lasts_s)
        proxy.delay_s = 0.0
        proxy.reset_all()

    def _swallow(self, fault: Fault) -> None:
        proxy = self._rig.proxies[fault.node - 1]
        proxy.blackhole = True
        time.sleep(fault.lasts_s)
        proxy.reset_all()  # connections that lost bytes must not go on
        proxy.blackhole = False
        proxy.reset_all()

    def _thin(self, fault: Fault) -> None:
        proxy = self._rig.proxies[fault.node - 1]
        proxy.bytes_per_s = proxy.from_broker_bytes_per_s = THIN_BYTES_PER_S
        time.sleep(fault.lasts_s)
        proxy.bytes_per_s = proxy.from_broker_bytes_per_s = None

    def _refuse(self, fault: Fault) -> None:
        proxy = self._rig.proxies[fault.node - 1]
        proxy.refuse = True
        proxy.reset_all()
        time.sleep(fault.lasts_s)
        proxy.refuse = False

    def _lose_answer(self, fault: Fault) -> None:
        api, harm = fault.variant.split()
        proxy = self._rig.proxies[fault.node - 1]
        if proxy.faults_left > 20:
            raise NotPossible("twenty faults still wait for their answers")
        proxy.harm(getattr(apis, api), harm, client_id="campaign")

    # The application.

    def _kill_python(self, fault: Fault) -> None:
        if self._processes.kill_a_python_process(fault.draw) is None:
            raise NotPossible("Spark has no Python process now")
        self._keep_running()

    def _crash(self, fault: Fault) -> None:
        self._processes.crash_at(fault.variant)
        deadline = time.monotonic() + CRASH_S
        while self._processes.crash_file.exists():
            if time.monotonic() > deadline:
                self._processes.crash_file.unlink(missing_ok=True)
                raise NotPossible(f"no process came to {fault.variant!r} within {CRASH_S:g} s")
            time.sleep(0.05)
        self._keep_running()

    def _kill_driver(self, fault: Fault) -> None:
        """Kill, look at what is left while nothing runs, start again, and wait until all queries go on."""
        self._processes.kill_application()
        try:
            with self._rig.whole:
                self._watch.look(at_rest=True)
        except KafkaException as error:
            self._log.note("no look at rest", error=str(error)[:200])
        self._processes.start_application()
        self._watch.await_progress()

    def _keep_running(self) -> None:
        if self._processes.application_has_ended():
            self._log.note("the application had ended by itself")
            self._processes.start_application()
