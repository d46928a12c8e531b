"""The JVM connector's own class cuts the same ranges into the same pieces."""

from __future__ import annotations

import random

import pytest

from kafkasource.source.plan.tasks import split
from kafkasource.types import OffsetRange, TopicPartition

pytestmark = [pytest.mark.peers, pytest.mark.spark, pytest.mark.jvm_connector]


@pytest.fixture(scope="module")
def jvm(spark):
    return spark._jvm


def cut_by_the_jvm_connector(jvm, ranges, at_least, max_size):
    options = {"minPartitions": at_least, "maxRecordsPerPartition": max_size}
    kafka010 = jvm.org.apache.spark.sql.kafka010
    given = jvm.java.util.HashMap()
    for name, value in options.items():
        if value is not None:
            given.put(name, str(value))
    as_spark_has_them = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(given)
    calculator = kafka010.KafkaOffsetRangeCalculator.apply(as_spark_has_them)
    listed = jvm.java.util.ArrayList()
    for one in ranges:
        tp = jvm.org.apache.kafka.common.TopicPartition(*one.topic_partition)
        listed.add(kafka010.KafkaOffsetRange(tp, one.start_offset, one.end_offset, jvm.scala.Option.empty()))
    as_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala(listed).toSeq()
    pieces = calculator.getRanges(as_scala, jvm.scala.jdk.javaapi.CollectionConverters.asScala([]).toSeq())
    return [
        OffsetRange(TopicPartition(piece.topic(), piece.partition()), piece.fromOffset(), piece.untilOffset())
        for piece in (pieces.apply(n) for n in range(pieces.size()))
    ]


@pytest.mark.parametrize("seed", range(20))
def test_ranges_are_cut_as_the_jvm_connectors_calculator_cuts_them(jvm, seed):
    draw = random.Random(seed)
    starts = [draw.randint(0, 100) for _ in range(draw.randint(1, 5))]
    sizes = [draw.choice([0, 1, draw.randint(2, 60), draw.randint(100, 3000)]) for _ in starts]
    ranges = [
        OffsetRange(TopicPartition("t", n), start, start + size)
        for n, (start, size) in enumerate(zip(starts, sizes, strict=True))
    ]
    at_least, max_size = draw.choice([None, draw.randint(1, 15)]), draw.choice([None, draw.randint(100, 1500)])
    pieces = split(ranges, at_least=at_least, max_size=max_size)
    assert pieces == cut_by_the_jvm_connector(jvm, ranges, at_least, max_size)
