"""Properties of MirrorMaker 2 mean here what they mean there."""

import pytest

from kafkasource.errors import OptionError
from kafkasource.mirror import job, mirror_maker
from kafkasource.mirror.plan import routes

FILE = """
# as in Kafka's own example
clusters = A, B, C
A.bootstrap.servers = a1:9092, a2:9092
B.bootstrap.servers = b1:9092
C.bootstrap.servers: c1:9092
pykafka.checkpoint = /ck

A->B.enabled = true
A->B.topics = foo-.*, \\
              bar
A->B.topics.exclude = foo-test.*
B->C.enabled = true
C->B.topics = never

A.consumer.fetch.min.bytes = 1000
producer.linger.ms = 1
B.producer.linger.ms = 5
B.request.timeout.ms = 7000
replication.factor = 3
B->C.sync.topic.configs.enabled = false
refresh.topics.interval.seconds = 10
"""

CLIENT_KEYS = {
    "consumer": """
        bootstrap.servers client.dns.lookup group.id group.instance.id session.timeout.ms heartbeat.interval.ms
        partition.assignment.strategy metadata.max.age.ms enable.auto.commit auto.commit.interval.ms client.id
        client.rack max.partition.fetch.bytes send.buffer.bytes receive.buffer.bytes fetch.min.bytes fetch.max.bytes
        fetch.max.wait.ms reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms
        auto.offset.reset check.crcs metrics.sample.window.ms metrics.num.samples metrics.recording.level
        metric.reporters enable.metrics.push key.deserializer value.deserializer request.timeout.ms
        default.api.timeout.ms socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms
        connections.max.idle.ms interceptor.classes max.poll.records max.poll.interval.ms exclude.internal.topics
        isolation.level allow.auto.create.topics group.protocol group.remote.assignor metadata.recovery.strategy
        metadata.recovery.rebootstrap.trigger.ms security.providers security.protocol config.providers
        sasl.mechanism ssl.truststore.location sasl.client.callback.handler.class ssl.engine.factory.class
        sasl.login.class""",
    "producer": """
        bootstrap.servers client.dns.lookup metadata.recovery.strategy enable.metrics.push retry.backoff.ms
        retry.backoff.max.ms socket.connection.setup.timeout.ms connections.max.idle.ms metric.reporters
        metrics.recording.level security.providers batch.size linger.ms request.timeout.ms delivery.timeout.ms
        client.id send.buffer.bytes receive.buffer.bytes max.request.size reconnect.backoff.ms max.block.ms
        buffer.memory compression.type metadata.max.age.ms metadata.max.idle.ms metrics.num.samples key.serializer
        value.serializer interceptor.classes partitioner.class partitioner.ignore.keys
        partitioner.adaptive.partitioning.enable transaction.timeout.ms transactional.id retries
        max.in.flight.requests.per.connection""",
    "admin": """
        bootstrap.servers bootstrap.controllers client.dns.lookup reconnect.backoff.ms reconnect.backoff.max.ms
        retry.backoff.ms retry.backoff.max.ms enable.metrics.push socket.connection.setup.timeout.ms
        socket.connection.setup.timeout.max.ms connections.max.idle.ms receive.buffer.bytes send.buffer.bytes
        metadata.max.age.ms client.id request.timeout.ms default.api.timeout.ms retries metrics.num.samples
        metric.reporters metrics.recording.level metrics.sample.window.ms security.protocol security.providers
        metadata.recovery.strategy auto.include.jmx.reporter ssl.keystore.location""",
}


def parsed(text=FILE):
    return mirror_maker.parse(text, "mm2.properties")


def flows(plan):
    return {str(flow): flow for flow in plan.flows}


def test_flows_that_are_enabled_are_mirrored_and_no_others():
    plan = parsed()
    assert flows(plan).keys() == {"A->B", "B->C"}
    assert flows(plan)["A->B"].topics == ("foo-.*", "bar")
    assert flows(plan)["A->B"].exclude == ("foo-test.*",)
    assert flows(plan)["B->C"].topics == (".*",)
    assert plan.warnings == ()


def test_a_topic_is_named_after_its_source_as_by_the_default_replication_policy():
    assert {flow.template for flow in parsed().flows} == {"A.${topic}", "B.${topic}"}
    same = parsed(FILE + "A->B.replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n")
    assert flows(same)["A->B"].template == "${topic}"
    assert flows(same)["B->C"].template == "B.${topic}"
    assert flows(parsed(FILE + "replication.policy.separator = _\n"))["A->B"].template == "A_${topic}"


@pytest.mark.parametrize(
    "line",
    ["C.producer.acks = 1", "producer.acks = 0", "C.producer.enable.idempotence = false", "C.producer.retries = 0"],
)
def test_a_target_whose_producer_keeps_no_order_has_no_map_of_offsets_and_that_is_said(line):
    plan = parsed(f"{FILE}B.producer.acks = all\n{line}\n")
    assert {name: flow.offset_map for name, flow in flows(plan).items()} == {"A->B": True, "B->C": False}
    (warning,) = plan.warnings
    assert warning.startswith("B->C: no map of offsets is kept, as the producer of C has no idempotence")
    job.check(plan)


def test_settings_of_clusters_go_to_the_side_that_they_are_for():
    clusters = parsed().clusters
    assert clusters["A"]["kafka.bootstrap.servers"] == "a1:9092, a2:9092"
    assert clusters["A"]["kafka.fetch.min.bytes"] == "1000"
    assert clusters["B"]["kafka.linger.ms"] == "5"
    assert clusters["C"]["kafka.linger.ms"] == "1"
    assert clusters["B"]["kafka.request.timeout.ms"] == "7000"
    (route,) = [route for route in routes(parsed()) if route.source == "A"]
    assert route.read["kafka.fetch.min.bytes"] == "1000"
    assert "kafka.linger.ms" not in route.read


def test_keys_of_flows_hold_for_all_where_they_stand_without_one():
    plan = parsed()
    assert {flow.replication_factor for flow in plan.flows} == {3}
    assert [flows(plan)[name].sync_settings for name in ("A->B", "B->C")] == [True, False]
    assert plan.refresh_topics_s == 10


def test_exactly_once_is_asked_for_by_the_targets_key():
    assert not parsed().exactly_once
    assert parsed(FILE + "B.exactly.once.source.support = enabled\n").exactly_once


def test_topics_are_made_also_where_no_new_ones_are_looked_for_and_a_warning_says_that_they_are():
    """MirrorSourceConnector.start creates the missing topics in any case (Kafka 4.1). The key only ends the looks after
    that."""
    plan = parsed(FILE + "A->B.refresh.topics.enabled = false\n")
    assert [flow.create_topics for flow in plan.flows] == [True, True]
    (warning,) = plan.warnings
    assert warning == (
        "A->B: refresh.topics.enabled = false is not taken: the mirror looks for new topics all the time, makes them "
        "at B and copies them. Name the topics in A->B.topics if it is not to copy others"
    )
    assert parsed(FILE + "refresh.topics.enabled = true\n").warnings == ()
    assert len(parsed(FILE + "refresh.topics.enabled = false\n").warnings) == 2  # both flows


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("A->B.topicz = x", "A->B.topicz: unknown, and ignored"),
        ("frobnicate = 1", "frobnicate: unknown, and ignored"),
        ("frob\\nicate = 1", "unknown, and ignored"),
        ("A->B.sync.group.offsets.enabled = true", "pykafka offsets translate"),
        ("sync.topic.acls.enabled = true", "ACLs"),
        ("emit.heartbeats.enabled = true", "heartbeats"),
        ("tasks.max = 8", "here Spark shares the work out"),
        ("offset-syncs.topic.replication.factor = 1", "offset map"),
        ("A.consumer.key.deserializer = x", "records are copied as bytes"),
        ("consumer.auto.offset.reset = latest", "startingOffsets in a TOML file"),
        ("consumer.poll.timeout.ms = 5000", "use consumer.fetch.max.wait.ms"),
        ("admin.timeout.ms = 60000", "use admin.default.api.timeout.ms"),
        ("A.admin.retries = 3", "until default.api.timeout.ms is over"),
        ("A.consumer.session.timeout.ms = 10000", "no members of a consumer group"),
        ("A.consumer.max.poll.records = 500", "consumer.fetch.max.bytes"),
        ("consumer.ssl.engine.factory.class = x", "OpenSSL"),
        ("consumer.interceptor.classes = x", "which only MirrorMaker can run"),
        ("topic.filter.class = x", "which only MirrorMaker can run"),
        ("partitioner.class = x", "a record keeps its partition"),
        ("A.producer.transactional.id = x", "exactly.once.source.support"),
        ("A->B.consumer.fetch.min.bytes = 1", "write A.consumer.fetch.min.bytes"),
        ("A->B.producer.linger.ms = 1", "write B.producer.linger.ms"),
        ("source.consumer.fetch.min.bytes = 1", "write consumer.fetch.min.bytes"),
        ("fetch.min.bytes = 1", "write consumer.fetch.min.bytes"),
        ("A.consumer.acks = 1", "acks is not an option of a consumer"),
        ("refresh.topics.interval.seconds = 600", "every 30 s"),
    ],
)
def test_what_is_not_done_is_named_in_a_warning(line, text):
    text_before = FILE.replace("refresh.topics.interval.seconds = 10\n", "")
    (warning,) = parsed(text_before + line + "\n").warnings
    assert text in warning
    assert warning.startswith(line.split(" ")[0].replace("\\n", "\n"))


@pytest.mark.parametrize("client", ["consumer", "producer", "admin"])
def test_no_key_of_a_client_of_kafkas_is_called_unknown(client):
    """The keys that Kafka 4.1's ConsumerConfig, ProducerConfig and AdminClientConfig document."""
    for key in CLIENT_KEYS[client].split():
        found = [warning for warning in parsed(f"{FILE}A.{client}.{key} = 1\n").warnings if "unknown" in warning]
        assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "emit.heartbeats.enabled = false",
        "sync.topic.acls.enabled = false",
        "consumer.auto.offset.reset = earliest",
        "A.consumer.enable.auto.commit = false",
        "! a comment",
    ],
)
def test_what_is_switched_off_or_so_in_any_case_needs_no_warning(line):
    assert parsed(FILE + line + "\n").warnings == ()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("clusters = A, B, C", ""), "clusters = names no cluster"),
        (("enabled = true", "enabled = false"), "no flow is enabled"),
        (("replication.factor = 3", "replication.factor = x"), "replication.factor: expected a whole number"),
        (("replication.factor = 3", "replication.policy.class = com.me.Own"), "Own is a Java class"),
    ],
)
def test_what_cannot_be_mirrored_is_refused(change, text):
    with pytest.raises(OptionError, match=f"mm2.properties: .*{text}"):
        parsed(FILE.replace(*change))
