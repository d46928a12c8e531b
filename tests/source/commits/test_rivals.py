"""Two queries of one driver that commit to one group: the later one says so."""

import logging
import subprocess
import sys

import pytest
from child_environment import with_package

from kafkasource.kafka.config import ClientConfig
from kafkasource.source.commits.committer import GroupCommitter
from kafkasource.source.commits.rivals import PATIENCE_S, Rivals
from kafkasource.types import TopicPartition

SERVERS = ClientConfig.of("broker:9092").bootstrap_servers
ANOTHER_QUERY = """
import sys
from kafkasource.kafka.config import ClientConfig
from kafkasource.source.commits.rivals import Rivals
rivals = Rivals(ClientConfig.of("broker:9092").bootstrap_servers, "g")
print(rivals.topic(["orders", "bills"], 0.0), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def spark_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    return tmp_path


@pytest.fixture
def another_query(spark_folder):
    """Another reader process of this driver, which commits orders and bills to the group `g`."""
    with subprocess.Popen(
        [sys.executable, "-c", ANOTHER_QUERY],
        env=with_package(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "None\n"
        yield process
        process.communicate()


def test_a_query_that_commits_another_ones_topic_for_a_while_hears_of_it_once(another_query):
    rivals = Rivals(SERVERS, "g")
    assert rivals.topic(["orders"], 0.0) is None
    assert rivals.topic(["orders"], PATIENCE_S - 1) is None
    assert rivals.topic(["orders"], PATIENCE_S) == "orders"
    assert rivals.topic(["orders"], PATIENCE_S + 1) is None


@pytest.mark.parametrize(
    ("servers", "group", "topic"), [(SERVERS, "h", "orders"), (SERVERS, "g", "t"), ((), "g", "orders")]
)
def test_another_group_topic_or_cluster_is_no_rival(servers, group, topic, another_query):
    rivals = Rivals(servers, group)
    assert [rivals.topic([topic], now_s) for now_s in (0.0, PATIENCE_S)] == [None, None]


def test_a_query_that_was_stopped_is_no_rival_of_the_one_that_goes_on(another_query):
    rivals = Rivals(SERVERS, "g")
    assert rivals.topic(["orders"], 0.0) is None
    another_query.communicate()
    assert rivals.topic(["orders"], PATIENCE_S) is None


def test_a_process_without_a_folder_of_spark_notices_nothing_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in ("", str(tmp_path / "gone")):
        monkeypatch.setenv("SPARK_LOCAL_DIRS", value)
        assert Rivals(SERVERS, "g").topic(["orders"], 0.0) is None
    assert list(tmp_path.iterdir()) == []


def test_the_committer_warns_with_the_group_the_topic_and_the_options(another_query, caplog):
    class Cluster:
        groups = property(lambda self: self)

        def commit(self, group, offsets):
            pass

        def close(self):
            pass

    times = iter([0.0, 0.0, PATIENCE_S])
    last = [0.0]

    def clock():
        last[0] = next(times, last[0] + PATIENCE_S)
        return last[0]

    config = ClientConfig.of("broker:9092")
    committer = GroupCommitter(config, "g", open_cluster=lambda config: Cluster(), clock=clock)
    with caplog.at_level(logging.WARNING, "kafkasource.source"):
        for offset in range(1, 4):
            committer.offer({TopicPartition("orders", 0): offset})
            committer.flush()
        committer.close()
    (said,) = [record.getMessage() for record in caplog.records]
    for part in ("'orders'", "'g'", "kafka.group.id", "commitOffsets=false"):
        assert part in said
