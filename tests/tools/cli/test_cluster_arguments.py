"""How commands find their cluster and take client options."""

import argparse
import json
import os

import pytest
from fake_broker import FakeKafka, serve
from fake_registry import a_registry

from kafkasource.testing.broker import detached
from kafkasource.tools.cli import main
from kafkasource.tools.cli.arguments import parsed_options


@pytest.fixture(autouse=True)
def nothing_set(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKASOURCE_CACHE", str(tmp_path))
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.delenv("KAFKA_COMMAND_CONFIG", raising=False)


@pytest.fixture
def servers():
    kafka = FakeKafka(topics={"t": 2})
    with serve(kafka) as (host, port):
        kafka.addresses = {1: (host, port)}
        yield f"{host}:{port}"


def topics(capsys, *words):
    assert main(["topics", "list", "--json", *words]) == 0
    return [topic["topic"] for topic in json.loads(capsys.readouterr().out)]


def test_the_cluster_is_the_one_given_else_of_the_environment_else_the_one_running_here(servers, monkeypatch, capsys):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert topics(capsys, "-b", servers) == ["t"]
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", servers)
    assert topics(capsys) == ["t"]
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS")
    running = detached.DetachedBroker(servers, "4.3.1", (), "/nowhere", keeps_data=False)
    monkeypatch.setattr(detached, "status", lambda: running)
    assert topics(capsys) == ["t"]


def test_a_cluster_that_nobody_reaches_is_one_line_and_not_a_minute(capsys):
    assert main(["groups", "list", "-b", "127.0.0.1:1", "-X", "default.api.timeout.ms=300"]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith("pykafka: no bootstrap server answered")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("request.timout.ms=1", "did you mean request.timeout.ms?"),
        ("xyzzy=1", "docs/options.md lists them"),
        ("request.timeout.ms=soon", "expected a whole number of milliseconds"),
        ("auto.offset.reset=earliest", "use startingOffsets"),
        ("ssl.engine.factory.class=com.acme.Engine", "no class of Java's can be loaded"),
    ],
)
def test_an_option_that_is_none_is_an_error_with_the_nearest(setting, said, capsys):
    assert main(["topics", "list", "-b", "127.0.0.1:1", "-X", setting]) == 1
    err = capsys.readouterr().err
    assert (said in err, err.count("\n")) == (True, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["topics", "list", "-X", "acks=1"], "has no effect here"),
        (["read", "t", "-X", "acks=1"], "is for writing"),
        (["write", "t", "-X", "isolation.level=read_committed"], "is for reading"),
        (["read", "t", "-X", "subscribe=u"], "the command sets this option itself"),
        (["read", "t", "-X", "maxOffsetsPerTrigger=1"], "leave it out"),
        (["write", "t", "-X", "topic=u"], "the command sets this option itself"),
    ],
)
def test_an_option_that_would_be_ignored_is_an_error(words, said, servers, capsys):
    assert main([*words, "-b", servers]) == 1
    err = capsys.readouterr().err
    assert (said in err, err.count("\n")) == (True, 1)


@pytest.mark.parametrize(("name", "text"), [("KAFKA_BOOTSTRAP_SERVERS", "kafka"), ("KAFKA_COMMAND_CONFIG", "/none")])
def test_a_wrong_variable_of_the_environment_is_named(name, text, monkeypatch, capsys):
    monkeypatch.setenv(name, text)
    assert main(["topics", "list"]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"pykafka: {name}")
    assert text in err
    for other in ("kafka.bootstrap.servers", "--command-config"):
        assert other not in err


@pytest.mark.parametrize("words", [[], ["-b", "localhost:1"]])
def test_servers_of_the_environment_that_nobody_reaches_are_said_to_be_of_it(words, monkeypatch, capsys):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert main(["topics", "list", "-X", "default.api.timeout.ms=300", *words]) == 1
    err = capsys.readouterr().err
    assert err.startswith("pykafka: no bootstrap server answered")
    assert err.endswith("KAFKA_BOOTSTRAP_SERVERS names these servers\n") == (not words)


@pytest.mark.parametrize(
    ("start", "until", "position"),
    [("10", "5", "offset"), ("2026-11-21", "2026-11-20", "timestamp"), ("1h", "2h", "timestamp")],
)
def test_a_read_that_would_end_before_it_begins_is_an_error_before_a_broker_is_asked(start, until, position, capsys):
    assert main(["read", "t", "--from", start, "--until", until, "-b", "127.0.0.1:1"]) == 1
    err = capsys.readouterr().err
    assert f"The specified start {position} " in err
    assert f"lower --from {start} or raise --until {until}" in err


@pytest.mark.parametrize("name", ["client.id", "kafka.client.id", "KAFKA.CLIENT.ID"])
def test_options_are_taken_with_and_without_their_prefix(name, servers, capsys):
    assert topics(capsys, "-b", servers, "-X", f"{name}=x") == ["t"]


@pytest.mark.parametrize(
    "words",
    [
        ["topics"],
        ["topics", "create", "x", "-p", "0"],
        ["read", "t", "--from", "yesterday"],
        ["read", "t", "--from", "1", "--last", "1"],
        ["read", "t", "-f", "%v"],
        ["lag"],
        ["lag", "-g", "g", "-c", "/c"],
        ["offsets", "set", "-g", "g", "-t", "t"],
        ["topics", "list", "-X", "novalue"],
        ["write", "t", "--create", "partition=3"],
        ["bundle", "environment", "env.zip"],
        ["bundle", "zip", "kafkasource.txt"],
    ],
)
def test_wrong_arguments_end_with_2(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert "usage: pykafka" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["read", "t", "--to", "x.foo"], ".parquet"),
        (["read", "t", "-f", "%s", "--json"], "leave out --format"),
        (["read", "t", "-f", "%s", "--to", "x.parquet"], "unlike parquet"),
        (["read", "t", "--group", "g", "--last", "1"], "cannot be combined with --partitions"),
        (["read", "t", "--group", "g", "--to", "x.txt"], "Redirect stdout"),
        (["read", "t", "--follow", "--until", "latest"], "leave out --until"),
        (["topics", "alter", "t"], "nothing to change"),
    ],
)
def test_what_contradicts_itself_is_said_before_a_broker_is_asked(words, said, capsys):
    assert main([*words, "-b", "127.0.0.1:1"]) == 1
    err = capsys.readouterr().err
    assert (said in err, err.count("\n")) == (True, 1)


@pytest.fixture
def with_sasl():
    """A listener with PLAIN, where alice has a password."""
    kafka = FakeKafka(topics={"t": 2})
    with serve(kafka) as (host, port):
        kafka.addresses = {1: (host, port)}
        yield f"{host}:{port}"


def test_a_client_properties_of_kafkas_tools_is_taken_by_argument_and_by_environment(
    with_sasl, tmp_path, monkeypatch, capsys
):
    file = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = f'{module} required username="alice" password="${{env:PASS}}";'
    file.write_text(
        f"# of the platform team\nbootstrap.servers={with_sasl}\nsecurity.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism = PLAIN\nsasl.jaas.config={login}\nacks=all\n"
    )
    monkeypatch.setenv("PASS", "secret")
    assert topics(capsys, "--command-config", str(file)) == ["t"]
    assert topics(capsys, "-F", str(file)) == ["t"]  # as kcat calls it
    monkeypatch.setenv("KAFKA_COMMAND_CONFIG", str(file))
    assert topics(capsys) == ["t"]
    assert topics(capsys, "-X", "client.id=me") == ["t"]
    monkeypatch.setenv("PASS", "hunter2")
    assert main(["topics", "list"]) == 1
    said = capsys.readouterr().err
    assert "refuses the credentials" in said
    assert "hunter2" not in said


def test_a_command_reads_the_file_once_so_it_may_be_a_pipe(servers, capsys):
    reading, writing = os.pipe()
    os.write(writing, f"bootstrap.servers={servers}\n".encode())
    os.close(writing)
    try:
        main(["doctor", "--json", "--command-config", f"/dev/fd/{reading}"])
    finally:
        os.close(reading)
    out = capsys.readouterr().out
    assert servers in out
    assert "which cluster" not in out


def test_what_is_wrong_with_the_file_is_said_with_its_name(tmp_path, capsys):
    missing = tmp_path / "none.properties"
    assert main(["topics", "list", "--command-config", str(missing)]) == 1
    assert f"--command-config {missing}: cannot be read" in capsys.readouterr().err
    wrong = tmp_path / "wrong.properties"
    wrong.write_text("bootstrap.servers=a:1\nclient.id=\\u12\n")
    assert main(["topics", "list", "--command-config", str(wrong)]) == 1
    assert f"--command-config {wrong}: line 2: \\u needs" in capsys.readouterr().err


# Files of vendors and tools: Confluent Cloud's, with a registry's login; a consumer's and a producer's of Java;
# librdkafka's; one for the admin tools of Kafka 4.
FILES_OF_THE_FIELD = {
    "confluent cloud": """
bootstrap.servers={servers}
client.dns.lookup=use_all_dns_ips
session.timeout.ms=45000
acks=all
client.id=ccloud-python-client
schema.registry.url=https://psrc-abc.eu-central-1.aws.confluent.cloud
basic.auth.credentials.source=USER_INFO
basic.auth.user.info=KEY:SECRET
""",
    "java": """
bootstrap.servers={servers}
key.serializer=org.apache.kafka.common.serialization.StringSerializer
value.deserializer=org.apache.kafka.common.serialization.StringDeserializer
interceptor.classes=io.confluent.monitoring.clients.interceptor.MonitoringConsumerInterceptor
max.poll.records=500
partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor
enable.auto.commit=false
auto.offset.reset=earliest
metric.reporters=
""",
    "librdkafka": """
bootstrap.servers={servers}
socket.keepalive.enable=true
queue.buffering.max.kbytes=1048576
statistics.interval.ms=0
debug=
""",
    "admin": """
bootstrap.servers={servers}
bootstrap.controllers=
default.api.timeout.ms=60000
retries=5
""",
}


@pytest.mark.parametrize("name", FILES_OF_THE_FIELD)
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "byte order mark"])
def test_files_of_the_field_are_taken_with_one_warning_for_what_they_have_besides(
    name, mark, servers, tmp_path, capsys
):
    file = tmp_path / "client.properties"
    file.write_text(mark + FILES_OF_THE_FIELD[name].format(servers=servers), encoding="utf-8")
    assert main(["topics", "list", "--command-config", str(file)]) == 0
    out, err = capsys.readouterr()
    assert "t" in out.split()
    assert err.count("passed over") == 1
    assert err.count("byte order mark") == (1 if mark else 0)
    assert "SECRET" not in err


def test_the_registry_of_a_file_is_used_where_a_registry_is_needed(servers, tmp_path, capsys):
    with a_registry() as registry:
        registry.add("t-value", '"string"')
        file = tmp_path / "client.properties"
        file.write_text(
            f"bootstrap.servers={servers}\nschema.registry.url={registry.url}\nbasic.auth.user.info=me:secret\n"
        )
        assert main(["topics", "list", "-F", str(file)]) == 0
        assert registry.requests == []
        assert main(["schemas", "list", "-F", str(file)]) == 0
        assert registry.requests[0].headers["Authorization"].startswith("Basic ")
    arguments = argparse.Namespace(bootstrap_servers=None, settings=[], command_config=str(file))
    typed = parsed_options(arguments, "source", {"subscribe": "t", "valueFormat": "avro"})
    assert typed["schemaRegistry.url"] == registry.url
    assert parsed_options(arguments, "source", {"subscribe": "t"})["schemaRegistry.url"] is None
    assert "secret" not in "".join(capsys.readouterr())


def test_options_of_security_are_taken_by_every_command(with_sasl, monkeypatch, capsys):
    monkeypatch.setenv("PASS", "secret")
    login = (
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        "sasl.username=alice",
        "sasl.password=${env:PASS}",
    )
    words = [word for setting in login for word in ("-X", setting)]
    assert topics(capsys, "-b", with_sasl, *words) == ["t"]
