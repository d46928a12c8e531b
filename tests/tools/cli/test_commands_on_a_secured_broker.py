"""What commands on a secured Kafka say of what the user may not see. rights_jobs.py runs each of them."""

import json
import uuid

import pytest

from kafkasource.kafka import ClientConfig, Cluster, TopicPartition
from kafkasource.testing.broker.properties import render
from kafkasource.testing.broker.security.acls import Acl
from kafkasource.tools.cli import main

pytestmark = pytest.mark.broker


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
