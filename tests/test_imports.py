"""What our modules import in the many Python processes that Spark starts: each import costs a part of each of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Not pandas: a quarter of a second. Spark imports it where a job uses it.
NOT_IMPORTED = ["pandas", "difflib", "importlib.metadata"]

IN_A_PROCESS = """
import json, sys
already = set(sys.modules)
{ours}
print(json.dumps(sorted(set({names}) & (set(sys.modules) - already))))
"""

PLAN = "import kafkasource.source.spark.stream, kafkasource.source.spark.batch, kafkasource.sink.writer"

# The constant columns of a reading task; keys hashed, some of them null, and the checksum of an exactly-once task.
READ_AND_WRITE = """
import pyarrow as pa
from kafkasource.kafka.records.arrow.columns import int32_column, topic_column
from kafkasource.kafka.producer.rows import Rows
from kafkasource.sink.partitioner import partitioner_of
from kafkasource.exactly_once.task.content import ContentSum
keys = pa.concat_arrays([topic_column("k", 3).cast(pa.binary()), pa.nulls(2, pa.binary())])
rows = Rows("t", 5, keys, keys, headers=None, partitions=None, timestamps_ms=None)
ContentSum().add_rows("t", rows)
partitions = partitioner_of("murmur2", 1000).partitions(rows, 3, [0, 1, 2])
assert len(partitions) == 5
"""


def imported(ours: str) -> list[str]:
    program = IN_A_PROCESS.format(ours=ours, names=NOT_IMPORTED)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return json.loads(ended.stdout)


@pytest.mark.parametrize("does", [PLAN, READ_AND_WRITE], ids=["plans", "reads and writes"])
def test_a_process_of_spark_imports_nothing_that_takes_long_for_our_sake(does):
    assert imported(does) == []


BEFORE_IT_CONNECTS = """
import importlib, pkgutil, sys
import pyspark.daemon, pyspark.worker, pyspark.sql.worker, pyspark.sql.streaming.python_streaming_source_runner
for module in pkgutil.iter_modules(pyspark.sql.worker.__path__, "pyspark.sql.worker."):
    importlib.import_module(module.name)
print([name for name in sys.modules if name.startswith(("kafkasource", "pyspark_pykafka"))])
"""


def test_a_process_of_spark_imports_nothing_of_ours_before_it_connects():
    """Spark waits ten seconds for that; our classes come over the connection."""
    ended = subprocess.run([sys.executable, "-c", BEFORE_IT_CONNECTS], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


# What the driver, the process of a stream and a task load for the plain binary read of a topic.
PLAIN_READ = """
import json, sys
from kafkasource.datasource import KafkaDataSource
source = KafkaDataSource({"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t"})
schema = source.schema()
source.reader(schema)
source.streamReader(schema)
import kafkasource.kafka.cluster.cache, kafkasource.kafka.fetch.kept_cluster
print(json.dumps({name: module.__file__ for name, module in sys.modules.items() if name.startswith("kafkasource.")}))
"""


def test_a_plain_binary_read_loads_no_module_of_another_feature_and_few_lines():
    ended = subprocess.run([sys.executable, "-c", PLAIN_READ], capture_output=True, text=True, check=True)
    files = json.loads(ended.stdout)
    other_features = {"formats", "exactly_once", "mirror", "tools", "testing", "sink"}
    assert {name for name in files if name.split(".")[1] in other_features} == set()
    sources = [Path(file).with_name(Path(file).name.split(".")[0] + ".py") for file in files.values()]
    lines = sum(len(path.read_text().splitlines()) for path in sources if path.exists())
    assert len(files) < 260
    assert lines < 36_000


# Loads what a plain write loads in the processes that plan and commit it.
PLAIN_WRITE = """
import json, sys
from pyspark.sql.types import StructType
from kafkasource.datasource import KafkaDataSource
sink = KafkaDataSource({"kafka.bootstrap.servers": "nowhere:1", "topic": "t"})
schema = StructType().add("value", "binary")
writer = sink.streamWriter(schema, False)
writer.__getstate__()
writer.commit([], 0)
sink.writer(schema, False)
print(json.dumps([name for name in sys.modules if name.startswith(("kafkasource.", "pyarrow"))]))
"""


def test_the_driver_of_a_plain_write_loads_no_client_no_other_feature_and_no_pyarrow():
    """Spark plans and commits in two processes, one after the other. Pyarrow alone takes a quarter of a second."""
    ended = subprocess.run([sys.executable, "-c", PLAIN_WRITE], capture_output=True, text=True, check=True)
    loaded = json.loads(ended.stdout)
    assert [name for name in loaded if name.startswith("pyarrow")] == []
    others = ("formats", "exactly_once.", "source", "tools", "testing", "kafka.cluster", "kafka.memory", "kafka.fetch")
    assert [name for name in loaded if name.removeprefix("kafkasource.").startswith(others)] == [
        "kafkasource.exactly_once.counts"
    ]
    assert len(loaded) < 190
