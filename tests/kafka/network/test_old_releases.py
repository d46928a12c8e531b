"""Brokers from before ApiVersions: found out without guessing, asked anew on each connection."""

import pytest
from fake_broker import CLOSE, SILENCE, FakeKafka, FakeNet

from kafkasource.errors import ConnectFailed, UnsupportedApiVersion
from kafkasource.kafka.network.old_releases import AUTO, RELEASES
from kafkasource.kafka.protocol.apis import (
    API_VERSIONS,
    DESCRIBE_GROUPS,
    FETCH,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
)
from kafkasource.options import BY_NAME

NEVER = 10_000_000
LIST = {"topics": []}

# What each release serves, from the protocol guide and kafka-python's table of the API versions of old brokers.
NEWEST = {
    "0.8.2": {PRODUCE: 0, FETCH: 0, METADATA: 0, LIST_OFFSETS: 0, OFFSET_COMMIT: 1, OFFSET_FETCH: 1, JOIN_GROUP: None},
    "0.9.0": {PRODUCE: 1, FETCH: 1, METADATA: 0, LIST_OFFSETS: 0, OFFSET_COMMIT: 2, OFFSET_FETCH: 1, JOIN_GROUP: 0},
}

every_release = pytest.mark.parametrize("release", RELEASES)


@pytest.fixture
def net():
    return FakeNet(FakeKafka(nodes=2, topics={"t": 2}))


def until_done(client, *pendings):
    while not all(pending.done for pending in pendings):
        client.poll(NEVER)


def asked(client, node_id=-1):
    pending = client.send(node_id, LIST_OFFSETS, LIST)
    until_done(client, pending)
    return pending


@every_release
def test_an_old_broker_is_recognised_by_what_it_answers(net, release):
    net.kafka.become(release)
    cluster = net.cluster()
    assert {tp.partition for topic in cluster.topics.list() for tp in topic.topic_partitions} == {0, 1}
    for api, newest in NEWEST[release].items():
        assert cluster.supports(api, newest or 0) == (newest is not None)
        assert not cluster.supports(api, (newest or 0) + 1)
    assert {request.version for request in net.kafka.asked(METADATA)} == {0}


@every_release
def test_the_versions_are_those_that_kafka_python_knows_of_that_release(release):
    known = pytest.importorskip("kafka.protocol.broker_version_data").BROKER_API_VERSIONS
    number = tuple(map(int, release.split(".")))
    theirs = known.get(number) or known[number[:2]]
    assert {int(key): tuple(versions) for key, versions in theirs.items()} == RELEASES[release].versions


def test_what_an_old_broker_lacks_is_refused_by_name(net):
    net.kafka.become("0.9.0")
    client = net.client()
    pending = client.send(-1, INIT_PRODUCER_ID, {"transactional_id": None, "transaction_timeout_ms": 1000})
    until_done(client, pending)
    assert isinstance(pending.error, UnsupportedApiVersion)
    assert "bootstrap:9092 (Kafka 0.9.0) does not serve InitProducerId" in str(pending.error)
    pending = client.send(-1, FETCH, {}, max_version=-1)
    until_done(client, pending)
    assert "serves Fetch in versions 0 to 1" in str(pending.error)


@pytest.mark.parametrize("closes", [1, 2, 3, 4])
def test_a_new_broker_that_closed_the_connection_is_not_taken_for_an_old_one(net, closes):
    """As one that restarts does, or a proxy before it: at the first or also at the next connections."""
    net.kafka.fault(API_VERSIONS, *[CLOSE] * min(closes, 3))
    if closes == 4:
        net.kafka.fault(DESCRIBE_GROUPS, CLOSE)
    client = net.client()
    assert asked(client).error is None
    assert net.kafka.asked(LIST_OFFSETS)[-1].version == LIST_OFFSETS.versions[1]


@every_release
def test_a_broker_that_was_upgraded_is_recognised_at_the_next_connection(net, release):
    net.kafka.become(release)
    client = net.client()
    assert asked(client).error is None
    net.kafka.versions, net.kafka.silent = FakeKafka().versions, False
    client.disconnect(-1, "its broker restarts")
    assert asked(client).error is None
    assert [request.version for request in net.kafka.asked(LIST_OFFSETS)] == [0, LIST_OFFSETS.versions[1]]


def test_a_release_that_was_named_is_taken_without_probing(net):
    net.kafka.become("0.8.2")
    client = net.client(broker_version_fallback="0.8.2")
    assert asked(client).error is None
    assert [request.api for request in net.kafka.requests if request.api is not METADATA] == [LIST_OFFSETS]
    assert len(net.opened) == 4  # one for each form of ApiVersions, which it closed


def test_a_new_broker_stays_one_whatever_the_fallback(net):
    client = net.client(broker_version_fallback="0.8.2")
    assert asked(client).error is None
    assert net.kafka.asked(LIST_OFFSETS)[0].version == LIST_OFFSETS.versions[1]


def test_who_answers_nothing_is_not_an_old_broker_but_an_error_that_says_so(net):
    net.kafka.versions = {}
    pending = asked(net.client())
    assert isinstance(pending.error, ConnectFailed)
    what = "is it a listener with TLS (then set kafka.security.protocol=SSL), or not Kafka?"
    assert f"nor as Kafka 0.9 or 0.8.2: {what}" in str(pending.error)
    assert len(net.opened) == 5


def test_an_address_where_nobody_answers_is_followed_by_the_next_one_of_the_host(net):
    deaf = FakeKafka()
    deaf.versions = {}
    net.hosts["bootstrap"], net.others["10.0.0.1"] = ["10.0.0.1", "10.0.0.2"], deaf
    assert asked(net.client()).error is None
    assert [ip for _, ip in net.opened] == [*["10.0.0.1"] * 5, "10.0.0.2"]


def test_a_broker_that_hangs_is_not_taken_for_an_old_one(net):
    net.kafka.fault(API_VERSIONS, SILENCE)
    net.kafka.fault(DESCRIBE_GROUPS, SILENCE)
    pending = asked(net.client())
    assert "no answer to ApiVersions in time" in str(pending.error)


@pytest.mark.parametrize(("fallback", "seconds"), [("auto", 2), ("0.9.0", 0.2)])
def test_a_broker_that_says_nothing_to_api_versions_is_known_within_moments_and_then_at_once(net, fallback, seconds):
    """Kafka 0.9 fails inside and keeps the connection open."""
    net.kafka.become("0.9.0")
    client = net.client(broker_version_fallback=fallback)
    before = net.now
    assert asked(client).error is None
    assert net.now - before == pytest.approx(seconds)
    assert len(net.opened) == 3  # one for each form: it drops the lowest, too
    client.disconnect(-1, "a test")
    before = net.now
    assert asked(client).error is None
    assert net.now == before
    assert len(net.opened) == 4


def test_a_silent_broker_that_once_closed_the_connection_is_known_as_soon(net):
    """It restarts at the first connection; at the next ones it does not answer ApiVersions."""
    net.kafka.become("0.9.0")
    handle = net.kafka.handle

    def restarting(node_id, frame):
        net.kafka.handle = handle
        return [None]

    net.kafka.handle = restarting
    before = net.now
    assert asked(net.client()).error is None
    assert net.now - before == pytest.approx(2)
    assert len(net.opened) == 3


@pytest.mark.parametrize("release", RELEASES)
def test_an_old_broker_is_known_at_its_second_connection_by_one_question(net, release):
    net.kafka.become(release)
    client = net.client()
    assert asked(client).error is None
    client.disconnect(-1, "a test")
    before = len(net.opened), net.now
    assert asked(client).error is None
    assert (len(net.opened) - before[0], net.now) == ({"0.8.2": 2, "0.9.0": 1}[release], before[1])


def test_a_slow_broker_answers_in_order_and_is_spoken_to_as_what_it_is(net):
    """The nudge comes before its answer to ApiVersions; the answer to the nudge is nobody's."""
    late, handle = [], net.kafka.handle

    def slow(node_id, frame):
        if late is None:
            return handle(node_id, frame)
        late.append((node_id, frame))
        return []

    def recover():
        nonlocal late
        waiting, late = late, None
        (transport,) = net.live()
        for node_id, frame in waiting:
            transport.incoming += b"".join(handle(node_id, frame))

    net.kafka.handle = slow
    net.later(5, recover)
    assert asked(net.client()).error is None
    assert [request.api for request in net.kafka.requests[:2]] == [API_VERSIONS, DESCRIBE_GROUPS]
    assert net.kafka.asked(LIST_OFFSETS)[0].version == LIST_OFFSETS.versions[1]
    assert len(net.opened) == 1


def test_the_option_takes_the_releases_and_their_builds():
    option = BY_NAME["kafka.broker.version.fallback"]
    assert [option.parse(text) for text in ("auto", "0.9.0.1", "0.8.2.2", "0.9.0")] == [AUTO, "0.9.0", "0.8.2", "0.9.0"]
    assert {option.parse(name) for name in RELEASES} == set(RELEASES)
    for text in ("0.10.0", "0.8", "none", "4.3.1"):
        with pytest.raises(ValueError, match=r"expected auto, 0\.9\.0 or 0\.8\.2"):
            option.parse(text)
