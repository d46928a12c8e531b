"""Places of rows that Spark writes: a topic made for them, a partitioner of the user's in a module of addPyFile."""

import uuid

import pytest
from pyspark.errors import PySparkException

pytestmark = [pytest.mark.broker, pytest.mark.spark]

MODULE = """
import pyarrow as pa


def by_number(topic, keys, values, count):
    return pa.array([None if key is None else int(key) % count for key in keys.to_pylist()], pa.int32())
"""


def test_rows_go_to_a_topic_that_was_made_and_where_the_users_function_says(pykafka, tmp_path):
    module = f"placing_{uuid.uuid4().hex[:10]}"
    (tmp_path / f"{module}.py").write_text(MODULE)
    pykafka.spark.sparkContext.addPyFile(str(tmp_path / f"{module}.py"))
    topic = f"made-{uuid.uuid4().hex[:10]}"
    frame = pykafka.spark.range(600).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    pykafka.write(frame, topic, createTopic="partitions=6", partitioner=f"{module}:by_number")
    rows = pykafka.read(topic).collect()
    assert len(rows) == 600
    assert all(row.partition == int(row.value) % 6 for row in rows)


def test_a_partitioner_that_is_not_there_names_the_option(pykafka, kafka_topic):
    frame = pykafka.spark.range(1).selectExpr("CAST(id AS STRING) AS value")
    with pytest.raises(PySparkException, match=r"option 'partitioner': module 'no_such_module' cannot be imported"):
        pykafka.write(frame, kafka_topic(), partitioner="no_such_module:f")
