"""One wrong password of a process is one question to its brokers, not one of each connection."""

import itertools

import pytest

from kafkasource.errors import SaslAuthenticationFailed, error_for
from kafkasource.kafka.security.refusals import PasswordRefusals
from kafkasource.kafka.security.sasl import config

HERE, ELSEWHERE = (("one", 9092),), (("other", 9092),)
LONGEST_S = 60


def password(text="hunter2", mechanism="PLAIN"):
    given = {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": text}
    return config.read(given)


class Process:
    def __init__(self):
        self.now_s = 100.0
        self.refusals = PasswordRefusals(lambda: self.now_s)

    def refuse(self, credentials, servers=HERE):
        self.refusals.refused(credentials, servers, error_for(58, "broker 1 refuses the credentials"))

    def may_ask(self, credentials, servers=HERE):
        try:
            self.refusals.check(credentials, servers)
        except SaslAuthenticationFailed:
            return False
        return True


def test_a_refusal_counts_for_all_connections_to_the_cluster_and_says_why_and_how_long():
    process = Process()
    assert process.may_ask(password())
    process.refuse(password())
    with pytest.raises(SaslAuthenticationFailed, match=r"broker 1 refuses .* no broker again for 1\.0 s") as refused:
        process.refusals.check(password(), HERE)
    assert "hunter2" not in str(refused.value)


def test_another_password_another_mechanism_and_another_cluster_are_not_concerned():
    process = Process()
    process.refuse(password())
    assert process.may_ask(password("corrected"))
    assert process.may_ask(password(mechanism="SCRAM-SHA-512"))
    assert process.may_ask(password(), ELSEWHERE)


def test_the_pause_doubles_with_each_refusal_up_to_a_minute():
    process, pauses = Process(), []
    for _ in range(9):
        process.refuse(password())
        start_s = process.now_s
        process.now_s = start_s + LONGEST_S
        while process.may_ask(password()):
            process.now_s -= 0.5
        pauses.append(process.now_s + 0.5 - start_s)
        process.now_s = start_s + LONGEST_S
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_what_a_broker_accepts_is_forgiven():
    process = Process()
    for _ in range(5):
        process.refuse(password())
    process.refusals.accepted(password(), HERE)
    assert process.may_ask(password())
    process.refuse(password())
    process.now_s += 1
    assert process.may_ask(password())


def test_until_a_broker_has_accepted_a_password_one_connection_tries_it():
    process = Process()
    refusals = process.refusals
    assert refusals.begin(password(), HERE, "a")
    assert refusals.begin(password(), HERE, "a")  # its next address
    assert not refusals.begin(password(), HERE, "b")
    assert refusals.begin(password(), ELSEWHERE, "b")
    assert refusals.begin(password("other"), HERE, "b")
    refusals.accepted(password(), HERE)
    assert all(refusals.begin(password(), HERE, who) for who in "bcd")


@pytest.mark.parametrize("way", ["it ends", "it takes too long"])
def test_whoever_does_not_come_to_an_end_keeps_nobody_waiting(way):
    process = Process()
    assert process.refusals.begin(password(), HERE, "a")
    if way == "it ends":
        process.refusals.end("a")
    else:
        process.now_s += 10
    assert process.refusals.begin(password(), HERE, "b")
    assert not process.refusals.begin(password(), HERE, "c")


def test_whoever_waited_learns_of_the_refusal_without_asking():
    process = Process()
    assert process.refusals.begin(password(), HERE, "a")
    assert not process.refusals.begin(password(), HERE, "b")
    process.refuse(password())
    process.refusals.end("a")
    assert process.refusals.begin(password(), HERE, "b")
    assert not process.may_ask(password())
    process.now_s += 1
    assert process.refusals.begin(password(), HERE, "c")
    assert not process.refusals.begin(password(), HERE, "b")  # the pause is over: again one at a time


def test_tokens_lock_no_account_and_are_left_alone():
    token = config.read({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "file:///token"})
    process = Process()
    process.refuse(token)
    assert process.may_ask(token)
    assert all(process.refusals.begin(token, HERE, who) for who in "ab")


def test_the_most_clusters_that_are_remembered_have_a_limit():
    process = Process()
    for port in itertools.islice(itertools.count(), 1000):
        process.refuse(password(), (("host", port),))
    assert process.may_ask(password(), (("host", 0),))
    assert not process.may_ask(password(), (("host", 999),))
