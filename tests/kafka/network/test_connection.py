"""Bytes in, responses out: one conversation without a socket."""

import pytest
from fake_broker import FakeKafka

from kafkasource.errors import ProtocolError, UnsupportedApiVersion
from kafkasource.kafka.network.authentication import Authentication
from kafkasource.kafka.network.connection import Connection
from kafkasource.kafka.protocol.apis import (
    API_VERSIONS,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from kafkasource.kafka.protocol.frames import peek_correlation_id
from kafkasource.kafka.security.sasl.plain import Plain
from kafkasource.kafka.security.secrets import Secret

ASK = {"topics": [], "allow_auto_topic_creation": False}


class Talk:
    """A connection and the broker it speaks to."""

    def __init__(self, kafka=None, most=100_000_000, login=None):
        self.kafka = kafka or FakeKafka(topics={"t": 1})
        self.connection = Connection("broker 1 at b:9092", "me", most, authentication=login)

    def answers(self, parts):
        """What the broker sends back for these bytes."""
        data = b"".join(parts)
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        return self.kafka.handle(1, data[4:])

    def negotiate(self):
        return self.goes_on(self.connection.negotiate())

    def goes_on(self, parts):
        while parts:
            (answer,) = self.answers(parts)
            received = self.connection.receive(answer)
            assert received.error is None
            parts = received.reply
        return self


def test_the_first_request_tells_who_we_are_in_the_newest_version():
    talk = Talk().negotiate()
    (asked,) = talk.kafka.requests
    assert (asked.api, asked.version, asked.client_id) == (API_VERSIONS, 4, "me")
    assert asked.body["client_software_name"] == "kafkasource"
    assert talk.connection.ready


def test_a_broker_that_knows_only_older_api_versions_is_asked_again_in_version_0():
    kafka = FakeKafka()
    kafka.versions[API_VERSIONS.key] = (0, 2)
    talk = Talk(kafka).negotiate()
    assert [request.version for request in kafka.requests] == [0]  # the first was answered with 35
    assert talk.connection.version_of(METADATA) == METADATA.versions[1]


@pytest.mark.parametrize("rest", ["0100120000000400000000", "", "ff" * 9], ids=["as v4", "only the code", "nonsense"])
def test_of_an_error_answer_to_api_versions_only_the_code_is_needed(rest):
    """librdkafka's mock cluster answers in the form that was asked."""
    talk = Talk()
    (correlation_id,) = {peek_correlation_id(b"".join(talk.connection.negotiate())[8:])}
    frame = correlation_id.to_bytes(4, "big") + bytes.fromhex("0023" + rest)
    received = talk.connection.receive(len(frame).to_bytes(4, "big") + frame)
    assert received.error is None
    talk.goes_on(received.reply)
    assert [request.version for request in talk.kafka.requests] == [0]
    assert talk.connection.ready


def test_bytes_behind_an_answer_are_noted_and_change_nothing():
    talk = Talk().negotiate()
    for more in (b"", b"\0", b"\0\0"):
        assert talk.connection.surplus == ("" if len(more) < 2 else "1 bytes behind its Metadata response v13")
        (answer,) = talk.answers(talk.connection.send(METADATA, ASK, "token"))
        received = talk.connection.receive((len(answer) - 4 + len(more)).to_bytes(4, "big") + answer[4:] + more)
        assert received.error is None
        assert received.responses[0].body["cluster_id"] == "fake-cluster"


@pytest.mark.parametrize(
    ("served", "at_most", "expected"),
    [((0, 4), None, 4), ((4, 99), None, 18), ((4, 16), None, 16), ((4, 18), 12, 12), ((2, 2), None, 2)],
)
def test_the_highest_version_that_both_and_the_caller_allow_is_used(served, at_most, expected):
    kafka = FakeKafka()
    kafka.versions[FETCH.key] = served
    assert Talk(kafka).negotiate().connection.version_of(FETCH, at_most) == expected


def test_an_unstable_version_is_not_negotiated():
    kafka = FakeKafka()
    kafka.versions[INIT_PRODUCER_ID.key] = (0, 6)
    assert Talk(kafka).negotiate().connection.version_of(INIT_PRODUCER_ID) == 5


def test_no_common_version_names_both_ranges_and_an_unserved_api_says_so():
    kafka = FakeKafka()
    kafka.versions[PRODUCE.key] = (90, 91)
    del kafka.versions[LIST_OFFSETS.key]
    connection = Talk(kafka).negotiate().connection
    with pytest.raises(
        UnsupportedApiVersion, match=r"b:9092 serves Produce in versions 90 to 91, this client speaks 0 to 13"
    ):
        connection.send(PRODUCE, {}, "token")
    with pytest.raises(UnsupportedApiVersion, match="does not serve ListOffsets"):
        connection.send(LIST_OFFSETS, {}, "token")
    assert connection.in_flight == 0


def test_a_controllers_listener_says_that_it_is_one_and_which_address_to_use():
    """Of the listeners in Kafka's MetadataRequest.json there is `broker`, and no `controller`."""
    kafka = FakeKafka()
    del kafka.versions[METADATA.key]
    with pytest.raises(UnsupportedApiVersion, match=r"b:9092.*KRaft controller.*kafka\.bootstrap\.servers") as raised:
        Talk(kafka).negotiate().connection.send(METADATA, ASK, "token")
    assert "too old" not in str(raised.value)


def test_a_body_that_does_not_fit_leaves_the_connection_as_it_was():
    talk = Talk().negotiate()
    with pytest.raises(ProtocolError):
        talk.connection.send(METADATA, {"no_such_field": 1}, "bad")
    (answer,) = talk.answers(talk.connection.send(METADATA, ASK, "good"))
    assert [response.token for response in talk.connection.receive(answer).responses] == ["good"]


def test_pipelined_answers_go_to_their_requests_in_any_pieces():
    talk = Talk().negotiate()
    stream = b"".join(
        answer
        for token in ("first", "second", "third")
        for answer in talk.answers(talk.connection.send(METADATA, ASK, token))
    )
    assert talk.connection.tokens() == ["first", "second", "third"]
    got = []
    for pos in range(len(stream)):
        received = talk.connection.receive(stream[pos : pos + 1])
        assert received.error is None
        got += [response.token for response in received.responses]
    assert got == ["first", "second", "third"]
    assert (talk.connection.in_flight, talk.connection.pending_bytes) == (0, 0)


def test_a_request_without_answer_is_not_waited_for():
    talk = Talk().negotiate()
    produce = {"acks": 0, "timeout_ms": 1000, "topic_data": []}
    assert talk.answers(talk.connection.send(PRODUCE, produce, "none", expect_response=False)) == []
    (answer,) = talk.answers(talk.connection.send(METADATA, ASK, "asked"))
    assert [response.token for response in talk.connection.receive(answer).responses] == ["asked"]


def test_a_wrong_correlation_id_is_matched_with_nothing():
    talk = Talk().negotiate()
    talk.connection.send(METADATA, ASK, "first")
    (answer,) = talk.answers(talk.connection.send(METADATA, ASK, "second"))
    received = talk.connection.receive(answer)  # the second's answer, where the first's is due
    assert received.responses == []
    assert "oldest in flight" in str(received.error)
    assert talk.connection.tokens() == ["first", "second"]


def test_bytes_that_nobody_asked_for_are_an_error():
    talk = Talk().negotiate()
    (answer,) = talk.answers(talk.connection.send(METADATA, ASK, "only"))
    received = talk.connection.receive(answer + answer)
    assert [response.token for response in received.responses] == ["only"]  # what was right is kept
    assert "bytes without a request" in str(received.error)


def test_an_answer_cut_inside_its_frame_says_which():
    talk = Talk().negotiate()
    parts = talk.connection.send(METADATA, ASK, "token")
    correlation_id = peek_correlation_id(b"".join(parts)[8:])
    received = talk.connection.receive(b"\0\0\0\x06" + correlation_id.to_bytes(4, "big") + b"\0\0")
    assert "Metadata response v13" in str(received.error)
    assert talk.connection.tokens() == ["token"]


def plain():
    return Authentication(Plain("alice", Secret("secret")), "broker 1 at b:9092")


@pytest.mark.parametrize(("versions", "lifetime_ms"), [((0, 2), 7000), ((0, 1), 7000), ((0, 0), 0)])
def test_sasl_gives_the_sessions_lifetime_and_begins_the_next_one_on_the_same_connection(versions, lifetime_ms):
    kafka = FakeKafka()
    kafka.session_lifetime_ms, kafka.versions[SASL_AUTHENTICATE.key] = 7000, versions
    talk = Talk(kafka, login=plain()).negotiate()
    assert talk.connection.session_lifetime_ms == lifetime_ms
    kafka.session_lifetime_ms = 9000
    handshake = talk.connection.authenticate_again(plain())
    assert not talk.connection.ready
    talk.goes_on(handshake)
    assert talk.connection.ready
    assert talk.connection.session_lifetime_ms == (9000 if lifetime_ms else 0)
    (answer,) = talk.answers(talk.connection.send(METADATA, ASK, "token"))
    assert [response.token for response in talk.connection.receive(answer).responses] == ["token"]
    asked = [SASL_HANDSHAKE, SASL_AUTHENTICATE]
    assert [request.api for request in kafka.requests] == [API_VERSIONS, *asked, *asked, METADATA]


def test_brokers_before_1_0_take_bare_tokens_answer_with_an_empty_one_and_refuse_by_a_close():
    """As Kafka 0.10.2 and 0.11 do: see tests/kafka/cluster/test_logging_in_to_old_brokers.py."""
    kafka = FakeKafka()
    del kafka.versions[SASL_AUTHENTICATE.key]
    talk = Talk(kafka, login=plain())
    parts, handshake = talk.connection.negotiate(), None
    while handshake is None:
        (answer,) = talk.answers(parts)
        assert talk.connection.refusal_by_close() is None
        parts = talk.connection.receive(answer).reply
        handshake = next(iter(kafka.asked(SASL_HANDSHAKE)), None)
    assert handshake.version == 0
    token = b"\0alice\0secret"
    assert b"".join(parts) == len(token).to_bytes(4, "big") + token
    assert "before 1.0" in str(talk.connection.refusal_by_close())
    assert talk.connection.receive(bytes(4)).error is None
    assert talk.connection.ready
    assert talk.connection.refusal_by_close() is None
    assert "frame of 0 bytes" in str(talk.connection.receive(bytes(4)).error)  # from now on all frames have a header


def test_a_session_does_not_begin_while_answers_of_the_last_one_are_due():
    talk = Talk(login=plain()).negotiate()
    talk.connection.send(METADATA, ASK, "token")
    with pytest.raises(RuntimeError, match="before the last one has its answers"):
        talk.connection.authenticate_again(plain())


def test_without_sasl_a_session_has_no_end():
    assert Talk().negotiate().connection.session_lifetime_ms == 0


def test_the_same_topics_again_are_the_same_list_and_others_another():
    talk = Talk().negotiate()

    def ask():
        (answer,) = talk.answers(talk.connection.send(METADATA, {"topics": [{"name": "t"}]}, "token"))
        (response,) = talk.connection.receive(answer).responses
        return response.body

    first = ask()
    again = ask()
    assert again == first
    assert again["topics"] is first["topics"]
    talk.kafka.topics["t"].epochs[0] += 1
    assert ask()["topics"] != first["topics"]
