"""Every record of a topic is copied once, whatever dies at whichever point, for another client that reads committed.

At least once runs beside it under the same kills. `make test` has four of them on three nodes of Kafka 3.9.2 with two
executors. `make extended` has ten on one node of 4.3.1, and a hundred on three nodes of each release:

    pytest -m extended tests/spark/test_exactly_once_crashes.py        (KAFKASOURCE_KILLS=30: fewer)
"""

from __future__ import annotations

import os
from contextlib import contextmanager

import pytest
from killed_copies import IN_PARTITIONS, Application

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.testing.broker import Broker

pytestmark = [pytest.mark.spark]

QUERIES = {
    "exactly_once": {"deliveryGuarantee": "exactly_once", "commitListener": "accounting:record"},
    "at_least_once": {},
}

LISTENER = """
import json, os

def record(commit):
    written = [[tp.partition, one.records, one.first_offset, one.last_offset] for tp, one in commit.written.items()]
    with open(os.path.join(os.path.dirname(__file__), "heard"), "a") as file:
        file.write(json.dumps({"batch": commit.batch_id, "written": written}) + "\\n")
"""

# Python imports it at the start of each of its processes that find it: a bug, from the moment that the file is there.
NO_RECOVERY = """
import os
from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.exactly_once.task.transactions import Recovered, TaskTransactions

def unless_planted(right):
    file = os.path.join(os.path.dirname(__file__), "planted")
    return lambda *args: Recovered() if os.path.exists(file) else right(*args)

TaskTransactions.recover = unless_planted(TaskTransactions.recover)
ExactlyOnce.abort = unless_planted(ExactlyOnce.abort)  # after a kill of the whole application it does not come
"""

SHORT, LONG = [pytest.mark.slow], [pytest.mark.slow, pytest.mark.extended]
RUNS = {"one node": (None, 10), "3.9.2, 4 kills": ("3.9.2", 4), "3.9.2": ("3.9.2", 100), "4.3.1": ("4.3.1", 100)}
PARAMS = [pytest.param(name, marks=marks) for name, marks in zip(RUNS, (LONG, SHORT, LONG, LONG), strict=True)]


@contextmanager
def application(broker, kills, **how):
    running = Application(
        broker.bootstrap_servers, QUERIES, modules={"accounting": LISTENER, "sitecustomize": NO_RECOVERY}, **how
    )
    try:
        running.run_under_kills(int(os.environ.get("KAFKASOURCE_KILLS", kills)))
        running.finish()
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module", params=PARAMS)
def killed(request):
    """After the kills, when all that was written has been copied or never will be."""
    version, kills = RUNS[request.param]
    if version is None:
        with application(request.getfixturevalue("kafka_broker"), kills) as running:
            yield running
        return
    with (
        Broker(version=version, nodes=3, use_existing=False) as broker,
        application(broker, kills, master="local-cluster[2,2,1024]") as running,
    ):
        with Cluster(ClientConfig.of(broker.bootstrap_servers)) as cluster:
            nodes = {each.transactional_id: each.coordinator_id for each in cluster.transactions.list("", ())}
        print("coordinators", {name.rpartition("-")[2]: node for name, node in nodes.items()})
        assert {name.rpartition("-")[2] for name in nodes} == {"driver", "0", "1", "2", "3"}
        assert len(set(nodes.values())) > 1
        yield running


def test_nothing_is_lost_or_doubled_whatever_dies(killed):
    assert killed.lost_and_doubled("exactly_once") == (0, 0)


def test_all_the_while_the_checkpoint_was_spelled_otherwise_at_every_second_start(killed):
    topic = killed.copies["exactly_once"].topic
    path = f"{killed.folder}/checkpoints/{topic}"
    spelled = [start["checkpoint"].removesuffix(path) for start in killed.starts(topic)]
    assert len(spelled) > 2
    assert spelled[:4] == ["", "file:", "", "file://"][: len(spelled)]


def test_at_least_once_loses_nothing(killed):
    lost, _ = killed.lost_and_doubled("at_least_once")
    assert lost == 0


def test_rows_of_a_key_keep_their_order_within_a_task_and_from_batch_to_batch(killed):
    for key in range(IN_PARTITIONS):
        in_order = list(range(killed.written[key]))
        assert killed.copies["exactly_once"].order[key] == in_order
        assert list(dict.fromkeys(killed.copies["at_least_once"].order[key])) == in_order


def test_the_listener_hears_of_no_batch_twice_and_of_none_that_is_not_there(killed):
    heard = killed.lines_of("heard")
    batches = [each["batch"] for each in heard]
    assert batches == sorted(set(batches))
    assert len(batches) > (max(batches) + 1) / 3  # those before a crash, and replays, are not told
    offsets = killed.copies["exactly_once"].offsets
    for partition, records, first, last in (one for each in heard for one in each["written"]):
        assert sum(first <= offset <= last for offset in offsets[partition]) == records


def test_without_the_recovery_the_same_checks_see_lost_rows(killed):
    (killed.folder / "planted").touch()
    killed.crash("decided")
    killed.finish()
    lost, doubled = killed.lost_and_doubled("exactly_once")
    assert lost > 0
    assert doubled == 0
