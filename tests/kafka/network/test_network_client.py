"""Timeouts, reconnects and addresses of the polling client, on a network whose clock is moved by waiting."""

import itertools
import os
import socket
import threading
from types import SimpleNamespace

import pytest
from fake_broker import CLOSE, SILENCE, AtOnce, Cut, FakeKafka, FakeNet, Raw, Throttle, serve

from kafkasource.errors import (
    ClientClosed,
    ConnectFailed,
    ConnectionLost,
    ProtocolError,
    RequestTimeout,
    UnsupportedApiVersion,
)
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network import background
from kafkasource.kafka.network.network_client import NetworkClient
from kafkasource.kafka.network.resolver import Resolver, process_resolver
from kafkasource.kafka.protocol.apis import API_VERSIONS, DESCRIBE_GROUPS, LIST_OFFSETS, METADATA, OFFSET_FETCH, PRODUCE
from kafkasource.kafka.security.config import SecurityConfig
from kafkasource.kafka.security.sasl.plain import Plain

ASK = {"topics": [], "allow_auto_topic_creation": False}
NOTHING = {"acks": 0, "timeout_ms": 1000, "topic_data": []}
LIST = {"isolation_level": 0, "topics": []}
NEVER = 10_000_000


@pytest.fixture
def net():
    return FakeNet(FakeKafka(nodes=2, topics={"t": 2}))


def until_done(client, *pendings):
    while not all(pending.done for pending in pendings):
        client.poll(NEVER)


def ready(net, **settings):
    """A client that knows the brokers."""
    client = net.client(**settings)
    while not client.metadata.nodes():
        client.poll(1000)
    return client


# What a request's end means.


def test_requests_sent_before_there_is_a_connection_are_answered_in_order(net):
    client = net.client()
    done = []
    pendings = [client.send(-1, METADATA, ASK) for _ in range(3)]
    for pending in pendings:
        pending.add_callback(done.append)
    until_done(client, *pendings)
    assert done == pendings
    assert all(pending.result()["cluster_id"] == "fake-cluster" for pending in pendings)


def test_a_request_is_written_by_send_itself_where_the_connection_is_ready(net):
    client = ready(net)
    until_done(client, client.send(1, LIST_OFFSETS, LIST))
    before = len(net.kafka.asked(LIST_OFFSETS))
    client.send(1, LIST_OFFSETS, LIST)
    assert len(net.kafka.asked(LIST_OFFSETS)) == before + 1


def test_a_request_deadline_is_total_however_slowly_the_answer_dribbles_in(net):
    client = ready(net, request_timeout_ms=5000)
    net.kafka.fault(LIST_OFFSETS, SILENCE)
    late, other = client.send(1, LIST_OFFSETS, LIST), client.send(2, LIST_OFFSETS, LIST)
    until_done(client, other)
    start = net.now
    connection = next(t for t in net.live() if t.address.sockaddr[0] == "broker-1")

    def dribble(left=b"\0\0\1\0" + bytes(100)):
        connection.incoming += left[:1]
        net.later(1, lambda: dribble(left[1:]))

    net.later(1, dribble)
    until_done(client, late)
    assert net.now - start == pytest.approx(5)
    assert connection.closed
    with pytest.raises(RequestTimeout, match=r"broker 1 at broker-1:9092.*ListOffsets in time"):
        late.result()


def test_when_one_request_is_late_the_others_of_its_connection_are_lost_and_those_of_others_go_on(net):
    client = ready(net)
    net.kafka.fault(LIST_OFFSETS, SILENCE, SILENCE, SILENCE)
    late = client.send(1, LIST_OFFSETS, LIST, timeout_ms=1000)
    behind = client.send(1, LIST_OFFSETS, LIST, timeout_ms=9000)
    elsewhere = client.send(2, LIST_OFFSETS, LIST, timeout_ms=9000)
    until_done(client, late, behind)
    assert isinstance(late.error, RequestTimeout)
    assert isinstance(behind.error, ConnectionLost)
    assert not elsewhere.done


@pytest.mark.parametrize("size", [0, 3, 4, 9, 12])
def test_an_answer_cut_short_is_a_lost_connection_and_never_parsed(net, size):
    client = ready(net)
    net.kafka.fault(LIST_OFFSETS, Cut(size))
    pending = client.send(1, LIST_OFFSETS, LIST)
    until_done(client, pending)
    assert isinstance(pending.error, ConnectionLost)
    assert pending.error.retriable
    again = client.send(1, LIST_OFFSETS, LIST)
    until_done(client, again)
    assert again.error is None


def test_garbage_on_a_working_connection_loses_it_and_can_be_retried(net):
    client = ready(net)
    net.kafka.fault(LIST_OFFSETS, Raw(b"\xff" * 64))
    pending = client.send(1, LIST_OFFSETS, LIST)
    until_done(client, pending)
    assert isinstance(pending.error, ConnectionLost)
    assert isinstance(pending.error.__cause__, ProtocolError)


def test_without_an_answer_to_wait_for_a_request_is_done_when_it_is_written(net):
    client = ready(net)
    net.most_bytes_at_once = 7
    pending = client.send(1, PRODUCE, NOTHING, expect_response=False)
    until_done(client, pending)
    assert pending.result() == {}
    assert len(net.kafka.asked(PRODUCE)) == 1


def test_a_request_that_is_not_written_yet_keeps_its_connection_from_being_idle(net):
    client = ready(net, connections_max_idle_ms=1000, metadata_max_age_ms=NEVER)
    until_done(client, client.send(1, LIST_OFFSETS, LIST))
    (transport,) = [t for t in net.live() if t.address.sockaddr[0] == "broker-1"]
    transport.send = lambda pieces: 0  # a full socket
    transport.ready = lambda events: 0
    pending = client.send(1, PRODUCE, NOTHING, expect_response=False, timeout_ms=5000)
    assert client.in_flight(1) == 1
    start = net.now
    until_done(client, pending)
    assert net.now - start == pytest.approx(5)
    assert isinstance(pending.error, RequestTimeout)
    assert transport.closed


def test_a_version_that_the_broker_lacks_fails_the_request_and_not_the_connection(net):
    client = ready(net)
    del net.kafka.versions[LIST_OFFSETS.key]
    bad, good = client.send(2, LIST_OFFSETS, LIST), client.send(2, METADATA, ASK)
    until_done(client, bad, good)
    assert isinstance(bad.error, UnsupportedApiVersion)
    assert good.error is None


def test_closing_fails_what_is_under_way_and_what_comes_after(net):
    client = ready(net)
    net.kafka.fault(LIST_OFFSETS, SILENCE)
    before = client.send(1, LIST_OFFSETS, LIST)
    client.poll(0)
    client.close()
    client.close()
    after = client.send(1, LIST_OFFSETS, LIST)
    assert isinstance(before.error, ClientClosed)
    assert isinstance(after.error, ClientClosed)
    assert net.live() == []
    with pytest.raises(ClientClosed):
        client.poll(0)


# Connecting.


def test_a_name_with_several_addresses_is_tried_to_the_last_without_a_pause(net):
    net.hosts["broker-1"] = ["::1", "10.0.0.1", "10.0.0.2"]
    net.fates.update({"::1": "refused", "10.0.0.1": "refused"})
    client = ready(net)
    start = net.now
    pending = client.send(1, LIST_OFFSETS, LIST)
    until_done(client, pending)
    assert pending.error is None
    assert [ip for _, ip in net.opened[-3:]] == ["::1", "10.0.0.1", "10.0.0.2"]
    assert net.now == start


def test_a_connect_that_hangs_ends_in_time_and_goes_on_with_the_next_address(net):
    net.hosts["broker-1"] = ["10.0.0.1", "10.0.0.2"]
    net.fates["10.0.0.1"] = "unreachable"
    client = ready(net, socket_connection_setup_timeout_ms=2000)
    start = net.now
    pending = client.send(1, LIST_OFFSETS, LIST)
    until_done(client, pending)
    assert pending.error is None
    assert net.now - start == pytest.approx(2)


def test_an_advertised_address_that_cannot_be_reached_names_advertised_listeners(net):
    net.fates["broker-2"] = "refused"
    client = ready(net)
    pending = client.send(2, LIST_OFFSETS, LIST)
    until_done(client, pending)
    assert "broker 2 at broker-2:9092" in str(pending.error)
    assert "advertised.listeners" in str(pending.error)
    assert "Connection refused (errno 111)" in str(pending.error)


def test_a_broker_that_closes_without_a_byte_gets_the_likely_reasons(net):
    client = ready(net)
    net.kafka.fault(API_VERSIONS, CLOSE, CLOSE, CLOSE)
    net.kafka.fault(DESCRIBE_GROUPS, CLOSE)
    net.kafka.fault(OFFSET_FETCH, CLOSE)
    pending = client.send(2, LIST_OFFSETS, LIST)
    until_done(client, pending)
    assert isinstance(pending.error, ConnectFailed)
    assert "kafka.security.protocol=SSL" in str(pending.error)


def test_reconnecting_backs_off_doubling_to_the_cap(net):
    net.fates["broker-1"] = "refused"
    client = ready(net, reconnect_backoff_ms=100, reconnect_backoff_max_ms=1000, metadata_max_age_ms=NEVER)
    for _ in range(7):
        until_done(client, client.send(1, LIST_OFFSETS, LIST))
    times = [at for at, ip in net.opened if ip == "broker-1"]
    gaps = [round(b - a, 3) for a, b in itertools.pairwise(times)]
    assert gaps == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]  # random() is 0.5, so without spread


def test_a_broker_that_is_down_for_ten_minutes_costs_few_connects_and_few_lines(net, caplog):
    client = ready(net)
    net.fates["broker-1"] = "refused"
    lines = len(caplog.records)
    end, start = net.now + 600, net.now
    while net.now < end:
        until_done(client, client.send(1, LIST_OFFSETS, LIST))
    connects = sum(1 for at, ip in net.opened if ip == "broker-1" and at > start)
    assert connects <= 610
    assert len(caplog.records) - lines <= 12


def test_the_first_failure_of_a_bootstrap_server_names_the_option_and_says_that_it_goes_on(net, caplog):
    """Its error comes after minutes of attempts: until then this line is all that a user sees."""
    net.fates["bootstrap"] = "refused"
    client = net.client()
    end = net.now + 10
    while net.now < end:
        client.poll(1000)
    first, *others = [record.getMessage() for record in caplog.records]
    assert "bootstrap server bootstrap:9092 (attempt 1): Connection refused" in first
    assert "kafka.bootstrap.servers" in first
    assert "keeps trying" in first
    assert others
    assert not any("kafka.bootstrap.servers" in each for each in others)


def test_a_request_that_waits_for_a_connection_keeps_its_own_deadline(net):
    net.fates["broker-1"] = "unreachable"
    client = ready(net)
    start = net.now
    pending = client.send(1, LIST_OFFSETS, LIST, timeout_ms=1500)
    until_done(client, pending)
    assert net.now - start == pytest.approx(1.5)
    assert isinstance(pending.error, ConnectFailed)  # so: nothing was sent


@pytest.mark.parametrize("end", ["ended", "reset"])
def test_a_connection_that_ended_while_nobody_polled_loses_no_request(net, caplog, end):
    """As between two micro-batches: the broker closed it as idle, or was restarted."""
    client = ready(net)
    until_done(client, client.send(1, LIST_OFFSETS, LIST))
    for transport in net.live():
        setattr(transport, end, True)
    again = client.send(1, LIST_OFFSETS, LIST)
    until_done(client, again)
    assert again.error is None
    assert caplog.records == []


def test_an_answer_that_came_in_time_counts_however_late_somebody_polls(net):
    """As where Spark takes a minute over the rows of one range, and the next ranges' answers wait meanwhile."""
    client = ready(net)
    until_done(client, client.send(1, LIST_OFFSETS, LIST))
    pending = client.send(1, LIST_OFFSETS, LIST, timeout_ms=1000)
    net.now += 60
    net.most_bytes_at_once = 10  # so it takes several polls
    until_done(client, pending)
    assert pending.error is None


def test_a_connection_that_breaks_as_a_login_in_a_thread_ends_is_lost_and_the_next_one_works(net, monkeypatch):
    """Kerberos checks the broker's last answer in a thread; then the requests that waited are written at once."""
    check = Plain.respond

    def check_and_break(self, challenge):
        monkeypatch.setattr(Plain, "respond", check)
        net.transports[-1].reset = True
        return check(self, challenge)

    monkeypatch.setattr(background, "threading", SimpleNamespace(Thread=AtOnce))
    monkeypatch.setattr(Plain, "blocks", True)
    monkeypatch.setattr(Plain, "respond", check_and_break)
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    client = net.client(
        security=SecurityConfig.of({**given, "sasl.username": "alice", "sasl.password": "secret"}),
    )
    first = client.send(-1, METADATA, ASK)
    until_done(client, first)
    assert isinstance(first.error, ConnectionLost)
    second = client.send(-1, METADATA, ASK)
    until_done(client, second)
    assert second.error is None


# Throttling, metadata, waking up.


def test_a_throttled_broker_is_left_alone_for_that_long_and_the_wait_is_not_a_timeout(net, caplog):
    client = ready(net, request_timeout_ms=5000)
    net.kafka.fault(LIST_OFFSETS, Throttle(8000))
    until_done(client, client.send(1, LIST_OFFSETS, LIST))
    start = net.now
    pending = client.send(1, LIST_OFFSETS, LIST)
    until_done(client, pending)
    assert pending.error is None
    assert net.now - start == pytest.approx(8)
    assert "8000 ms" in caplog.text


def test_a_broker_before_2_0_has_held_the_answer_back_itself_and_is_left_alone_no_longer(net):
    net.kafka.versions[LIST_OFFSETS.key] = (0, 2)  # as 0.11 and 1.x serve it
    client = ready(net)
    until_done(client, client.send(1, LIST_OFFSETS, LIST))
    handle = net.kafka.handle

    def held_back(node_id, frame):
        net.kafka.handle = handle
        (transport,) = [each for each in net.live() if each.node_id == node_id]
        (answer,) = handle(node_id, frame)
        net.later(8, lambda: transport.incoming.extend(answer))
        return []

    net.kafka.handle = held_back
    net.kafka.fault(LIST_OFFSETS, Throttle(8000))
    start = net.now
    until_done(client, client.send(1, LIST_OFFSETS, LIST))
    until_done(client, client.send(1, LIST_OFFSETS, LIST))
    assert net.now - start == pytest.approx(8)


def test_a_server_that_answers_in_such_a_version_without_holding_back_is_left_alone_for_the_rest(net):
    """As Azure Event Hubs, which has throttled before KIP-219 gave the versions that say so, and Kafka from 2.0 on."""
    net.kafka.versions[LIST_OFFSETS.key] = (0, 2)
    client = ready(net)
    net.kafka.fault(LIST_OFFSETS, Throttle(8000))
    start = net.now
    until_done(client, client.send(1, LIST_OFFSETS, LIST))
    until_done(client, client.send(1, LIST_OFFSETS, LIST))
    assert net.now - start == pytest.approx(8)


def test_a_negative_throttle_time_is_ignored(net):
    client = ready(net)
    net.kafka.fault(LIST_OFFSETS, Throttle(-5))
    pendings = [client.send(1, LIST_OFFSETS, LIST) for _ in range(2)]
    start = net.now
    until_done(client, *pendings)
    assert net.now == start


def test_poll_waits_no_longer_than_the_next_metadata_refresh(net):
    client = ready(net, metadata_max_age_ms=30_000)
    start, version = net.now, client.metadata.version
    while client.metadata.version == version:
        client.poll(NEVER)
    assert net.now - start == pytest.approx(30)


def test_poll_waits_no_longer_than_it_is_told(net):
    client = ready(net)
    start = net.now
    client.poll(250)
    assert net.now - start == pytest.approx(0.25)


def test_a_bootstrap_connection_goes_on_as_the_brokers_own_where_the_addresses_are_the_same(net):
    net.kafka.addresses[1] = ("bootstrap", 9092)
    client = ready(net)
    until_done(client, client.send(1, LIST_OFFSETS, LIST))
    assert [ip for _, ip in net.opened] == ["bootstrap"]


def test_when_all_known_brokers_are_gone_the_bootstrap_servers_are_asked_again(net):
    client = ready(net)
    net.fates.update({"broker-1": "refused", "broker-2": "refused"})
    until_done(client, *[client.send(node, LIST_OFFSETS, LIST) for node in (1, 2)])
    net.kafka.addresses.update({1: ("moved-1", 9092), 2: ("moved-2", 9092)})
    while client.metadata.node(1).host != "moved-1":
        client.poll(1000)
    pending = client.send(1, LIST_OFFSETS, LIST)
    until_done(client, pending)
    assert pending.error is None


def test_another_thread_wakes_a_blocked_poll():
    kafka = FakeKafka()
    with serve(kafka) as (host, port):
        client = NetworkClient(ClientConfig.of(f"{host}:{port}"))
        while not client.metadata.nodes():
            client.poll(1000)
        while not client.metadata.time_to_next_update(client.now_ms()):
            client.poll(1000)
        returned = threading.Event()

        def drive():
            client.poll(600_000)
            returned.set()

        thread = threading.Thread(target=drive)
        thread.start()
        client.wakeup()
        assert returned.wait(10)
        thread.join()
        client.close()


# Names.


class SlowNames(FakeNet):
    """`slow` is looked up when the test says so; other names are at hand."""

    resolve_blocks = True

    def __init__(self, kafka):
        super().__init__(kafka)
        self.asked, self.reached, self.go_on = [], threading.Event(), threading.Event()

    def resolve(self, host, port):
        if host == "slow":
            self.asked.append(host)
            self.reached.set()
            assert self.go_on.wait(60)
        return super().resolve(host, port)


@pytest.fixture
def slow_names():
    kafka = FakeKafka(nodes=2, topics={"t": 2})
    kafka.addresses = {1: ("10.0.0.1", 9092), 2: ("slow", 9092)}
    net = SlowNames(kafka)
    yield net
    net.go_on.set()


def until_looked_up(link):
    """The fake clock does not wait for threads."""
    for _ in range(6000):
        if link.resolution is None or link.resolution.done:
            return
        threading.Event().wait(0.01)
    raise AssertionError("not looked up")


def test_a_name_that_is_not_answered_keeps_no_other_broker_waiting(slow_names):
    client = slow_names.client("10.0.0.1:9092", socket_connection_setup_timeout_ms=NEVER)
    while not client.metadata.nodes():
        client.poll(1000)
    stuck = client.send(2, METADATA, ASK, timeout_ms=NEVER)
    for _ in range(50):
        answered = client.send(1, METADATA, ASK)
        while not answered.done:
            client.poll(1)
        assert answered.result()["cluster_id"] == "fake-cluster"
    assert not stuck.done
    slow_names.go_on.set()
    until_looked_up(client._links[2])
    until_done(client, stuck)
    assert stuck.result()["cluster_id"] == "fake-cluster"
    assert slow_names.asked == ["slow"]


def test_a_name_that_is_not_answered_in_time_is_an_error_and_holds_one_thread(slow_names):
    client = slow_names.client("10.0.0.1:9092", socket_connection_setup_timeout_ms=1000, reconnect_backoff_ms=1)
    while not client.metadata.nodes():
        client.poll(1000)
    for _ in range(3):
        failed = client.send(2, METADATA, ASK)
        until_done(client, failed)
        with pytest.raises(ConnectFailed, match="cannot resolve the name: no answer in time"):
            failed.result()
    assert slow_names.reached.wait(60)
    assert slow_names.asked == ["slow"]
    slow_names.go_on.set()


def test_who_waits_for_a_name_is_woken_when_it_is_known(monkeypatch):
    """On real sockets, with a system that takes its time."""
    kafka, looked_up, go_on = FakeKafka(), threading.Event(), threading.Event()
    system = socket.getaddrinfo

    def getaddrinfo(host, *args, **kwargs):
        if host != "slow.example":
            return system(host, *args, **kwargs)
        looked_up.set()
        assert go_on.wait(60)
        return system("127.0.0.1", *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with serve(kafka) as (_, port):
        client = NetworkClient(ClientConfig.of(f"slow.example:{port}"))
        asked = client.send(-1, METADATA, ASK)
        assert client.poll(0) == []
        assert looked_up.wait(60)
        assert client.poll(0) == []
        go_on.set()
        until_done(client, asked)
        assert asked.result()["cluster_id"] == "fake-cluster"
        client.close()


def test_a_client_that_is_closed_does_not_wait_for_a_name(slow_names):
    client = slow_names.client("slow:9092")
    asked = client.send(-1, METADATA, ASK)
    client.poll(0)
    client.close()
    with pytest.raises(ClientClosed):
        asked.result()
    slow_names.go_on.set()


def test_a_forked_child_looks_up_names_with_threads_of_its_own(slow_names):
    client = slow_names.client("slow:9092")
    client.send(-1, METADATA, ASK)
    client.poll(0)
    child = os.fork()
    if child == 0:
        found = process_resolver().ask(lambda host, port: [(host, port)], "slow", 1, done.set)
        os._exit(0 if done.wait(60) and found.addresses == [("slow", 1)] else 1)
    assert os.waitpid(child, 0)[1] == 0
    client.close()


done = threading.Event()


def test_names_are_looked_up_by_a_few_threads_at_a_time():
    resolver, go_on, told = Resolver(most_threads=2), threading.Event(), threading.Semaphore(0)
    at_once, most = [], []

    def resolve(host, port):
        at_once.append(host)
        most.append(len(at_once))
        assert go_on.wait(60)
        at_once.remove(host)
        return [host]

    found = [resolver.ask(resolve, f"host-{number}", 1, told.release) for number in range(10)]
    assert resolver.ask(resolve, "host-3", 1, told.release) is found[3]
    go_on.set()
    for _ in range(11):
        assert told.acquire(timeout=60)
    assert [one.addresses for one in found] == [[f"host-{number}"] for number in range(10)]
    assert max(most) <= 2
