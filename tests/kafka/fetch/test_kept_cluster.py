"""A worker outlives its tasks, and the cluster that they read: set up anew, it has another id and other topics."""

import pytest
from fake_broker import serve
from fetch_rig import Kafka, fetch_settings, offsets

from kafkasource.errors import ClusterMismatch
from kafkasource.kafka.cluster.cache import close_clusters
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.fetch.kept_cluster import fetch_kept
from kafkasource.types import OffsetRange, TopicPartition


class Worker:
    """It has read a range of topic `t` of one cluster; now another answers at that address."""

    def __init__(self, served, address, **settings):
        self._served, self._settings = served, fetch_settings(**settings)
        self.config = ClientConfig.of("{}:{}".format(*address))
        self.old_topic = served.topics["t"]
        self.new = Kafka(topics={"t": 1}, cluster_id="new-cluster")
        self.new.addresses[1] = address

    def move(self):
        self._served.handle = self.new.handle

    def read(self, topic_id=None):
        one = OffsetRange(TopicPartition("t", 0), 0, 100, topic_id=topic_id)
        return fetch_kept(self.config, [one], self._settings)


@pytest.fixture
def worker():
    kafka = Kafka(topics={"t": 1}, cluster_id="old-cluster")
    with serve(kafka) as address:
        worker = Worker(kafka, address, max_partition_bytes=1)  # a record batch each
        assert offsets(worker.read()) == list(range(100))
        yield worker
        close_clusters()


def test_a_plan_of_the_new_cluster_is_read_from_it(worker):
    worker.move()
    assert offsets(worker.read(worker.new.topics["t"].topic_id)) == list(range(100))


def test_a_plan_of_the_old_cluster_is_not_read_from_the_new_one(worker):
    worker.move()
    with pytest.raises(ClusterMismatch, match="cluster new-cluster answered where cluster old-cluster was seen first"):
        offsets(worker.read(worker.old_topic.topic_id))


def test_a_plan_without_ids_of_topics_is_not_read_from_the_new_cluster(worker):
    worker.move()
    worker.new.topics.clear()
    with pytest.raises(ClusterMismatch):
        offsets(worker.read())


def test_rows_of_two_clusters_are_never_mixed(worker):
    rows = worker.read(worker.old_topic.topic_id)
    assert next(rows).num_rows == 10
    worker.move()
    worker.new.topics["t"].topic_id = worker.old_topic.topic_id
    worker.new.topics["t"].leaders[0] = -1
    with pytest.raises(ClusterMismatch):
        list(rows)
