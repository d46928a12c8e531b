"""Each fault of a storm meets one request of our client on one connection, does what its name says, and counts once."""

from __future__ import annotations

import socket
import struct

import pytest
from echoing_broker import METADATA, PRODUCE, EchoingBroker, frame

from lab.campaign.faults import Fault
from lab.campaign.storm.connections import StormProxy
from lab.campaign.storm.waiting import WaitingFaults


def fault(kind, variant="any", node=1, lasts_s=0.0, draw=0.5):
    return Fault(0, "connections", kind, variant, node, 0.0, lasts_s, draw)


@pytest.fixture
def broker():
    broker = EchoingBroker()
    yield broker
    broker.close()


@pytest.fixture
def waiting():
    return WaitingFaults("campaign")


@pytest.fixture
def proxy(broker, waiting):
    effects = []
    proxy = StormProxy(1, waiting, lambda met_by, met: effects.append((met_by.fault.kind, met)))
    proxy.upstream = broker.address
    proxy.effects = effects  # type: ignore[attr-defined]
    with proxy:
        yield proxy


@pytest.fixture
def connect(proxy):
    opened = []

    def connect():
        opened.append(socket.create_connection(proxy.address, timeout=20))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


def all_of(connection):
    """What comes until the connection ends."""
    got = b""
    try:
        while data := connection.recv(65536):
            got += data
    except ConnectionResetError:
        pass
    return got


def exactly(connection, count):
    got = b""
    while len(got) < count:
        data = connection.recv(count - len(got))
        assert data
        got += data
    return got


def kinds(proxy):
    return [kind for kind, _ in proxy.effects]


def test_without_a_fault_every_byte_passes_both_ways(proxy, broker, connect):
    client = connect()
    for size in (0, 1, 70_000, 300_000):
        sent = frame(body=b"x" * size)
        client.sendall(sent)
        assert exactly(client, len(sent)) == sent
    assert not proxy.effects


def test_a_cut_request_reaches_the_broker_up_to_the_byte_that_was_drawn(proxy, broker, waiting, connect):
    waiting.add(fault("cut in a request", draw=0.5), 0)
    client, sent = connect(), frame()
    client.sendall(sent)
    assert all_of(client) == b""
    # A reset may overtake what was sent, and also the broker's accept.
    assert b"".join(broker.got) in (b"", sent[: (len(sent) + 1) // 2])
    (kind, met) = proxy.effects[0]
    assert (kind, met.at_byte, met.of_bytes, met.api_key) == ("cut in a request", (len(sent) + 1) // 2, len(sent), 3)


@pytest.mark.parametrize(("kind", "gets"), [("cut in an answer", 0.5), ("answer lost", 0.0)])
def test_an_answer_is_lost_after_the_broker_has_done_what_was_asked(proxy, broker, waiting, connect, kind, gets):
    waiting.add(fault(kind), 0)
    client, sent = connect(), frame()
    client.sendall(sent)
    assert all_of(client) in (b"", sent[: int(gets * len(sent))])
    assert bytes(broker.got[0]) == sent
    assert kinds(proxy) == [kind]


@pytest.mark.parametrize("draw", [0.0, 0.5, 0.999])
def test_a_truncated_answer_claims_to_be_whole_and_the_connection_goes_on(proxy, waiting, connect, draw):
    waiting.add(fault("answer truncated", draw=draw), 0)
    client, sent = connect(), frame()
    client.sendall(sent)
    (size,) = struct.unpack(">i", exactly(client, 4))
    assert 4 <= size < len(sent) - 4
    assert exactly(client, size) == sent[4 : 4 + size]
    client.sendall(sent)
    assert exactly(client, len(sent)) == sent


@pytest.mark.parametrize(
    "kind", ["request delayed", "answer delayed", "stalled in a request", "stalled in an answer", "thin connection"]
)
def test_what_is_only_late_comes_whole_and_in_order(proxy, broker, waiting, connect, kind):
    waiting.add(fault(kind, lasts_s=0.1), 0)
    client, first, second = connect(), frame(body=b"first"), frame(body=b"second")
    client.sendall(first + second)
    assert exactly(client, len(first + second)) == first + second
    assert kinds(proxy) == [kind]


def test_a_half_open_connection_takes_bytes_and_gives_none(proxy, broker, waiting, connect):
    client, before, sent = connect(), frame(body=b"before"), frame()
    client.sendall(before)
    assert exactly(client, len(before)) == before
    waiting.add(fault("half open", draw=0.0), 0)
    client.sendall(sent)
    other = connect()
    other.sendall(before)
    assert exactly(other, len(before)) == before  # only this connection is harmed
    client.setblocking(False)
    with pytest.raises(BlockingIOError):
        client.recv(1)
    assert bytes(broker.got[0]) == before
    assert kinds(proxy) == ["half open"]


@pytest.mark.parametrize("faults", [1, 3])
def test_a_node_that_refuses_connections_takes_them_again_later(proxy, waiting, connect, faults):
    sent, clients = frame(), [connect() for _ in range(faults)]
    for client in clients:
        client.sendall(sent)
        exactly(client, len(sent))
    for client in clients:
        waiting.add(fault("refused", lasts_s=0.3), 0)
        client.sendall(sent)
        assert all_of(client) == b""
    refused = 0
    while True:
        try:
            again = connect()
            break
        except OSError:
            refused += 1
    again.sendall(sent)
    assert exactly(again, len(sent)) == sent
    assert refused
    assert kinds(proxy) == ["refused"] * faults


def test_a_fault_meets_one_request_of_our_client_that_it_may_meet(proxy, waiting, connect):
    waiting.add(fault("answer lost", "Produce"), 0)
    waiting.add(fault("answer lost", node=2), 0)
    client = connect()
    for sent in (frame(client_id=b"another", api_key=PRODUCE), frame(api_key=METADATA)):
        client.sendall(sent)
        assert exactly(client, len(sent)) == sent
    assert proxy.effects == []
    client.sendall(frame(api_key=PRODUCE))
    assert all_of(client) == b""
    again, sent = connect(), frame(api_key=PRODUCE)
    again.sendall(sent)
    assert exactly(again, len(sent)) == sent
    assert [met.api_key for _, met in proxy.effects] == [PRODUCE]


def test_a_connection_that_ends_before_its_answer_counts_no_fault(proxy, broker, waiting, connect):
    waiting.add(fault("answer lost"), 0)
    waiting.add(fault("cut in a request", draw=1.0), 0)
    client, sent = connect(), frame()
    client.sendall(sent[:-1])  # not yet a request
    assert not proxy.serves()
    assert waiting.take_old(1)
    client.sendall(sent[-1:])
    assert exactly(client, len(sent)) == sent
    assert proxy.serves()
    assert proxy.effects == []


def test_faults_that_met_nothing_are_given_back_once(waiting):
    waiting.add(fault("answer lost", "Produce"), 10)
    waiting.add(fault("answer lost"), 20)
    assert [each.armed_ms for each in waiting.take_old(15)] == [10]
    assert [each.armed_ms for each in waiting.take_old(100)] == [20]
    assert waiting.take_old(100) == []
