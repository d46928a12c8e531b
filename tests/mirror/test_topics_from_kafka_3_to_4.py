"""Topics of a real Kafka 3.9.2 at a real 4.3.1, with every setting that a topic of 3.9.2 can have."""

import logging
import uuid

import pytest

from kafkasource.errors import InvalidConfig
from kafkasource.kafka import ClientConfig, Cluster
from kafkasource.mirror.flow import LOCAL_SETTINGS, Flow
from kafkasource.mirror.plan import Plan, routes
from kafkasource.mirror.topics import TopicKeeper
from kafkasource.testing.broker import Broker

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def old():
    with Broker("3.9.2", use_existing=False, heap_mb=256) as broker, Cluster(client(broker)) as admin:
        yield broker, admin


@pytest.fixture
def new(kafka_broker):
    with Cluster(client(kafka_broker)) as admin:
        yield admin


def client(broker):
    return ClientConfig.of(broker.bootstrap_servers)


def settings(admin, topic, *, own=False):
    """By name; `own`: those only that were set for the topic itself."""
    found = admin.topics.settings([topic])[topic]
    return {each.name: each.value for each in found if each.value is not None and (not own or each.source == "topic")}


def test_every_topic_setting_of_3_9_2_arrives_or_is_left_out_with_a_warning_and_other_topics_are_made(
    old, new, kafka_broker, caplog
):
    source, admin = old
    prefix = f"m{uuid.uuid4().hex[:8]}"
    every, before, plain = f"{prefix}-every", f"{prefix}-before", f"{prefix}-plain"
    admin.topics.create([every, before, plain], partitions=2)
    for name, value in settings(admin, every).items():  # the defaults, but as the topics' own
        for topic in (every, before):
            try:
                admin.topics.change_settings(topic, {name: value})
            except InvalidConfig:
                assert name.startswith(("remote.", "local."))  # of tiered storage, which the broker does not have
    wanted = settings(admin, every, own=True)
    assert len(wanted) > 25
    assert {"message.format.version", "cleanup.policy", "retention.ms"} < wanted.keys()
    new.topics.create([before])
    flow = Flow("A", "B", topics=(f"{prefix}.*",))
    servers = {"A": source.bootstrap_servers, "B": kafka_broker.bootstrap_servers}
    clusters = {name: {"kafka.bootstrap.servers": each} for name, each in servers.items()}
    (route,) = routes(Plan(clusters, (flow,), "/ck"))
    clients = {"A": client(source), "B": client(kafka_broker)}
    keeper = TopicKeeper(route, clients, refresh_topics_s=60, refresh_settings_s=60)
    try:
        with caplog.at_level(logging.WARNING, "kafkasource.mirror"):
            keeper.look(first=True)
        made = {topic.name: len(topic.partitions) for topic in new.topics.list()}
        assert {name: made[name] for name in (every, before, plain)} == {every: 2, before: 2, plain: 2}
        unknown = wanted.keys() - settings(new, plain).keys()  # 4.3.1 lists those that it knows
        assert "message.format.version" in unknown
        for topic in (every, before):
            has = settings(new, topic, own=True)
            assert has == {name: value for name, value in wanted.items() if name not in {*unknown, *LOCAL_SETTINGS}}
            for name in unknown - set(LOCAL_SETTINGS):
                (said,) = [each for each in caplog.messages if f"{name}=" in each and f"topic {topic}" in each]
                assert "cluster B" in said
        # Clients of tests before may still look for their brokers, and say so.
        of_the_mirror = [each for each in caplog.records if each.name == "kafkasource.mirror"]
        assert len(of_the_mirror) == 2 * len(unknown - set(LOCAL_SETTINGS))
    finally:
        keeper.close()
        new.topics.delete([every, before, plain])
