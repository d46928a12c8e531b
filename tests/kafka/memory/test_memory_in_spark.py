"""Spark's own worker processes under a budget, told by what each writes down at the end of its tasks."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.memory import report

pytestmark = [pytest.mark.spark, pytest.mark.broker]

MIB = 1 << 20
TESTS = Path(__file__).parents[2]
ROWS = 200_000  # of 100 bytes: five times what either side may hold


@pytest.fixture(scope="module")
def run(kafka_broker, tmp_path_factory):
    """What the application says of its phases, and what its workers wrote down in each."""
    folder, gauges = tmp_path_factory.mktemp("application"), tmp_path_factory.mktemp("gauges")
    topics = [f"memory-{uuid.uuid4().hex[:10]}" for _ in range(3)]
    told = {"servers": kafka_broker.bootstrap_servers, "folder": str(folder), "topics": topics, "rows": ROWS}
    answer = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("memory_app.py")), json.dumps(told)],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)]), "KAFKASOURCE_MEMORY_LOG": str(gauges)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    with Cluster(ClientConfig.of(kafka_broker.bootstrap_servers)) as cluster:
        cluster.topics.delete(topics)
    phases, began = json.loads(answer.stdout.splitlines()[-1]), 0.0
    lines = report.lines(gauges)
    for phase in phases.values():
        phase["lines"] = [one for one in lines if began < one["time"] <= phase["ended"]]
        began = phase["ended"]
    return phases


def most(phase, gauge):
    return max(one[gauge] for one in phase["lines"])


def test_with_a_budget_of_a_few_megabytes_everything_arrives(run):
    assert {name: phase["rows"] for name, phase in run.items()} == dict.fromkeys(run, ROWS)


def test_workers_that_write_hold_half_their_budget(run):
    assert most(run["write"], "budget_bytes") == 8 * MIB
    assert 1 * MIB < most(run["write"], "accumulator_peak_bytes") <= 4 * MIB
    assert 1 * MIB < most(run["fan-out"], "accumulator_peak_bytes") <= 4 * MIB


def test_workers_that_read_hold_half_for_what_is_received_and_half_for_rows(run):
    for phase in (run["read"], run["fan-out"]):
        assert 512 * 1024 < most(phase, "receive_peak_bytes") <= 4 * MIB
    assert 0 < most(run["read"], "decoded_peak_bytes") <= 4 * MIB


def test_a_worker_whose_user_names_no_budget_takes_half_of_what_spark_leaves_it(run):
    """6 GiB for an executor of two cores are 3 GiB for each worker, of which some are mapped already."""
    assert 512 * MIB < most(run["unnamed"], "budget_bytes") < 1536 * MIB


def test_a_worker_s_peak_is_its_interpreter_s_and_its_budget(run):
    """Beside what it has of its own before it has any data: 20 MB of garbage, malloc's and Arrow's spare pages."""
    for phase in (run["write"], run["read"], run["fan-out"]):
        assert most(phase, "heap_bytes") < 200 * MIB
        assert most(phase, "native_peak_bytes") <= 16 * MIB
