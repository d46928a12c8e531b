"""Each command on a secured Kafka with `--command-config`: it works, and prints no secret."""

import json
import subprocess
import sys
import uuid

import pytest
from secured_brokers import USERS

from kafkasource.kafka import ClientConfig, Cluster, TopicPartition
from kafkasource.testing.broker.properties import render
from kafkasource.testing.broker.security.acls import Acl
from kafkasource.tools.cli import main

pytestmark = pytest.mark.broker


def test_each_command_works_over_tls_and_scram_and_prints_no_secret(secured_broker, tmp_path, capfd, monkeypatch):
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    secured = secured_broker.secured
    config, of_source = tmp_path / "client.properties", tmp_path / "source.properties"
    config.write_text(render(secured.client_properties("SASL_SSL", "SCRAM-SHA-256", "bob")))
    of_source.write_text(render(secured.client_properties("MTLS")))  # the mirror's source has other security
    printed = []

    def run(*words, code=0):
        assert main([*words, "--command-config", str(config)]) == code, capfd.readouterr()
        out, err = capfd.readouterr()
        printed.append(out + err)
        return out

    def write(topic, lines, *words):
        command = [sys.executable, "-m", "kafkasource", "write", topic, *words, "--command-config", str(config)]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done
        printed.append(done.stdout + done.stderr)

    name = f"cli-{uuid.uuid4().hex[:8]}"
    assert run("topics", "create", name, "-p", "1") == f"created {name} with 1 partition\n"
    assert name in run("topics", "list")
    assert run("topics", "alter", name, "--set", "retention.ms=7200000")
    (described,) = json.loads(run("topics", "describe", name, "--json"))
    assert described["topic"] == name
    write(name, "a\nb\nc\n")
    assert run("read", name) == "a\nb\nc\n"
    assert run("read", name, "--group", name, "-n", "2") == "a\nb\n"
    assert json.loads(run("offsets", "show", "-g", name, "--json")) == {name: {"0": 2}}
    assert json.loads(run("lag", "-g", name, "--json"))["lag"] == 1
    run("offsets", "set", "-g", name, "-t", f"{name}:0", "--to", "1", "--yes")
    (group,) = json.loads(run("groups", "describe", name, "--json"))
    assert group["lag"] == 2
    assert name in run("groups", "list")
    run("transactions", "list", "--prefix", name)
    assert "broker 1 SASL" in run("doctor", "--topic", name, "--group", name)

    # A mirror's map of offsets, in the form of kafkasource/mirror/offset_map.py: offset 1 at the source is 8 here.
    map_topic = f"mirror-offsets.{name}.internal"
    run("topics", "create", map_topic, "-p", "1")
    spans = {"target": f"{name}.there", "spans": [[0, 3, 7, 10, 7]]}
    write(map_topic, f"{json.dumps({'topic': name, 'partition': 0})}\t{json.dumps(spans)}\n", "-K", r"\t")
    translate = ("offsets", "translate", "--source", name, "--group", name, "--json")
    translated = json.loads(run(*translate, "--source-command-config", str(of_source)))
    assert translated["offsets"] == {f"{name}.there": {"0": 8}}

    run("offsets", "delete", "-g", name, "-t", f"{name}:0")
    run("groups", "delete", name)
    run("topics", "delete", name, map_topic, "--yes")
    secrets = {*USERS.values(), secured.client_properties("SASL_SSL", "SCRAM-SHA-256", "bob")["sasl.jaas.config"]}
    assert not any(secret in text for secret in secrets for text in printed)


@pytest.fixture
def groups(secured_broker):
    """Two groups with offsets: one is everybody's, and only `somebody` may know of the other."""
    secured, name = secured_broker.secured, f"cli-{uuid.uuid4().hex[:8]}"
    names = f"{name}-open", f"{name}-closed"
    with Cluster(ClientConfig.of(secured.bootstrap_servers("PLAINTEXT"))) as cluster:
        cluster.topics.create([name], partitions=1)
        for group in names:
            cluster.groups.commit(group, {TopicPartition(name, 0): 0})
        acl = Acl("somebody", "read", "group", names[1])
        secured.create_acls(acl)
        yield names
        secured.delete_acls(acl)
        cluster.groups.delete(names)
        cluster.topics.delete([name])


def test_groups_are_listed_beside_one_that_the_user_may_not_describe(secured_broker, groups, tmp_path, capfd):
    """A user who may describe the cluster gets the names of all groups, as the default of no ACL allows."""
    config = tmp_path / "client.properties"
    config.write_text(render(secured_broker.secured.client_properties("SASL_SSL", "PLAIN", "bob")))
    reason = "GROUP_AUTHORIZATION_FAILED (30): No permission to see the consumer group: grant Read on it"

    assert main(["groups", "list", "--command-config", str(config)]) == 1
    out, err = capfd.readouterr()
    open_line, closed_line = (next(line for line in out.splitlines() if name in line) for name in groups)
    assert open_line.split()[1:3] == ["Empty", "0"]
    assert reason in closed_line
    assert closed_line.split()[1:3] == ["Empty", "-"]
    (line,) = err.splitlines()
    assert line.startswith("pykafka: 1 of ")
    assert f"cannot be described: FindCoordinator of {groups[1]!r}: {reason}" in line
    assert "This client is logged in as 'bob'." in line

    assert main(["groups", "list", "--json", "--command-config", str(config)]) == 1
    rows = {row["group"]: row for row in json.loads(capfd.readouterr().out)}
    assert (rows[groups[0]]["members"], rows[groups[0]]["error"]) == (0, None)
    assert rows[groups[1]]["members"] is None
    assert rows[groups[1]]["error"].startswith(reason)
