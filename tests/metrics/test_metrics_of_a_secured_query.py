"""The metrics server beside a query on a secured cluster: it shows lag and open transactions, and no secret."""

import json
import time
import uuid

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_transactions import open_transactions
from secured_brokers import USERS, confluent_properties
from served_page import get, number, samples, wait_for
from spark_releases import runs_here

import kafkasource

pytestmark = [pytest.mark.broker, pytest.mark.spark]

RECORDS, AT_ONCE, AGE_S = 5000, 100, 7200
PAGES = ("/", "/metrics", "/api/queries", "/api/metrics")


@pytest.fixture
def names(secured_broker):
    """A topic of two partitions to read, which was written two hours ago by confluent-kafka, and one to write to."""
    stem, secured = uuid.uuid4().hex[:10], secured_broker.secured
    source, target = f"source-{stem}", f"target-{stem}"
    way_in = confluent_properties(secured, "SASL_SSL", "SCRAM-SHA-512", "alice")
    admin = AdminClient(way_in)
    for done in admin.create_topics([NewTopic(source, 2), NewTopic(target, 1)]).values():
        done.result(60)
    producer = confluent_kafka.Producer(way_in)
    written_ms = int((time.time() - AGE_S) * 1000)
    for record in range(RECORDS):
        producer.produce(source, b"x", partition=record % 2, timestamp=written_ms)
    assert producer.flush(60) == 0
    return source, target


@pytest.fixture
def open_transaction(secured_broker):
    """`open_transaction(transactional_id, topic)`: one of another client, open until the end of the test."""
    way_in = confluent_properties(secured_broker.secured, "SASL_SSL", "SCRAM-SHA-512", "alice")
    with open_transactions(way_in) as begin:
        yield begin


def test_lag_and_open_transactions_of_a_secured_cluster_are_served_without_its_secret(
    spark, secured_broker, names, open_transaction, tmp_path, browse
):
    kafkasource.register(spark)
    source, target = names
    properties = secured_broker.secured.client_properties("SASL_SSL", "SCRAM-SHA-512", "alice")
    options = {f"kafka.{name}": text for name, text in properties.items()}
    prefix = f"orders-{uuid.uuid4().hex[:10]}"
    once = {"topic": target, "deliveryGuarantee": "exactly_once", "transactionalIdPrefix": prefix}
    sinks = {"orders": {**options, **once}}
    with kafkasource.serve_metrics(spark, cluster_name="test", sinks=sinks) as served:
        query = (
            spark.readStream.format("pykafka")
            .options(
                **options,
                subscribe=source,
                startingOffsets="earliest",
                maxOffsetsPerTrigger=AT_ONCE,
                trigger="processingTime",
            )
            .load()
            .select("value")
            .writeStream.format("pykafka")
            .options(**options, **once)
            .option("checkpointLocation", str(tmp_path))
            .trigger(processingTime="1 hour")
            .queryName("orders")
            .start()
        )
        try:
            shown = wait_for(lambda: [one for one in served.queries() if one["name"] == "orders" and one["rows"]])[0]
            open_transaction(f"{prefix}-7", target)
            found = samples(served)
            page = browse(served.url + "/")
            pages = {path: get(served.url + path) for path in PAGES}
        finally:
            query.stop()
    lag = RECORDS - AT_ONCE
    assert (shown["rows"], shown["lag"]) == (AT_ONCE, lag)
    assert number(page.tiles[shown["id"], "lag"]) == lag
    lags = [value for labels, value in found["kafka_consumergroup_group_lag"] if labels["group"] == "orders"]
    assert sum(lags) == lag
    if runs_here("lag_seconds"):
        assert shown["lag_seconds"] >= AGE_S
    open_now = [value for labels, value in found["kafkasource_open_transactions"] if labels["sink"] == "orders"]
    assert open_now == [1]
    assert source in json.dumps(pages)  # the pages do hold what is not secret
    secrets = (USERS["alice"], properties["sasl.jaas.config"], "username=")
    assert [(path, secret) for path, text in pages.items() for secret in secrets if secret in text] == []
    assert not any(secret in page.html for secret in secrets)
