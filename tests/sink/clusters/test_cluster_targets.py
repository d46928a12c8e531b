"""The option `clusters`: the settings of each cluster, and what is refused before any broker is asked."""

import json
import pickle

import pytest

from kafkasource import options
from kafkasource.errors import OptionError
from kafkasource.sink.clusters import targets
from kafkasource.types import NewTopic

EAST = {"kafka.bootstrap.servers": "e:9092"}
WEST = {"kafka.bootstrap.servers": "w:9092"}


def parse(clusters=None, **written):
    given = {} if clusters is None else {"clusters": json.dumps(clusters)}
    return targets.parse(given | {key.replace("__", "."): str(value) for key, value in written.items()})


def test_json_and_options_by_name_say_the_same():
    by_name = targets.parse(
        {"clusters.east.kafka.bootstrap.servers": "e:9092", "Clusters.west.KAFKA.bootstrap.servers": "w:9092"}
    )
    assert by_name.by_name == parse({"east": EAST, "west": WEST}).by_name
    assert list(by_name.by_name) == ["east", "west"]
    assert by_name.by_name["west"].config.client.bootstrap_servers == (("w", 9092),)


def test_an_option_without_effect_is_warned_of_once_for_all_clusters_and_once_for_each_of_its_own(caplog):
    unused = "kafka.ssl.truststore.type"
    parse({"east": EAST, "west": WEST | {"kafka.ssl.keystore.type": "PEM"}}, topic="t", **{unused: "PEM", "lingr": "1"})
    said = [record.getMessage().split("'")[1] for record in caplog.records]
    assert sorted(said) == ["kafka.ssl.keystore.type", "kafka.ssl.truststore.type", "lingr"]


def test_an_option_of_all_clusters_that_has_an_effect_on_one_of_them_is_not_warned_of(caplog):
    """TLS on the way to one cluster, none inside of the other's network."""
    secured = WEST | {"kafka.security.protocol": "SSL"}
    common = {"kafka.ssl.endpoint.identification.algorithm": "https", "kafka.sasl.mechanism": "PLAIN"}
    parse({"east": EAST, "west": secured}, topic="t", **common)
    assert [record.getMessage().split("'")[1] for record in caplog.records] == ["kafka.sasl.mechanism"] * 2
    caplog.clear()
    own = secured | {"kafka.ssl.truststore.type": "PEM"}
    parse({"east": EAST, "west": own}, **{"kafka.ssl.truststore.type": "PEM"})
    assert "kafka.ssl.truststore.type" in caplog.text


def test_what_stands_outside_holds_for_all_but_those_that_say_otherwise():
    found = targets.parse(
        {
            "clusters": json.dumps({"east": EAST | {"kafka.compression.codec": "zstd"}, "west": WEST}),
            "kafka.compression.type": "lz4",
            "onSlowCluster": "discard",
            "clusters.west.onSlowCluster": "fail",
        }
    ).by_name
    assert {name: one.config.compression for name, one in found.items()} == {"east": "zstd", "west": "lz4"}
    assert {name: one.policy for name, one in found.items()} == {"east": "discard", "west": "fail"}


def test_topics_are_mapped_by_a_template_and_stay_the_same_without_one():
    found = parse({"east": EAST | {"topic": "east.${topic}"}, "west": WEST}, topic="orders")
    assert found.topic == "orders"
    assert [one.topic("orders") for one in found.by_name.values()] == ["east.orders", "orders"]
    assert parse({"east": EAST | {"topic": "all"}}).topic == ""  # rows need not name one
    assert parse({"east": EAST}).topic is None


def test_a_missing_topic_is_made_by_its_name_in_the_cluster():
    east = EAST | {"topic": "east.${topic}", "createTopic": "partitions=6"}
    assert parse({"east": east, "west": WEST}, topic="t").by_name["east"].new_topic == ("east.t", NewTopic(6))
    assert parse({"east": east, "west": WEST}, topic="t").by_name["west"].new_topic is None
    with pytest.raises(OptionError, match=r"cluster 'east' .*'createTopic' needs the option 'topic'"):
        parse({"east": east})


def test_watermarks_follow_from_the_clusters_memory():
    block = parse({"east": EAST | {"kafka.buffer.memory": 8_000_000}}).by_name["east"]
    assert (block.low_watermark_bytes, block.high_watermark_bytes) == (4_000_000, 8_000_000)
    discard = parse({"east": EAST | {"kafka.buffer.memory": 8_000_000, "onSlowCluster": "discard"}}).by_name["east"]
    assert (discard.low_watermark_bytes, discard.high_watermark_bytes) == (3_000_000, 6_000_000)
    assert discard.config.buffer_memory_bytes == 8_000_000
    below = parse({"east": EAST | {"highWatermarkBytes": "2m", "lowWatermarkBytes": "1m"}}).by_name["east"]
    assert below.config.buffer_memory_bytes == 2 * 1024 * 1024  # a task that would go above it waits for memory


def test_who_blocks_waits_for_as_long_as_it_takes_unless_told_otherwise():
    assert parse({"east": EAST}).by_name["east"].config.delivery_timeout_ms == 2**31 - 1
    own = parse({"east": EAST | {"kafka.delivery.timeout.ms": 50_000}}).by_name["east"]
    assert (own.config.delivery_timeout_ms, own.config.max_block_ms) == (50_000, 50_000)
    once = parse({"east": EAST}, deliveryGuarantee="exactly_once", transactionalIdPrefix="p").by_name["east"]
    assert once.config.delivery_timeout_ms == once.transaction_timeout_ms == 600_000
    assert parse({"east": EAST}, onSlowCluster="fail").by_name["east"].config.delivery_timeout_ms == 120_000


def test_what_is_too_old_is_not_delivered_any_more():
    one = parse({"east": EAST}, maxRecordAge="10s").by_name["east"]
    assert (one.max_record_age_ms, one.config.delivery_timeout_ms) == (10_000, 10_000)
    assert parse({"east": EAST}, maxRecordAge="50ms").by_name["east"].config.linger_ms < 50


@pytest.mark.parametrize(
    ("clusters", "written", "text"),
    [
        (
            {"east": EAST | {"kafka.aks": "1"}},
            {},
            r"'clusters\.east\.kafka\.aks' is unknown: did you mean 'kafka.acks'",
        ),
        ({"east": EAST | {"subscribe": "t"}}, {}, r"'clusters\.east\.subscribe' is unknown: it is an option for read"),
        ({"east": EAST | {"kafka.acks": "2"}}, {}, "cluster 'east' of 'clusters': option 'kafka.acks'"),
        ({"east": EAST | {"kafka.transactional.id": "x"}}, {}, "cluster 'east'.*each task has its own"),
        ({"east": {}}, {}, "cluster 'east' of 'clusters': Option 'kafka.bootstrap.servers' must be specified"),
        ({"east": EAST}, {"kafka__bootstrap__servers": "x:1"}, r"'clusters\.<name>\.kafka\.bootstrap\.servers'"),
        ({"east": EAST, "EAST": WEST}, {}, "there twice"),
        ({"ea st": EAST}, {}, "letters, digits"),
        ({}, {}, "names no cluster"),
        ({"east": "e:9092"}, {}, "expected JSON"),
        ({"east": EAST | {"kafka.acks": [1]}}, {}, r"'clusters\.east\.kafka\.acks': expected a text"),
        ({"east": EAST | {"commitListener": "a:b"}}, {}, r"'clusters\.east\.commitListener'.* for all clusters"),
        ({"east": EAST}, {"clusters__east__kafka__metadata__broker__list": "e:1"}, "given twice"),
        ({"east": EAST}, {"clusters__east": "x"}, r"expected clusters\.<name>\.<option>"),
        ({"east": EAST | {"lowWatermarkBytes": "40m"}}, {}, "'lowWatermarkBytes'.* is above 'highWatermarkBytes'"),
        ({"east": EAST | {"highWatermarkBytes": "40m"}}, {}, "'highWatermarkBytes'.* is above 'kafka.buffer.memory'"),
        ({"east": EAST | {"highWatermarkBytes": "4k"}}, {}, "'kafka.batch.size'.* is above 'highWatermarkBytes'"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_options_full_name(clusters, written, text):
    with pytest.raises(OptionError, match=text):
        parse(clusters, **written)


@pytest.mark.parametrize(
    ("own", "name"),
    [
        ({"onSlowCluster": "discard"}, "onSlowCluster"),
        ({"onSlowCluster": "fail"}, "onSlowCluster"),
        ({"maxRecordAge": "1m"}, "maxRecordAge"),
    ],
)
def test_exactly_once_allows_nothing_to_be_dropped(own, name):
    with pytest.raises(OptionError, match=f"cluster 'east' .*{name}.* cannot be combined with"):
        parse({"east": EAST | own}, deliveryGuarantee="exactly_once", transactionalIdPrefix="p")


@pytest.mark.parametrize(
    "name",
    [
        "partitioning",
        "producersPerCluster",
        "onSlowCluster",
        "highWatermarkBytes",
        "lowWatermarkBytes",
        "slowClusterWait",
        "maxRecordAge",
        "onlyTopics",
        "unlessOrigin",
        "offsetMap",
    ],
)
def test_options_of_clusters_are_refused_without_them(name):
    value = {
        "partitioning": "key",
        "onSlowCluster": "fail",
        "producersPerCluster": "2",
        "unlessOrigin": '{"here": "a", "target": "b", "flows": []}',
    }.get(name, "5000")
    with pytest.raises(OptionError, match=f"{name!r} needs 'clusters'"):
        options.parse({"kafka.bootstrap.servers": "b:1", "topic": "t", name: value}, "sink")


def test_targets_cross_to_the_tasks_and_are_a_key_there():
    found = parse({"east": EAST, "west": WEST}, topic="t")
    again = pickle.loads(pickle.dumps(found))
    assert {one: name for name, one in again.by_name.items()} == {one: name for name, one in found.by_name.items()}


def test_a_plain_write_names_no_cluster():
    assert not targets.named({"kafka.bootstrap.servers": "b:1", "topic": "clusters"})
    assert targets.named({"CLUSTERS": "{}"})
    assert targets.named({"clusters.a.topic": "t"})
