"""Spark writes a stream to two clusters, which are two topics of one broker here: options reach us, rows reach both."""

import pytest

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.mark.parametrize("guarantee", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.each_kind)])
def test_a_stream_reaches_every_cluster_by_the_options_of_each(pykafka, kafka_topic, tmp_path, guarantee):
    source, east, west = (kafka_topic(partitions=3) for _ in range(3))
    frame = pykafka.spark.range(0, 3000, 1, 2).selectExpr(
        "CAST(id AS STRING) AS value", "CAST(id % 97 AS STRING) AS key"
    )
    pykafka.write(frame, source)
    rows = pykafka.reading(source, stream=True, startingOffsets="earliest").load()
    options = {
        "clusters.East.kafka.bootstrap.servers": pykafka.bootstrap_servers,
        "clusters.East.topic": east,
        "clusters.west.kafka.bootstrap.servers": pykafka.bootstrap_servers,
        "clusters.west.kafka.compression.type": "lz4",
        "clusters.west.topic": west,
        "clusters.west.producersPerCluster": "3",
        "clusters.west.partitioning": "key",
        "deliveryGuarantee": guarantee,
        "checkpointLocation": str(tmp_path / "checkpoint"),
    }
    writing = rows.select("topic", "key", "value", "partition").writeStream.format("pykafka").options(**options)
    for _ in range(2):  # started again it finds all done
        assert writing.trigger(availableNow=True).start().awaitTermination(120)
    expected = sorted(str(number) for number in range(3000))
    reading = {"kafka.isolation.level": "read_committed"}
    assert pykafka.values(east, **reading) == pykafka.values(west, **reading) == expected
    where = "partition", "CAST(value AS STRING) AS value"
    placed = [sorted(map(tuple, pykafka.read(topic).selectExpr(*where).collect())) for topic in (source, east)]
    assert placed[0] == placed[1]  # a mirror keeps partitions


def test_a_clusters_mistyped_option_stops_the_query_with_its_full_name(pykafka, tmp_path):
    rows = pykafka.spark.range(1).selectExpr("CAST(id AS STRING) AS value")
    with pytest.raises(Exception, match=r"option 'clusters\.east\.kafka\.aks' is unknown: did you mean 'kafka\.acks'"):
        rows.write.format("pykafka").options(
            **{
                "clusters.east.kafka.bootstrap.servers": "localhost:1",
                "clusters.east.kafka.aks": "1",
                "topic": "t",
            }
        ).mode("append").save()
