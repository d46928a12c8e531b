"""One mirror among clusters with different security, and one write to them, in the tests' Spark.

The listeners of one broker stand for two clusters, beside a plain one: only the way there counts here.
"""

import json
import uuid

import pyarrow as pa
import pytest
from secured_brokers import USERS

import kafkasource
from kafkasource.mirror import job, toml_file
from kafkasource.reader import Reader
from kafkasource.writer import Writer

pytestmark = [pytest.mark.broker, pytest.mark.spark]

RECORDS = 300


@pytest.fixture
def clusters(secured_broker, kafka_broker, tmp_path):
    """Options of each: east by SASL_SSL, west by a client certificate, south in plain text."""
    secured = secured_broker.secured

    def options_of(properties):
        return {f"kafka.{name}": text for name, text in properties.items()}

    east = options_of(secured.client_properties("SASL_SSL", "SCRAM-SHA-512", "bob"))
    del east["kafka.sasl.jaas.config"]
    (tmp_path / "password").write_text(USERS["bob"], encoding="utf-8")  # a reference: it is in no plan
    east |= {"kafka.sasl.username": "bob", "kafka.sasl.password": f"${{dir:{tmp_path}:password}}"}
    return {
        "east": east,
        "west": options_of(secured.client_properties("MTLS")),
        "south": {"kafka.bootstrap.servers": kafka_broker.bootstrap_servers},
    }


def values(options, topic):
    reading = {**options, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    with Reader(reading) as reader:
        return sorted(int(value) for batch in reader for value in batch.column("value").to_pylist())


def test_a_mirror_and_a_write_reach_clusters_with_different_security(spark, clusters, tmp_path):
    name = f"m{uuid.uuid4().hex[:8]}"
    with Writer({**clusters["south"], "topic": name, "createTopic": "partitions=2"}) as writer:
        writer.write(pa.table({"value": [str(number) for number in range(RECORDS)]}))
    tables = "".join(
        f"[clusters.{cluster}]\n" + "".join(f"{key} = {json.dumps(text)}\n" for key, text in given.items())
        for cluster, given in clusters.items()
    )
    flows = "".join(
        f'[[flows]]\nfrom = "south"\nto = "{target}"\ntopics = ["{name}"]\ntopic = "{target}.${{topic}}"\n'
        f"offset_map = {'true' if target == 'west' else 'false'}\n"  # one broker: one map
        for target in ("west", "east")
    )
    text = f'checkpoint = "{tmp_path}/checkpoint"\nexactly_once = true\n{tables}{flows}'
    mirror = job.start(toml_file.parse(text, "mirror.toml"), spark, once=True)
    try:
        mirror.wait()
    finally:
        mirror.stop()
    for target in ("west", "east"):
        assert values(clusters[target], f"{target}.{name}") == list(range(RECORDS))

    kafkasource.register(spark)
    given = {
        cluster: {**options, "topic": f"{cluster}-{name}", "createTopic": "partitions=1"}
        for cluster, options in clusters.items()
    }
    rows = spark.createDataFrame([(str(number),) for number in range(RECORDS)], "value string")
    rows.write.format("pykafka").options(clusters=json.dumps(given), topic="ignored").mode("append").save()
    for cluster, options in clusters.items():
        assert values(options, f"{cluster}-{name}") == list(range(RECORDS))
