"""What a new user's Spark prints of a mistake: once, plainly, with the next step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]
APP = Path(__file__).with_name("mistakes_app.py")


def printed_by_mistake(bootstrap, topic, target, folder):
    command = [sys.executable, str(APP), bootstrap, topic, target, str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return {part.partition("\n")[0]: part for part in done.stderr.split("-- ")[1:]}


def test_a_mistake_is_said_once_and_plainly(kafka_broker, kafka_topic, tmp_path):
    topic, target = kafka_topic(partitions=1), kafka_topic(partitions=1)
    printed = printed_by_mistake(kafka_broker.bootstrap_servers, topic, target, tmp_path)

    def warnings(mistake):
        return [line for line in printed[mistake].splitlines() if "unknown option" in line]

    (of_batch,) = warnings("an option of a batch")
    assert of_batch.endswith(
        "WARNING kafkasource.options: unknown option 'minpartition' for a pykafka source: did you mean 'minPartitions'?"
    )
    of_source, of_sink = warnings("options of a stream")  # of three micro-batches
    assert "'maxoffsetspertriger' for a pykafka source: did you mean 'maxOffsetsPerTrigger'?" in of_source
    assert "'kafka.lingr' for a pykafka sink: did you mean 'kafka.linger.ms'?" in of_sink
    for mistake in ("an option that fails", "an option that fails a stream"):
        assert "an error because of unknownOptions=fail" in printed[mistake]
    for mistake in printed.keys() - {"an option of a batch", "options of a stream"}:
        assert "raised " in printed[mistake]
        assert "Traceback" not in printed[mistake]
    of_topic = printed["the topic of a stream"]
    assert f"topic {topic[:-1]!r} (did you mean {topic!r}?)" in of_topic.partition("raised ")[2].splitlines()[0]
