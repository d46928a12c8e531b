"""A server that ends the connection on a form of ApiVersions that it does not know, as Azure Event Hubs does on v4.

KIP-511 wants an answer with UNSUPPORTED_VERSION there. kafka-python #2602 and franz-go #1025 saw a reset instead.
"""

import pytest
from fake_broker import CLOSE, RESET, SILENCE, FakeKafka, FakeNet, serve

from kafkasource.errors import ConnectFailed
from kafkasource.kafka.cluster.visit import offered_mechanisms, resolve, visit
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import API_VERSIONS, DESCRIBE_GROUPS, LIST_OFFSETS, METADATA
from kafkasource.kafka.security.config import SecurityConfig

SETUP_S = 10
STUCK = "stuck"  # silent about that request, and about all that come behind it

secured = pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
every_end = pytest.mark.parametrize("end", [CLOSE, RESET, SILENCE, STUCK])


def security(protocol):
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret"}
    return SecurityConfig.of({"security.protocol": protocol, **(login if "SASL" in protocol else {})})


@pytest.fixture
def net():
    return FakeNet(FakeKafka(topics={"t": 1}))


def ends_new_forms(net, newest, end):
    """The server serves ApiVersions up to this version."""
    net.kafka.versions[API_VERSIONS.key] = (0, newest)
    net.kafka.too_new = SILENCE if end == STUCK else end
    if end == STUCK:
        net.kafka.fault(DESCRIBE_GROUPS, *[SILENCE] * 5)


def client_of(net, protocol="PLAINTEXT", **settings):
    return net.client(
        security=security(protocol),
        socket_connection_setup_timeout_ms=SETUP_S * 1000,
        socket_connection_setup_timeout_max_ms=SETUP_S * 1000,
        **settings,
    )


def asked(client, node_id=-1):
    """The error of a request; None: it was answered."""
    pending = client.send(node_id, LIST_OFFSETS, {"topics": []})
    while not pending.done:
        client.poll(10_000_000)
    return pending.error


def known_at_last(client):
    """After as many attempts as it takes; how many failed."""
    failed = 0
    while isinstance(asked(client), ConnectFailed):
        failed += 1
        assert failed < 10
    return failed


def asks_anew(net, client):
    """The versions of ApiVersions that the next connection asks in, and how many connections it takes."""
    client.disconnect(-1, "a test")
    net.kafka.forms.clear()
    before = len(net.opened)
    assert asked(client) is None
    return net.kafka.forms, len(net.opened) - before


@secured
@every_end
@pytest.mark.parametrize("newest", [3, 2, 0])
def test_what_ends_a_connection_before_the_answer_is_followed_by_the_next_lower_form(net, protocol, end, newest):
    ends_new_forms(net, newest, end)
    client, start = client_of(net, protocol), net.now
    forms = [4, 3] if newest == 3 else [4, 3, 0]
    failed = known_at_last(client)
    assert net.kafka.forms == forms
    assert len(net.opened) == len(forms)
    # Only time tells silence where nothing else may be asked, as with SASL: it is the end of an attempt.
    in_time = end in (CLOSE, RESET) or (end == SILENCE and "SASL" not in protocol)
    assert failed == (0 if in_time else len(forms) - 1)
    assert net.now - start < (2.1 if in_time else (SETUP_S + 1) * failed)
    assert net.kafka.asked(LIST_OFFSETS)[-1].version == LIST_OFFSETS.versions[1]  # no broker of an old release


@secured
@every_end
def test_the_form_that_worked_is_remembered_for_the_address(net, protocol, end):
    ends_new_forms(net, 3, end)
    client = client_of(net, protocol)
    known_at_last(client)
    assert asks_anew(net, client) == ([3], 1)
    assert asks_anew(net, client) == ([3], 1)


def test_another_address_is_asked_in_the_newest_form(net):
    net.others["elsewhere"] = other = FakeKafka()
    net.kafka.versions[API_VERSIONS.key], net.kafka.too_new = (0, 3), RESET
    client = client_of(net, bootstrap="bootstrap:9092,elsewhere:9092")
    assert asked(client) is None
    assert asked(client, -2) is None
    assert other.forms == [4]


def test_a_server_that_was_upgraded_or_replaced_is_found_again(net):
    """The search begins with what is remembered, goes on from there, and begins again after its last step."""
    net.kafka.versions[API_VERSIONS.key], net.kafka.too_new = (0, 3), RESET
    client = client_of(net, "SASL_PLAINTEXT")
    assert asked(client) is None
    net.kafka.versions[API_VERSIONS.key] = (0, 0)
    assert asks_anew(net, client) == ([3, 0], 2)
    assert asks_anew(net, client) == ([0], 1)
    net.kafka.versions[API_VERSIONS.key] = (3, 4)
    client.disconnect(-1, "a test")
    net.kafka.forms.clear()
    assert known_at_last(client) == 1
    assert net.kafka.forms == [0, 4]


def test_no_form_at_all_is_an_error_with_sasl_and_nothing_but_apiversions_was_sent(net):
    net.kafka.versions[API_VERSIONS.key], net.kafka.too_new = (0, -1), CLOSE
    error = asked(client_of(net, "SASL_PLAINTEXT"))
    assert isinstance(error, ConnectFailed)
    assert (
        "no answer to ApiVersions: is it a listener with TLS (then set kafka.security.protocol=SASL_SSL), or not Kafka?"
        in str(error)
    )
    assert net.kafka.forms == [4, 3, 0]
    assert net.kafka.requests == []
    assert net.kafka.refused == []


@pytest.mark.parametrize("fallback", ["auto", "0.9.0"])
def test_a_named_old_release_is_taken_only_where_no_form_is_answered(net, fallback):
    net.kafka.versions[API_VERSIONS.key], net.kafka.too_new = (0, 3), RESET
    assert asked(client_of(net, broker_version_fallback=fallback)) is None
    assert net.kafka.asked(LIST_OFFSETS)[0].version == LIST_OFFSETS.versions[1]


def far(net, delay_s):
    """Each answer comes this much later."""
    handle = net.kafka.handle

    def slow(node_id, frame):
        (transport,) = net.live()
        answers = handle(node_id, frame)

        def arrive():
            for answer in answers:
                if answer is None:
                    transport.ended = True
                else:
                    transport.incoming += answer

        net.later(delay_s, arrive)
        return []

    net.kafka.handle = slow


@pytest.mark.parametrize("delay_s", [0.3, 1.5])
def test_a_far_broker_is_not_asked_whether_it_is_an_old_one(net, delay_s):
    """It may close the connection on an API, or a version of one, that it does not serve."""
    net.kafka.versions[DESCRIBE_GROUPS.key] = (5, 6)
    far(net, delay_s)
    assert asked(client_of(net)) is None
    assert net.kafka.refused == []
    assert len(net.opened) == 1


@pytest.mark.parametrize("fallback", ["auto", "0.9.0"])
def test_a_broker_that_closes_on_that_question_is_connected_without_it_from_then_on(net, fallback):
    net.kafka.versions[DESCRIBE_GROUPS.key] = (5, 6)
    late = []
    handle = net.kafka.handle

    def busy(node_id, frame):
        """Reads nothing for 3 seconds; on the first connection it finds the question behind ApiVersions then."""
        if net.now < 1003:
            late.append(frame)
            return []
        return handle(node_id, frame)

    def wakes():
        (transport,) = net.live()
        for frame in late[1:]:
            assert handle(1, frame) == [None]
        transport.ended = True

    net.kafka.handle = busy
    net.later(3, wakes)
    client = client_of(net, broker_version_fallback=fallback)
    assert asked(client) is None
    assert len(net.opened) == 2
    assert [key for _, key, _ in net.kafka.refused] == [DESCRIBE_GROUPS.key]
    far(net, 5)
    client.disconnect(-1, "a test")
    assert asked(client) is None
    assert len(net.opened) == 3
    assert len(net.kafka.refused) == 1


@pytest.mark.parametrize("end", [CLOSE, RESET])
def test_doctor_sees_such_a_server_as_the_client_does(end):
    kafka = FakeKafka()
    kafka.versions[API_VERSIONS.key], kafka.too_new = (0, 3), end
    with serve(kafka) as (host, port):
        config = ClientConfig.of(f"{host}:{port}", security=security("SASL_PLAINTEXT"))
        (address,) = resolve(host, port)
        found = visit(config, address, 60_000)
        assert (found.error, found.mechanisms) == (None, ("PLAIN",))
        assert offered_mechanisms(config, address, 60_000) == ("PLAIN",)
    assert kafka.forms == [4, 3, 4, 3]


def test_metadata_comes_in_its_newest_version_after_a_lower_form(net):
    net.kafka.versions[API_VERSIONS.key], net.kafka.too_new = (0, 3), RESET
    client = client_of(net)
    while not client.metadata.nodes():
        client.poll(1000)
    assert {request.version for request in net.kafka.asked(METADATA)} == {METADATA.versions[1]}
