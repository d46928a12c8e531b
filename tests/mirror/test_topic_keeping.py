"""Topics at a target follow those of the source, and nothing is taken away."""

import logging
import threading

import pytest

from kafkasource.errors import (
    BootstrapFailed,
    BrokerError,
    DeadlineExceeded,
    InvalidConfig,
    KafkaSourceError,
    TopicAlreadyExists,
    UnsupportedApiVersion,
    error_for,
)
from kafkasource.kafka.cluster.topics import Setting
from kafkasource.kafka.network.metadata import PartitionMetadata, TopicMetadata
from kafkasource.mirror.carried_settings import CarriedSettings
from kafkasource.mirror.flow import Flow
from kafkasource.mirror.plan import Plan, routes, with_refused
from kafkasource.mirror.topics import Change, Create, Grow, Known, TopicKeeper, steps
from kafkasource.sink.clusters import targets

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
    """Topics in memory: a cluster, and its part `topics` at once."""

    def __init__(self, topics=(), settings=None):
        self.partitions = dict(topics)
        self.configs = {name: dict(found) for name, found in (settings or {}).items()}
        self.fault = None
        self.fault_of = {}  # by topic
        self.valid = lambda settings: True  # may a topic have them?
        self.asked_settings = []
        self.hidden = set()  # topics whose settings the user may not see
        self.gone = set()  # topics that are deleted once they have been listed
        self.creates = 0
        self.topics = self

    def list(self):
        if self.fault is not None:
            raise self.fault
        return [
            TopicMetadata(name, None, name.startswith("__"), {n: PartitionMetadata(n, 1, 0) for n in range(count)})
            for name, count in self.partitions.items()
        ]

    def settings(self, topics):
        found, refused = self.settings_or_refusals(topics)
        for error in refused.values():
            raise error
        return found

    def settings_or_refusals(self, topics):
        names = list(topics)
        if names:
            self.asked_settings.append(names)
        codes = {**dict.fromkeys(self.hidden, 29), **dict.fromkeys(self.gone, 3)}
        found = {
            name: [Setting(key, value, "topic") for key, value in self.configs.get(name, {}).items()]
            + [Setting("flush.ms", "1", "default")]
            for name in names
            if name not in codes
        }
        return found, {name: error_for(codes[name], f"DescribeConfigs {name!r}") for name in names if name in codes}

    def create(self, names, *, partitions=1, replication_factor=-1, configs=None, validate_only=False):
        for name in names:
            self.creates += 1
            if name in self.fault_of:
                raise self.fault_of[name]
            if name in self.partitions:
                raise TopicAlreadyExists(36, name)
            if not self.valid(configs or {}):
                raise InvalidConfig(40, f"CreateTopics {name!r}")
            if validate_only:
                continue
            self.partitions[name] = partitions
            self.configs[name] = dict(configs or {})

    def add_partitions(self, totals):
        self.partitions.update(totals)

    def change_settings(self, topic, changes, *, validate_only=False):
        if topic in self.fault_of:
            raise self.fault_of[topic]
        has = {**self.configs.get(topic, {}), **changes}
        if not self.valid({key: value for key, value in has.items() if value is not None}):
            raise InvalidConfig(40, f"IncrementalAlterConfigs {topic!r}")
        if validate_only:
            return
        for name, value in changes.items():
            if value is None:
                self.configs[topic].pop(name, None)
            else:
                self.configs.setdefault(topic, {})[name] = value

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
    return keeper_of(route, clusters, **more)


def keeper_of(route, clusters, **more):
    return TopicKeeper(
        route, clusters, refresh_topics_s=5, refresh_settings_s=60, open_cluster=lambda cluster: cluster, **more
    )


def test_what_comes_at_the_source_comes_at_all_targets():
    a, b, c = FakeCluster({"orders": 3, "other": 1}, {"orders": {"retention.ms": "5"}}), FakeCluster(), FakeCluster()
    clock = Clock()
    one = keeper((Flow("A", "B", topics=("orders.*",)), Flow("A", "C")), {"A": a, "B": b, "C": c}, clock=clock)
    one.look(first=True)
    assert b.partitions == {"orders": 3, "mirror-offsets.A.internal": 1}
    assert c.partitions == {"orders": 3, "other": 1, "mirror-offsets.A.internal": 1}
    assert b.configs["orders"] == {"retention.ms": "5"}
    assert b.configs["mirror-offsets.A.internal"]["cleanup.policy"] == "compact"

    a.partitions.update({"orders": 5, "orders-eu": 2})
    a.configs["orders-eu"] = {"cleanup.policy": "compact"}
    one.look()
    assert b.partitions == {"orders": 5, "orders-eu": 2, "mirror-offsets.A.internal": 1}
    assert b.configs["orders-eu"] == {"cleanup.policy": "compact"}


def test_a_topic_that_was_deleted_at_the_target_is_made_again_with_its_settings():
    a, b = FakeCluster({"orders": 3}, {"orders": {"max.message.bytes": "9000000"}}), FakeCluster()
    one = keeper((Flow("A", "B"),), {"A": a, "B": b}, clock=Clock())
    one.look(first=True)
    for _ in range(2):
        del b.partitions["orders"], b.configs["orders"]
        made = []
        for _ in range(2):  # the clock stands: settings are not due
            one.look()
            made.append(b.configs.get("orders"))
        assert made == [None, {"max.message.bytes": "9000000"}]
    assert b.partitions["orders"] == 3


def test_settings_are_asked_for_no_more_often_than_wanted():
    a, b, clock = FakeCluster({"orders": 1}, {"orders": {"retention.ms": "5"}}), FakeCluster(), Clock()
    one = keeper((Flow("A", "B"),), {"A": a, "B": b}, clock=clock)
    one.look(first=True)
    a.configs["orders"] = {"segment.ms": "7"}
    clock.now += 59
    one.look()
    assert b.configs["orders"] == {"retention.ms": "5"}
    clock.now += 2
    one.look()
    assert b.configs["orders"] == {"segment.ms": "7"}
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
        assert "orders" in c.partitions
        b.fault = None
        one.look()
        assert "orders" in b.partitions


def test_a_target_that_refuses_later_holds_up_no_other_and_is_said(caplog):
    a, b, c = FakeCluster({"orders": 1}), FakeCluster(), FakeCluster()
    one = keeper((Flow("A", "B"), Flow("A", "C")), {"A": a, "B": b, "C": c})
    one.look(first=True)
    a.partitions["new"] = 1
    b.fault = KafkaSourceError("no")
    with caplog.at_level(logging.WARNING, "kafkasource.mirror"):
        one.look()
    assert "flow A->B: cannot create or update topics at the target: no" in caplog.text
    assert "new" in c.partitions
    b.fault = None
    one.look()
    assert "new" in b.partitions


def test_a_source_too_old_to_tell_its_settings_is_mirrored_without_them():
    a, b = FakeCluster({"orders": 2}), FakeCluster()

    def too_old(topics):
        raise UnsupportedApiVersion("DescribeConfigs")

    a.settings_or_refusals = too_old
    keeper((Flow("A", "B"),), {"A": a, "B": b}).look(first=True)
    assert b.partitions["orders"] == 2


def test_a_target_that_shows_the_settings_of_some_topics_alone_gets_those_and_all_records(caplog):
    settings = {"orders": {"retention.ms": "5"}, "logs": {"retention.ms": "6"}}
    a, b = FakeCluster({"orders": 2, "logs": 2}, settings), FakeCluster({"orders": 1, "logs": 1})
    b.hidden = {"orders"}
    clock = Clock()
    with caplog.at_level(logging.WARNING, "kafkasource.mirror"):
        one = keeper((Flow("A", "B"),), {"A": a, "B": b}, clock=clock)
        one.look(first=True)
        a.partitions["news"] = 1
        clock.now += 100
        one.look()
    assert {name: b.partitions[name] for name in ("orders", "logs", "news")} == {"orders": 2, "logs": 2, "news": 1}
    assert b.configs["logs"] == {"retention.ms": "6"}
    assert "orders" not in b.configs
    assert [text for text in caplog.messages if "the settings of orders are not kept up to date" in text] == (
        caplog.messages
    )
    assert len(caplog.messages) == 1


def test_a_topic_that_is_deleted_while_the_mirror_looks_holds_up_no_other_at_either_end(caplog):
    a, b = FakeCluster({"keep": 1, "gone": 1, "lost": 1}, {"keep": {"retention.ms": "5"}}), FakeCluster({"lost": 1})
    a.gone, b.gone = {"gone"}, {"lost"}
    with caplog.at_level(logging.WARNING, "kafkasource.mirror"):
        keeper((Flow("A", "B", offset_map=False),), {"A": a, "B": b}).look(first=True)
    assert b.partitions == {"lost": 1, "keep": 1}
    assert b.configs["keep"] == {"retention.ms": "5"}
    assert caplog.messages == []


def circle(names, a):
    """Clusters with one topic of one name, that each flow carries on to the next; and what looks at all, in order."""
    clusters = {name: FakeCluster() for name in names} | {"A": a}
    flows = tuple(Flow(source, target) for source, target in zip(names, names[1:] + names[0], strict=True))
    plan = Plan({name: {"kafka.bootstrap.servers": "h:1"} for name in names}, flows, "/ck")
    clock, in_circles = Clock(), CarriedSettings()
    keepers = {
        route.source: keeper_of(
            route, {name: clusters[name] for name in route.clients}, clock=clock, in_circles=in_circles
        )
        for route in routes(plan)
    }
    for one in keepers.values():
        one.look(first=True)

    def look(sources):
        clock.now += 61
        for source in sources:
            keepers[source].look()

    return clusters, look


@pytest.mark.parametrize("names", ["AB", "ABC"])  # in both directions; a ring
def test_with_one_name_at_several_clusters_a_change_at_any_of_them_arrives_at_all(names):
    clusters, look = circle(names, FakeCluster({"orders": 1}, {"orders": {"retention.ms": "1"}}))

    def each_has(settings):
        for _ in names:
            look(names)
        return [clusters[name].configs["orders"] for name in names] == [settings] * len(names)

    assert each_has({"retention.ms": "1"})
    for number, name in enumerate(names):
        clusters[name].configs["orders"] = {"retention.ms": f"1{number}", "segment.ms": "7"}
        assert each_has({"retention.ms": f"1{number}", "segment.ms": "7"})
        del clusters[name].configs["orders"]["segment.ms"]
        assert each_has({"retention.ms": f"1{number}"})


@pytest.mark.parametrize("names", ["AB", "ABC"])
def test_a_setting_on_its_way_round_does_not_undo_what_is_changed_behind_it(names):
    for order in (names, names[::-1]):
        for first in names:
            clusters, look = circle(names, FakeCluster({"orders": 1}, {"orders": {"retention.ms": "1"}}))
            look(order)
            configs = clusters[first].configs
            for value in ("2", "3", "2", "4"):
                configs["orders"]["retention.ms"] = value
                look(order)
                assert configs["orders"] == {"retention.ms": value}
            del configs["orders"]["retention.ms"]
            for _ in names:
                look(order)
            assert [clusters[name].configs["orders"] for name in names] == [{}] * len(names)


def test_a_change_that_a_target_could_not_take_is_carried_later_in_both_directions():
    a = FakeCluster({"orders": 1}, {"orders": {"retention.ms": "1", "segment.ms": "7"}})
    clusters, look = circle("AB", a)
    b = clusters["B"]
    del a.configs["orders"]["segment.ms"]
    b.fault_of["orders"] = BrokerError(44, "IncrementalAlterConfigs")
    look("A")
    b.fault_of.clear()
    b.configs["orders"]["retention.ms"] = "2"  # in between
    look("AB")
    assert a.configs["orders"] == b.configs["orders"] == {"retention.ms": "2"}


def test_a_target_without_a_way_back_gets_the_settings_of_the_source_again():
    a, b = FakeCluster({"orders": 1}, {"orders": {"retention.ms": "1"}}), FakeCluster({"users": 1})
    flows = (Flow("A", "B", topics=("orders",)), Flow("B", "A", topics=("users",)))
    plan = Plan({name: {"kafka.bootstrap.servers": "h:1"} for name in "AB"}, flows, "/ck")
    clock = Clock()
    ab = keeper_of(routes(plan)[0], {"A": a, "B": b}, clock=clock)
    ab.look(first=True)
    b.configs["orders"]["retention.ms"] = "2"
    clock.now += 61
    ab.look()
    assert b.configs["orders"] == {"retention.ms": "1"}


def test_without_sync_settings_nobody_is_asked_for_any():
    a, b = FakeCluster({"orders": 1}), FakeCluster({"orders": 1})
    a.hidden = b.hidden = {"orders"}
    keeper((Flow("A", "B", sync_settings=False),), {"A": a, "B": b}).look(first=True)
    assert a.asked_settings == b.asked_settings == []


def test_a_target_too_old_to_add_partitions_gets_its_other_topics(caplog):
    a, b = FakeCluster({"grown": 2, "other": 1}), FakeCluster({"grown": 1})

    def too_old(totals):
        raise UnsupportedApiVersion("CreatePartitions")

    b.add_partitions = too_old
    with caplog.at_level(logging.WARNING, "kafkasource.mirror"):
        keeper((Flow("A", "B"),), {"A": a, "B": b}).look(first=True)
    assert "other" in b.partitions
    assert "topic grown at B: CreatePartitions" in caplog.text


def test_a_target_too_old_to_change_a_setting_gets_its_records_all_the_same(caplog):
    a, b = FakeCluster({"orders": 2}, {"orders": {"retention.ms": "5"}}), FakeCluster({"orders": 1})

    def too_old(topic, changes, *, validate_only):
        raise UnsupportedApiVersion("IncrementalAlterConfigs")

    b.change_settings = too_old
    with caplog.at_level(logging.WARNING, "kafkasource.mirror"):
        keeper((Flow("A", "B"),), {"A": a, "B": b}).look(first=True)
    assert b.partitions["orders"] == 2
    assert "retention.ms" in caplog.text


OLD = "message.format.version"


def without_old(settings):
    """What Kafka 4 says."""
    return OLD not in settings


def test_a_setting_that_a_target_refuses_is_left_out_with_a_warning_and_the_topic_gets_the_others(caplog):
    a = FakeCluster({"orders": 1, "plain": 1}, {"orders": {OLD: "3.0-IV1", "retention.ms": "5", "segment.ms": "7"}})
    b = FakeCluster()
    b.valid = without_old
    clock = Clock()
    one = keeper((Flow("A", "B"),), {"A": a, "B": b}, clock=clock)
    with caplog.at_level(logging.WARNING, "kafkasource.mirror"):
        one.look(first=True)
        assert b.configs["orders"] == {"retention.ms": "5", "segment.ms": "7"}
        assert "plain" in b.partitions
        (warning,) = caplog.messages
        for named in (OLD, "3.0-IV1", "orders", "cluster B"):
            assert named in warning
        a.configs["orders"]["retention.ms"] = "6"
        clock.now += 61
        one.look()
    assert b.configs["orders"] == {"retention.ms": "6", "segment.ms": "7"}
    assert len(caplog.messages) == 1  # it is not said again at each look


def test_a_setting_that_no_topic_may_have_is_tried_once_and_said_of_each_topic(caplog):
    a = FakeCluster(dict.fromkeys("pqrs", 1), {name: {OLD: "3.0", "retention.ms": "5"} for name in "pqrs"})
    b = FakeCluster()
    b.valid = without_old
    with caplog.at_level(logging.WARNING, "kafkasource.mirror"):
        keeper((Flow("A", "B", offset_map=False),), {"A": a, "B": b}).look(first=True)
    assert [b.configs[name] for name in "pqrs"] == [{"retention.ms": "5"}] * 4
    assert len(caplog.messages) == 4
    assert b.creates == 1 + 2 + 2 + 1 + 3  # p: refused, each setting alone, then joined, made; and the others at once


def test_settings_that_are_right_only_together_are_kept_together():
    wanted = {"local.retention.ms": "9", "retention.ms": "99", "x": "refused"}
    a, b = FakeCluster({"orders": 1}, {"orders": wanted}), FakeCluster()
    b.valid = lambda found: (
        "x" not in found and int(found.get("local.retention.ms", 0)) <= int(found.get("retention.ms", 7))
    )
    keeper((Flow("A", "B", offset_map=False),), {"A": a, "B": b}).look(first=True)
    assert b.configs["orders"] == {"local.retention.ms": "9", "retention.ms": "99"}


def test_changed_settings_that_are_right_only_together_arrive_beside_one_that_is_refused():
    wanted = {"max.compaction.lag.ms": "10", OLD: "3.0-IV1", "min.compaction.lag.ms": "1"}
    a = FakeCluster({"orders": 1}, {"orders": wanted})
    b = FakeCluster({"orders": 1}, {"orders": {"min.compaction.lag.ms": "20", "max.compaction.lag.ms": "30"}})
    b.valid = lambda found: (
        OLD not in found and int(found.get("min.compaction.lag.ms", 0)) <= int(found.get("max.compaction.lag.ms", 99))
    )
    keeper((Flow("A", "B", offset_map=False),), {"A": a, "B": b}).look(first=True)
    assert b.configs["orders"] == {"max.compaction.lag.ms": "10", "min.compaction.lag.ms": "1"}


def test_a_setting_that_was_refused_is_tried_again_beside_a_later_change():
    a = FakeCluster({"orders": 1}, {"orders": {"local.retention.ms": "9"}})
    b = FakeCluster({"orders": 1}, {"orders": {"retention.ms": "7"}})
    b.valid = lambda found: int(found.get("local.retention.ms", 0)) <= int(found.get("retention.ms", 99))
    clock = Clock()
    one = keeper((Flow("A", "B", offset_map=False),), {"A": a, "B": b}, clock=clock)
    one.look(first=True)
    assert b.configs["orders"] == {"retention.ms": "7"}
    a.configs["orders"]["retention.ms"] = "99"
    clock.now += 61
    one.look()
    assert b.configs["orders"] == {"local.retention.ms": "9", "retention.ms": "99"}


def test_a_changed_setting_that_a_target_refuses_leaves_the_other_changes(caplog):
    a = FakeCluster({"orders": 1}, {"orders": {OLD: "3.0-IV1", "retention.ms": "5"}})
    b = FakeCluster({"orders": 1})
    b.valid = without_old
    with caplog.at_level(logging.WARNING, "kafkasource.mirror"):
        keeper((Flow("A", "B"),), {"A": a, "B": b}).look(first=True)
    assert b.configs["orders"] == {"retention.ms": "5"}
    assert OLD in caplog.text


def test_a_topic_that_a_target_refuses_holds_up_no_other_and_is_made_once_it_may_be(caplog):
    a, b = FakeCluster({"bad": 1, "good": 1, "zz": 1}, {"bad": {"retention.ms": "5"}}), FakeCluster()
    b.fault_of["bad"] = BrokerError(44, "CreateTopics 'bad'")  # the cluster's policy
    one = keeper((Flow("A", "B"),), {"A": a, "B": b})
    with caplog.at_level(logging.WARNING, "kafkasource.mirror"):
        one.look(first=True)
        one.look()
    assert {"good", "zz"} < b.partitions.keys()
    assert [each for each in caplog.messages if "topic bad at B" in each and "POLICY_VIOLATION" in each] == (
        caplog.messages[:1]
    )
    assert len(caplog.messages) == 1
    b.fault_of.clear()
    one.look()
    assert b.configs["bad"] == {"retention.ms": "5"}


@pytest.mark.parametrize("code", [17, 29, 44])  # INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED, POLICY_VIOLATION
def test_the_queries_hear_of_topics_that_a_target_refuses_for_good_and_of_no_others(code):
    """Others may be created at one of the next looks: the tasks wait for these, and lose nothing."""
    a, b, c = FakeCluster({"bad": 1, "good": 1, "late": 1}), FakeCluster(), FakeCluster()
    b.fault_of["B.bad"] = error_for(code, "CreateTopics 'B.bad'")
    b.fault_of["B.late"] = error_for(38, "CreateTopics 'B.late'")  # INVALID_REPLICATION_FACTOR: a broker is down
    flows = (Flow("A", "B", topic="B.${topic}"), Flow("A", "C"))
    one = keeper(flows, {"A": a, "B": b, "C": c})
    one.look(first=True)
    assert one.refused() == {"B": ["B.bad"], "C": []}
    (route,) = routes(Plan({name: {"kafka.bootstrap.servers": f"{name}:1"} for name in "ABC"}, flows, "/ck"))
    by_name = targets.parse(with_refused(route.write, one.refused())).by_name
    assert {name: target.refused for name, target in by_name.items()} == {"B": {"B.bad"}, "C": set()}
    b.fault_of.clear()
    one.look()
    assert one.refused() == {"B": [], "C": []}


def test_a_target_that_refuses_every_topic_ends_the_start():
    a, b = FakeCluster({"p": 1, "q": 1}), FakeCluster()
    b.fault_of = dict.fromkeys("pq", BrokerError(29, "CreateTopics"))  # TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        keeper((Flow("A", "B"),), {"A": a, "B": b}).look(first=True)


def test_a_target_that_answers_nothing_is_not_asked_for_each_of_its_topics():
    names = [f"t{number}" for number in range(9)]
    a, b = FakeCluster(dict.fromkeys(names, 1)), FakeCluster()
    b.fault_of = dict.fromkeys(names, DeadlineExceeded("no answer"))
    with pytest.raises(DeadlineExceeded):
        keeper((Flow("A", "B", offset_map=False),), {"A": a, "B": b}).look(first=True)
    assert b.creates == 2


class StuckCluster(FakeCluster):
    """Answers nothing until it is let go."""

    def __init__(self):
        super().__init__()
        self.go = threading.Event()

    def list(self):
        assert self.go.wait(60)
        return super().list()

    def close(self):
        self.go.set()


def test_a_target_that_answers_nothing_holds_up_no_other_neither_at_the_start_nor_later():
    a, stuck, c = FakeCluster({"orders": 1}), StuckCluster(), FakeCluster()
    one = keeper((Flow("A", "B"), Flow("A", "C")), {"A": a, "B": stuck, "C": c})
    begun = one.ask(first=True)
    begun[1].work.result(60)
    assert "orders" in c.partitions
    a.partitions["new"] = 1
    again = one.ask()
    assert again == begun[1:]  # B is still asked the first question
    again[0].work.result(60)
    assert "new" in c.partitions
    stuck.go.set()
    begun[0].work.result(60)
    one.look()
    assert stuck.partitions.keys() == c.partitions.keys()


def test_the_end_waits_for_no_target():
    a, stuck = FakeCluster({"orders": 1}), StuckCluster()
    one = keeper((Flow("A", "B"),), {"A": a, "B": stuck})
    one.ask()
    one.close()
    assert stuck.go.is_set()
