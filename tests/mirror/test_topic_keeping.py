"""Topics at a target follow those of the source, and nothing is taken away."""

import logging

import pytest

from kafkasource.client.admin import Setting
from kafkasource.client.metadata import PartitionMetadata, TopicMetadata
from kafkasource.errors import BootstrapFailed, KafkaSourceError, TopicAlreadyExists, UnsupportedApiVersion
from kafkasource.mirror.plan import Flow, Plan, routes
from kafkasource.mirror.topics import Change, Create, Grow, Known, TopicKeeper, steps

FLOW = Flow("A", "B", topic="${source}.${topic}")


def test_a_topic_is_made_with_the_partitions_and_settings_of_the_source():
    here = Known({"orders": 6}, {"orders": {"retention.ms": "5", "min.insync.replicas": "2"}})
    assert steps(FLOW, ["orders"], here, Known({})) == [Create("A.orders", 6, {"retention.ms": "5"})]


def test_a_topic_is_grown_and_never_shrunk():
    here = Known({"orders": 6})
    assert steps(FLOW, ["orders"], here, Known({"A.orders": 4})) == [Grow("A.orders", 6)]
    assert steps(FLOW, ["orders"], here, Known({"A.orders": 8})) == []


def test_settings_that_differ_are_changed_and_others_of_the_target_stay():
    here = Known({"orders": 1}, {"orders": {"retention.ms": "5", "cleanup.policy": "compact"}})
    there = Known({"A.orders": 1}, {"A.orders": {"retention.ms": "9", "cleanup.policy": "compact", "segment.ms": "1"}})
    assert steps(FLOW, ["orders"], here, there) == [Change("A.orders", {"retention.ms": "5"})]


def test_a_setting_that_the_source_has_dropped_goes_back_to_the_default():
    before = Known({"orders": 1}, {"orders": {"retention.ms": "5"}})
    there = Known({"A.orders": 1}, {"A.orders": {"retention.ms": "5"}})
    assert steps(FLOW, ["orders"], Known({"orders": 1}, {"orders": {}}), there, before) == [
        Change("A.orders", {"retention.ms": None})
    ]


def test_what_the_flow_does_not_want_done_is_not_done():
    here = Known({"orders": 6}, {"orders": {"retention.ms": "5"}})
    nothing = Flow("A", "B", create_topics=False, sync_settings=False)
    assert steps(nothing, ["orders"], here, Known({})) == []
    assert steps(nothing, ["orders"], here, Known({"orders": 1}, {"orders": {}})) == []


class FakeCluster:
    """Topics in memory, as `client.admin.Admin` tells of them and changes them."""

    def __init__(self, topics=(), settings=None):
        self.topics = dict(topics)
        self.settings = {name: dict(found) for name, found in (settings or {}).items()}
        self.fault = None
        self.asked_settings = []

    def all_topics(self):
        if self.fault is not None:
            raise self.fault
        return [
            TopicMetadata(name, None, name.startswith("__"), {n: PartitionMetadata(n, 1, 0) for n in range(count)})
            for name, count in self.topics.items()
        ]

    def topic_settings(self, topics):
        names = list(topics)
        self.asked_settings.append(names)
        return {
            name: [Setting(key, value, "topic") for key, value in self.settings.get(name, {}).items()]
            + [Setting("flush.ms", "1", "default")]
            for name in names
        }

    def create_topics(self, names, *, partitions=1, replication_factor=-1, configs=None):
        for name in names:
            if name in self.topics:
                raise TopicAlreadyExists(36, name)
            self.topics[name] = partitions
            self.settings[name] = dict(configs or {})

    def create_partitions(self, totals):
        self.topics.update(totals)

    def alter_topic_settings(self, topic, changes):
        for name, value in changes.items():
            if value is None:
                self.settings[topic].pop(name, None)
            else:
                self.settings[topic][name] = value

    def close(self):
        pass


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def keeper(flows, clusters, **more):
    plan = Plan({name: {"kafka.bootstrap.servers": "h:1"} for name in clusters}, flows, "/ck")
    (route,) = routes(plan)
    return TopicKeeper(
        route, clusters, refresh_topics_s=5, refresh_settings_s=60, open_cluster=lambda cluster: cluster, **more
    )


def test_what_comes_at_the_source_comes_at_all_targets():
    a, b, c = FakeCluster({"orders": 3, "other": 1}, {"orders": {"retention.ms": "5"}}), FakeCluster(), FakeCluster()
    clock = Clock()
    one = keeper((Flow("A", "B", topics=("orders.*",)), Flow("A", "C")), {"A": a, "B": b, "C": c}, clock=clock)
    one.look(first=True)
    assert b.topics == {"orders": 3, "mirror-offsets.A.internal": 1}
    assert c.topics == {"orders": 3, "other": 1, "mirror-offsets.A.internal": 1}
    assert b.settings["orders"] == {"retention.ms": "5"}
    assert b.settings["mirror-offsets.A.internal"]["cleanup.policy"] == "compact"

    a.topics.update({"orders": 5, "orders-eu": 2})
    a.settings["orders-eu"] = {"cleanup.policy": "compact"}
    one.look()
    assert b.topics == {"orders": 5, "orders-eu": 2, "mirror-offsets.A.internal": 1}
    assert b.settings["orders-eu"] == {"cleanup.policy": "compact"}


def test_settings_are_asked_for_no_more_often_than_wanted():
    a, b, clock = FakeCluster({"orders": 1}, {"orders": {"retention.ms": "5"}}), FakeCluster(), Clock()
    one = keeper((Flow("A", "B"),), {"A": a, "B": b}, clock=clock)
    one.look(first=True)
    a.settings["orders"] = {"segment.ms": "7"}
    clock.now += 59
    one.look()
    assert b.settings["orders"] == {"retention.ms": "5"}
    clock.now += 2
    one.look()
    assert b.settings["orders"] == {"segment.ms": "7"}
    assert a.asked_settings == [["orders"], ["orders"]]


def test_a_target_that_cannot_be_reached_ends_the_start_unless_it_may_discard():
    away = BootstrapFailed((("h:1", "refused"),), 1)
    for optional in ((), ("B",)):
        a, b, c = FakeCluster({"orders": 1}), FakeCluster(), FakeCluster()
        b.fault = away
        one = keeper((Flow("A", "B"), Flow("A", "C")), {"A": a, "B": b, "C": c}, optional=optional)
        if not optional:
            with pytest.raises(BootstrapFailed):
                one.look(first=True)
            continue
        one.look(first=True)
        assert "orders" in c.topics
        b.fault = None
        one.look()
        assert "orders" in b.topics


def test_a_target_that_refuses_later_holds_up_no_other_and_is_said(caplog):
    a, b, c = FakeCluster({"orders": 1}), FakeCluster(), FakeCluster()
    one = keeper((Flow("A", "B"), Flow("A", "C")), {"A": a, "B": b, "C": c})
    one.look(first=True)
    a.topics["new"] = 1
    b.fault = KafkaSourceError("no")
    with caplog.at_level(logging.WARNING, "kafkasource.mirror"):
        one.look()
    assert "flow A->B: topics are not looked after: no" in caplog.text
    assert "new" in c.topics
    b.fault = None
    one.look()
    assert "new" in b.topics


def test_a_source_too_old_to_tell_its_settings_is_mirrored_without_them():
    a, b = FakeCluster({"orders": 2}), FakeCluster()

    def too_old(topics):
        raise UnsupportedApiVersion("DescribeConfigs")

    a.topic_settings = too_old
    keeper((Flow("A", "B"),), {"A": a, "B": b}).look(first=True)
    assert b.topics["orders"] == 2


def test_a_target_too_old_to_change_a_setting_gets_its_records_all_the_same(caplog):
    a, b = FakeCluster({"orders": 2}, {"orders": {"retention.ms": "5"}}), FakeCluster({"orders": 1})

    def too_old(topic, changes):
        raise UnsupportedApiVersion("IncrementalAlterConfigs")

    b.alter_topic_settings = too_old
    with caplog.at_level(logging.WARNING, "kafkasource.mirror"):
        keeper((Flow("A", "B"),), {"A": a, "B": b}).look(first=True)
    assert b.topics["orders"] == 2
    assert "retention.ms" in caplog.text
