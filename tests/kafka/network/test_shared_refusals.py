"""A wrong password of several clients in one process: the broker is asked once, and all learn what it said."""

import pytest
from fake_broker import FakeKafka, FakeNet

from kafkasource.errors import AuthenticationFailed
from kafkasource.kafka.protocol.apis import METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE
from kafkasource.kafka.security.config import SecurityConfig

ASK = {"topics": [], "allow_auto_topic_creation": False}


def with_password(password):
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    return {"security": SecurityConfig.of({**options, "sasl.password": password})}


def ask(clients):
    """All at once, as threads would do it; in turns, so that it is the same each time."""
    asked = [client.send(-1, METADATA, ASK) for client in clients]
    while not all(pending.done for pending in asked):
        for client in clients:
            client.poll(1)
    return asked


def test_clients_that_start_at_the_same_time_with_a_wrong_password_ask_once():
    net = FakeNet(FakeKafka())
    net.hosts["bootstrap"] = ["10.0.0.1", "10.0.0.2"]  # nor is the other address asked
    clients = [net.client(**with_password("hunter2")) for _ in range(5)]
    for _ in range(3):
        for pending in ask(clients):
            assert isinstance(pending.error, AuthenticationFailed)
            assert "Invalid username or password" in str(pending.error)
            assert "hunter2" not in str(pending.error)
    assert len(net.kafka.asked(SASL_AUTHENTICATE)) == 1
    assert len(net.opened) == 1


def test_clients_that_start_at_the_same_time_with_the_right_password_wait_for_each_other_once():
    net = FakeNet(FakeKafka())
    clients = [net.client(**with_password("secret")) for _ in range(5)]
    start = net.now
    assert [pending.error for pending in ask(clients)] == [None] * 5
    assert net.now - start == pytest.approx(0.05, abs=0.02)
    assert len(net.kafka.asked(SASL_HANDSHAKE)) == 5


def test_a_corrected_password_is_asked_with_at_once(tmp_path):
    net, file = FakeNet(FakeKafka()), tmp_path / "password"
    client = net.client(**with_password(f"${{dir:{tmp_path}:password}}"))
    for text, refused in (("wrong", True), ("secret", False)):
        file.write_text(text)
        (pending,) = ask([client])
        assert isinstance(pending.error, AuthenticationFailed) is refused
    assert len(net.kafka.asked(SASL_AUTHENTICATE)) == 2


def test_a_client_that_is_closed_in_the_middle_of_its_login_lets_the_next_one_in():
    net = FakeNet(FakeKafka())
    answer, net.kafka.handle = net.kafka.handle, lambda node_id, frame: []
    first, second = (net.client(**with_password("secret")) for _ in range(2))
    first.send(-1, METADATA, ASK)
    first.poll(0)
    waiting = second.send(-1, METADATA, ASK)
    second.poll(10)
    assert len(net.opened) == 1
    net.kafka.handle = answer
    first.close()
    while not waiting.done:
        second.poll(1000)
    assert waiting.error is None
