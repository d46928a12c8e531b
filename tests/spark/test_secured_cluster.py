"""A query on a secured cluster, with the options that it would have for the JVM connector."""

import uuid

import pytest

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_stream_is_copied_over_tls_and_scram_by_java_options(spark, secured_broker, tmp_path, guarantee):
    import kafkasource

    kafkasource.register(spark)
    secured = secured_broker.secured
    options = {f"kafka.{name}": text for name, text in secured.client_properties("SASL_SSL", "SCRAM-SHA-512").items()}
    source, copy = (f"{word}-{uuid.uuid4().hex[:10]}" for word in ("source", "copy"))
    values = [f"v{number}" for number in range(500)]
    rows = spark.createDataFrame([(value,) for value in values], "value string")
    rows.write.format("pykafka").options(**options, topic=source, createTopic="partitions=2").mode("append").save()
    query = (
        spark.readStream.format("pykafka")
        .options(**options, subscribe=source, startingOffsets="earliest", **{"kafka.group.id": "copying"})
        .load()
        .select("value")
        .writeStream.format("pykafka")
        .options(**options, topic=copy, createTopic="partitions=2", deliveryGuarantee=guarantee)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert query.exception() is None
    for name in ("pykafka", "kafka"):  # the JVM connector reads the same with the same options
        reading = spark.read.format(name).options(**options, **{"kafka.isolation.level": "read_committed"})
        there = reading.option("subscribe", copy).load().collect()
        assert sorted(bytes(row.value).decode() for row in there) == sorted(values)
