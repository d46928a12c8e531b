"""Spark prints a new user's mistake once, plainly, with the next step."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from spark_releases import runs_here

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.extended]
APP = Path(__file__).with_name("mistakes_app.py")
NO_MISTAKES = {
    "an option of a batch",
    "options of a stream",
    "metrics before the format is registered",
    "the end of a process that stops neither the metrics nor Spark",
}


@pytest.fixture(scope="module")
def topic(kafka_broker):
    """A name that no test before has used."""
    return f"mistakes-{os.getpid()}"


@pytest.fixture(scope="module")
def printed(kafka_broker, topic, tmp_path_factory):
    """The text on stderr, by the mistake. The virtual environment of the job is not active."""
    folder = tmp_path_factory.mktemp("mistakes")
    here = str(Path(sys.executable).parent)
    path = os.pathsep.join(each for each in os.environ["PATH"].split(os.pathsep) if each != here)
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYSPARK_")} | {"PATH": path}
    command = [sys.executable, str(APP), kafka_broker.bootstrap_servers, topic, f"{topic}-copy", str(folder)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    return {part.partition("\n")[0]: part for part in done.stderr.split("-- ")[1:]}


def test_a_registered_format_works_from_an_environment_that_is_not_active(printed):
    assert "raised" not in printed["an option of a batch"]


def test_served_metrics_work_from_an_environment_that_is_not_active(printed):
    assert "cannot show the metrics of tasks" not in printed["metrics before the format is registered"]


def test_a_process_that_stops_neither_metrics_nor_spark_ends_without_a_stack_trace(printed):
    of_the_end = printed["the end of a process that stops neither the metrics nor Spark"]
    assert "PythonStreamingQueryListenerWrapper" not in of_the_end
    assert "Py4JNetworkException" not in of_the_end


def test_a_mistake_is_said_once_and_plainly(printed, topic):
    def warnings(mistake):
        return [line for line in printed[mistake].splitlines() if "unknown option" in line]

    (of_batch,) = warnings("an option of a batch")
    assert of_batch.endswith(
        "WARNING kafkasource.options: unknown option 'minpartition' for a pykafka source: did you mean 'minPartitions'?"
    )
    of_source, of_sink = warnings("options of a stream")  # of three micro-batches
    assert "'maxoffsetspertriger' for a pykafka source: did you mean 'maxOffsetsPerTrigger'?" in of_source
    assert "'kafka.lingr' for a pykafka sink: did you mean 'kafka.linger.ms'?" in of_sink
    without_effect = [line for line in printed["options of a stream"].splitlines() if "has no effect" in line]
    assert sorted(line.split("option ")[1].split()[0] for line in without_effect) == [
        "'groupIdPrefix'",
        "'kafka.ssl.truststore.type'",  # of the source
        "'kafka.ssl.truststore.type'",  # of the sink
        "'pushDownPredicate'",
        *([] if runs_here("limited_available_now") else ["'trigger'=availableNow:"]),  # of maxOffsetsPerTrigger
    ]
    for mistake in ("an option that fails", "an option that fails a stream"):
        assert "an error because of unknownOptions=fail" in printed[mistake]
    for mistake in printed.keys() - NO_MISTAKES:
        assert "raised " in printed[mistake]
        assert "Traceback" not in printed[mistake]
    of_reader = printed["an option that only a stream's reader looks at"]
    assert "option 'startingOffsets'" in of_reader.partition("raised ")[2].splitlines()[0]
    assert "UnboundLocalError" not in of_reader
    nobody = [mistake for mistake in printed if mistake.startswith("no broker")]
    assert len(nobody) == 4
    for mistake in nobody:  # warned of at once; then the error, in its first line where Spark has no prefix of its own
        first, *_ = [line for line in printed[mistake].splitlines() if "cannot connect to bootstrap server" in line]
        assert "127.0.0.1:1 (attempt 1): Connection refused" in first
        assert "is kafka.bootstrap.servers right?" in first
        said = printed[mistake].partition("raised ")[2].splitlines()[:3]
        assert any("no bootstrap server answered" in line and "127.0.0.1:1" in line for line in said), said
    of_topic = printed["the topic of a stream"]
    assert f"topic {topic[:-1]!r} (did you mean {topic!r}?)" in of_topic.partition("raised ")[2].splitlines()[0]
