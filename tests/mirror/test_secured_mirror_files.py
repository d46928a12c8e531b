"""Clusters with different security in one mirror: what its file means, what an error names, and what is never shown."""

import json

import pytest

from kafkasource.errors import OptionError
from kafkasource.mirror import job, mirror_maker, toml_file
from kafkasource.options import parse
from kafkasource.tools.cli import main

PASSWORD = "hunter2"

TOML = f"""
checkpoint = "/ck"

[clusters.east]
kafka.bootstrap.servers = "e1:9093"
kafka.security.protocol = "SASL_SSL"
kafka.sasl.mechanism = "SCRAM-SHA-512"
kafka.sasl.username = "mirror"
kafka.sasl.password = "{PASSWORD}"

[clusters.west]
kafka.bootstrap.servers = "w1:9093"
kafka.security.protocol = "SSL"
kafka.ssl.keystore.location = "/keys/mirror.pem"

[clusters.south]
kafka.bootstrap.servers = "s1:9092"

[[flows]]
from = "east"
to = ["west", "south"]
"""

# Keys and defaults as in the documentation of Kafka's MirrorMaker 2 (MirrorMakerConfig.clusterProps).
MIRROR_MAKER = """
clusters = source, west
source.bootstrap.servers = s1:9093
west.bootstrap.servers = w1:9093
source->west.enabled = true
pykafka.checkpoint = /ck
security.protocol = SASL_SSL
sasl.mechanism = SCRAM-SHA-512
sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="${env:PW}";
west.security.protocol = SSL
west.ssl.truststore.location = /keys/ca.pem
source.consumer.ssl.truststore.location = /keys/reader.pem
config.providers = env
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
"""


def test_each_cluster_has_its_own_security_in_the_read_and_in_each_write():
    (route,) = job.check(toml_file.parse(TOML, "mirror.toml"))
    assert parse(route.read, "source")["kafka.security.protocol"] == "SASL_SSL"
    written = json.loads(route.write["clusters"])
    assert written["west"]["kafka.security.protocol"] == "SSL"
    assert {name for name in written["south"] if "ssl" in name or "sasl" in name or "security" in name} == set()


def test_mirror_makers_security_holds_for_all_clusters_but_those_with_their_own():
    plan = mirror_maker.parse(MIRROR_MAKER, "mm2.properties")
    source, west = plan.clusters["source"], plan.clusters["west"]
    assert (source["kafka.security.protocol"], west["kafka.security.protocol"]) == ("SASL_SSL", "SSL")
    assert source["kafka.sasl.jaas.config"].endswith('password="${env:PW}";')  # resolved where it connects
    (route,) = job.check(plan)
    assert route.read["kafka.ssl.truststore.location"] == "/keys/reader.pem"
    assert west["kafka.ssl.truststore.location"] == "/keys/ca.pem"
    assert {warning.partition(":")[0] for warning in plan.warnings} == {
        "config.providers",
        "config.providers.env.class",
    }
    assert all("need no provider" in warning for warning in plan.warnings)


def test_mirror_maker_reads_as_the_consumer_writes_as_the_producer_and_makes_topics_as_the_admin():
    """KIP-382: `{cluster}.consumer`, `.producer` and `.admin` override what all clients of the cluster have. Each may
    have rights of its own: a reader's user may not write, a writer's not read."""

    def jaas(user):
        return f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{user}" password="p";'

    def users(more):
        text = f"""
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
B->A.enabled = true
pykafka.checkpoint = /ck
security.protocol = SASL_PLAINTEXT
sasl.mechanism = PLAIN
B.sasl.jaas.config = {jaas("b")}
A.consumer.sasl.jaas.config = {jaas("reader")}
A.producer.sasl.jaas.config = {jaas("writer")}
A.consumer.request.timeout.ms = 11111
{more}"""
        plan = mirror_maker.parse(text, "mm2.properties")
        assert plan.warnings == ()
        from_a, from_b = job.check(plan)
        written = json.loads(from_b.write["clusters"])["A"]
        assert from_a.read["kafka.request.timeout.ms"] == "11111"
        assert "kafka.request.timeout.ms" not in written
        name = "kafka.sasl.jaas.config"
        clients = from_a.clients["A"], from_b.clients["A"]
        found = [each.get(name, "").split('"')[1:2] for each in (from_a.read, written, *clients)]
        assert from_b.read[name] == json.loads(from_a.write["clusters"])["B"][name] == jaas("b")
        return [user for each in found for user in each]

    assert users("") == [
        "reader",
        "writer",
        "reader",
        "writer",
    ]  # the last two: for topics, at the source and the target
    assert users(f"A.sasl.jaas.config = {jaas('all')}") == ["reader", "writer", "all", "all"]
    assert users(f"A.admin.sasl.jaas.config = {jaas('admin')}") == ["reader", "writer", "admin", "admin"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('kafka.sasl.username = "mirror"', ""), ("cluster 'east'", "kafka.sasl.username")),
        (('"/keys/mirror.pem"', '"/keys/mirror.pem"\nkafka.ssl.keystore.type = "DER"'), ("'west'", "keystore.type")),
        ((f'"{PASSWORD}"', f'["{PASSWORD}"]'), ("clusters.east", "kafka.sasl.password")),
    ],
)
def test_an_error_names_the_cluster_and_the_option_and_no_secret(change, said):
    with pytest.raises(OptionError) as error:
        job.check(toml_file.parse(TOML.replace(*change), "mirror.toml"))
    assert all(text in str(error.value) for text in said)
    assert PASSWORD not in str(error.value)


def test_a_plan_is_shown_without_its_secrets(tmp_path, capsys):
    file = tmp_path / "mirror.toml"
    file.write_text(TOML.replace('from = "east"\nto = ["west", "south"]', 'from = "west"\nto = "east"'))
    assert main(["mirror", str(file), "--check", "--json"]) == 0
    out, err = capsys.readouterr()
    (route,) = json.loads(out)
    assert route["write"]["clusters"]["east"]["kafka.sasl.password"] == "[hidden]"
    assert route["write"]["clusters"]["east"]["kafka.sasl.username"] == "mirror"
    plan = toml_file.parse(TOML, "mirror.toml")
    assert PASSWORD not in out + err + repr(plan) + repr(job.check(plan))
