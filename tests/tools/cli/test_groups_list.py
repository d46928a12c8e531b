"""`pykafka groups list` where a broker that coordinates groups cannot be reached: the others' groups are shown."""

import json
import socket
from typing import Any

import pytest
from fake_broker import FakeKafka, serving

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.tools.admin.groups import all_groups
from kafkasource.tools.cli import main
from kafkasource.tools.ui.app import _groups


class OfGroups(FakeKafka):
    def _list_groups(self, request):
        row = {"group_id": "g", "protocol_type": "consumer", "group_state": "Empty", "group_type": "classic"}
        return {"error_code": 0, "groups": [row]}


@pytest.fixture
def kafka():
    """Nobody listens at the address of broker 2."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        kafka = OfGroups(nodes=2)
        kafka.addresses[2] = closed.getsockname()
        with serving(kafka) as served:
            yield served


def test_the_others_groups_are_shown_and_the_exit_code_is_1(kafka, capsys):
    assert main(["groups", "list", "-b", kafka.bootstrap_servers, "--json"]) == 1
    out, err = capsys.readouterr()
    assert [line["group"] for line in json.loads(out)] == ["g"]
    last = err.splitlines()[-1]
    assert last.startswith("pykafka: broker 2 does not answer, so the groups that it coordinates are not shown: ")
    assert f"127.0.0.1:{kafka.addresses[2][1]}" in last


def test_the_pages_json_names_the_broker_that_does_not_answer(kafka):
    with Cluster(ClientConfig.of(kafka.bootstrap_servers)) as cluster:
        shown: Any = _groups(cluster)
        lines = all_groups(cluster).lines
    assert [line.group for line in lines] == ["g"]
    assert (shown["unreachable"], len(shown["groups"])) == ([2], 1)
