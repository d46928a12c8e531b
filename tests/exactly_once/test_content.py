"""What a task says of the rows that it was given: their number, their topics, and the sum of their contents."""

from itertools import pairwise

import pyarrow as pa
import pytest
from packed_values import packed
from pyspark.sql.types import BinaryType, StructField, StructType

from kafkasource.exactly_once.task.content import ContentSum, total
from kafkasource.kafka.records.arrow.packed import PACKED_COLUMN
from kafkasource.sink.columns import SinkSchema

NAMES = ("topic", "value")


def summed(schema, batches):
    found = ContentSum()
    for batch in batches:
        for rows in schema.rows(batch):
            found.add_rows(rows.topic, rows)
    return found


def of_rows(*rows):
    topics, values = ([row[i] for row in rows] for i in range(2))
    batch = pa.record_batch([pa.array(topics, pa.string()), pa.array(values, pa.binary())], names=NAMES)
    return summed(SinkSchema(None, {"topic": 0, "value": 1}), [batch])


def test_the_topic_of_each_row_counts():
    one = of_rows(("a", b"1"), ("b", b"2"))
    assert (one.rows, one.topics) == (2, ("a", "b"))
    assert one.content == of_rows(("b", b"2"), ("a", b"1")).content
    others = [(("a", b"2"), ("b", b"1")), (("a", b"1"), ("a", b"2")), (("a", b"1"), ("c", b"2"))]
    assert one.content not in {of_rows(*other).content for other in others}


def test_tasks_add_up_to_the_batch_however_its_rows_are_shared_out():
    parts = [of_rows(("a", b"1")), of_rows(("b", b"2"), ("a", b"3"))]
    assert total([each.content for each in parts]) == of_rows(("a", b"3"), ("a", b"1"), ("b", b"2")).content
    assert of_rows().content == 0


@pytest.mark.parametrize("cuts", [(0, 1, 5), (0, 2, 4, 5), (0, 5)])
def test_packed_records_count_one_by_one_wherever_a_fetch_ended(cuts):
    values = [b"%d" % number for number in range(5)]
    schema = SinkSchema.check(StructType([StructField(PACKED_COLUMN, BinaryType())]), None)
    found = summed(schema, [packed(values[a:b]) for a, b in pairwise(cuts)])
    assert (found.rows, found.content) == (5, summed(schema, [packed(values)]).content)
