"""Every cell of a link's table: led there by a scripted broker, network and clock, and what is seen from outside."""

from itertools import product

import pytest
from fake_broker import FakeKafka, FakeNet
from link_events import watch_links

from kafkasource.errors import AuthenticationFailed, ClientClosed, ConnectFailed, ConnectionLost, OptionError
from kafkasource.kafka.network import opening
from kafkasource.kafka.network.old_releases import FORMS
from kafkasource.kafka.network.resolver import Resolution
from kafkasource.kafka.network.states import TRANSITIONS, LinkEvent, LinkState
from kafkasource.kafka.protocol.apis import (
    API_VERSIONS,
    DESCRIBE_GROUPS,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FETCH,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from kafkasource.kafka.security.config import SecurityConfig

ASK = {"topics": [], "allow_auto_topic_creation": False}
LIST = {"isolation_level": 0, "topics": []}
NEVER = 10_000_000
GARBAGE = b"\xff" * 64
BACKOFF_S, SETUP_S, NUDGE_S, IDLE_S, SESSION_S = 0.1, 10, 2, 60, 20
HANDSHAKE, TOKEN = (SASL_HANDSHAKE.key, 1), (SASL_AUTHENTICATE.key, SASL_AUTHENTICATE.versions[1])
OF_REQUEST = (LIST_OFFSETS.key, LIST_OFFSETS.versions[1])
ONE, TWO = "10.0.0.1", "10.0.0.2"  # where broker 1 has two addresses


class Names:
    """A resolver that looks a name up when the test says so."""

    def __init__(self):
        self.held = []

    def ask(self, resolve, host, port, told):
        self.held.append(Resolution(resolve, host, port))
        return self.held[-1]


class World:
    """A client whose link to broker 1 is the one under test; broker 2 is there for its metadata."""

    def __init__(self, monkeypatch, **settings):
        self.names, self.seen = Names(), []
        monkeypatch.setattr(opening, "process_resolver", lambda: self.names)
        self.net = FakeNet(FakeKafka(nodes=2, topics={"t": 2}))
        self.answer, self.net.kafka.handle = self.net.kafka.handle, self.handle
        self.script = []  # what broker 1 does with the next requests: close, hold. Then it answers
        self.held = []  # requests
        self.client = self.net.client(
            reconnect_backoff_ms=round(BACKOFF_S * 1000),
            socket_connection_setup_timeout_ms=SETUP_S * 1000,
            connections_max_idle_ms=IDLE_S * 1000,
            metadata_max_age_ms=NEVER,
            **settings,
        )
        while not self.client.metadata.nodes():
            self.client.poll(1000)
        self.until_done(self.client.send(2, METADATA, ASK))
        self.request = self.client.send(1, LIST_OFFSETS, LIST)
        self.link = self.client._links[1]

        def seen(link, event, error):
            if link is self.link:
                self.seen.append((link.state, event))

        watch_links(monkeypatch, seen)

    def handle(self, node_id, frame):
        does = self.script.pop(0) if node_id == 1 and self.script else "answer"
        if does == "close":
            return [None]
        if does == "hold":
            self.held.append(frame)
            return []
        return self.answer(node_id, frame)

    def let_go(self, times=1):
        """Answer what is held, each so many times."""
        held, self.held = self.held, []
        for frame in held:
            self.transport.incoming += b"".join(self.answer(1, frame)) * times

    @property
    def transport(self):
        (found,) = [each for each in self.net.live() if each.address.sockaddr[0] in ("broker-1", ONE, TWO)]
        return found

    def opened(self):
        return [ip for _, ip in self.net.opened if ip in ("broker-1", ONE, TWO)]

    def asked(self):
        """API and version of the requests that broker 1 holds."""
        return [(int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")) for frame in self.held]

    def until_done(self, pending):
        while not pending.done:
            self.client.poll(NEVER)

    def until(self, state):
        """Without any time."""
        for _ in range(20):
            if self.link.state is state:
                return
            self.client.poll(0)
        raise AssertionError(f"{self.link.state}, not {state}")

    def again(self):
        """A new request, and how long it takes until a socket is opened for it, in seconds."""
        start, before = self.net.now, len(self.opened())
        self.request = self.client.send(1, LIST_OFFSETS, LIST)
        while len(self.opened()) == before:
            self.client.poll(NEVER)
        return pytest.approx(self.net.now - start)

    def asks_for_metadata(self):
        """As after whatever may mean that the cluster has changed."""
        return self.client.metadata.time_to_next_update(self.net.now * 1000) < SETUP_S * 1000

    def gave_up(self, transport, error, said="", *, failures):
        """Its request has failed, and the next one waits for the backoff."""
        assert self.link.state is LinkState.BACKING_OFF
        assert transport is None or transport.closed
        assert isinstance(self.request.error, error)
        assert said in str(self.request.error)
        assert self.client.connect_failures(1) == failures
        assert self.again() == BACKOFF_S
        return True

    def stays_ready(self):
        """No deadline of the time before is left."""
        transport, until = self.transport, self.net.now + SETUP_S + 1
        while self.net.now < until:
            self.client.poll((until - self.net.now) * 1000)
        return self.link.state is LinkState.READY and self.transport is transport and not self.request.done

    # Ways into each state.

    def idle(self):
        pass  # a request waits, and nobody has polled

    def backing_off(self):
        self.net.fates["broker-1"] = "refused"
        self.until_done(self.request)
        self.net.fates.clear()

    def resolving(self):
        self.net.resolve_blocks = True
        self.until(LinkState.RESOLVING)

    def connecting(self):
        self.net.fates.update(dict.fromkeys(["broker-1", ONE, TWO], "unreachable"))
        self.until(LinkState.CONNECTING)

    def closed(self):
        """The broker closed a connection for each form of ApiVersions; the next one is being made."""

        def closes(node_id, frame):
            assert node_id == 1
            if len(self.opened()) == len(FORMS):
                self.net.fates["broker-1"], self.net.kafka.handle = "unreachable", self.handle
            return [None]

        self.net.kafka.handle = closes
        while len(self.opened()) <= len(FORMS):
            self.client.poll(0)

    def probing(self):
        self.script = [*["close"] * len(FORMS), "hold"]
        self.until(LinkState.PROBING)

    def negotiating(self):
        self.script = ["hold"]
        self.until(LinkState.NEGOTIATING)

    def authenticating(self):
        self.script = ["answer", "hold"]
        self.until(LinkState.AUTHENTICATING)

    def being_ready(self):
        self.until_done(self.request)

    def session_of(self, seconds):
        """Ready, with a session that lasts so long."""
        self.net.kafka.session_lifetime_ms = seconds * 1000
        self.until_done(self.request)

    def draining(self):
        """A request is in flight, and the one behind it comes when the session nears its end."""
        self.session_of(SESSION_S)
        self.script = ["hold"]
        self.request = self.client.send(1, LIST_OFFSETS, LIST)
        self.pass_time(SESSION_S)
        self.waiting = self.client.send(1, METADATA, ASK)

    def reauthenticating(self):
        """A request waits."""
        self.session_of(SESSION_S)
        self.pass_time(SESSION_S)
        self.script = ["hold"]
        self.request = self.client.send(1, LIST_OFFSETS, LIST)

    def pass_time(self, seconds):
        until = self.net.now + seconds
        while self.net.now < until:
            self.client.poll((until - self.net.now) * 1000)


def two_addresses(world):
    world.net.hosts["broker-1"] = [ONE, TWO]
    world.net.fates[TWO] = "unreachable"


ARRIVE = {
    LinkState.IDLE: World.idle,
    LinkState.BACKING_OFF: World.backing_off,
    LinkState.RESOLVING: World.resolving,
    LinkState.CONNECTING: World.connecting,
    LinkState.PROBING: World.probing,
    LinkState.NEGOTIATING: World.negotiating,
    LinkState.AUTHENTICATING: World.authenticating,
    LinkState.READY: World.being_ready,
    LinkState.DRAINING: World.draining,
    LinkState.REAUTHENTICATING: World.reauthenticating,
}
CELLS = {}


def cell(state, event, before=lambda world: None, arrive=None, **settings):
    """The test of a cell: `before` prepares the network, `arrive` leads into the state, the function goes on."""

    def add(function):
        CELLS[state, event] = before, arrive or ARRIVE[state], function, settings
        return function

    return add


@pytest.mark.parametrize(("state", "event"), TRANSITIONS, ids=lambda each: each.name)
def test_a_link_goes_as_the_table_says(monkeypatch, state, event):
    before, arrive, happens, settings = CELLS[state, event]
    world = World(monkeypatch, **settings)
    before(world)
    arrive(world)
    assert world.link.state is state
    world.seen.clear()
    happens(world)
    assert (state, event) in world.seen


def test_each_cell_has_a_test_and_no_other():
    assert CELLS.keys() == TRANSITIONS.keys()


def test_each_state_can_be_left_and_reached():
    assert {state for state, _ in TRANSITIONS} == {after for after, _ in TRANSITIONS.values()} == set(LinkState)
    assert {event for _, event in TRANSITIONS} == set(LinkEvent)


def test_what_is_not_in_the_table_raises(monkeypatch):
    world = World(monkeypatch)
    world.being_ready()
    for state, event in set(product(LinkState, LinkEvent)) - TRANSITIONS.keys():
        world.link.state = state
        with pytest.raises(RuntimeError, match=f"broker 1 at broker-1:9092: {event.name} while {state.name}"):
            world.link._on(event, 0.0)
    world.link.state = LinkState.READY


# Without a socket.


@cell(LinkState.IDLE, LinkEvent.ATTEMPT)
def _(world):
    world.net.resolve_blocks = True
    world.until(LinkState.RESOLVING)
    assert len(world.names.held) == 1
    assert world.opened() == []


@cell(LinkState.IDLE, LinkEvent.CLOSE)
def _(world):
    world.client.close()
    assert world.link.state is LinkState.IDLE
    assert isinstance(world.request.error, ClientClosed)
    assert world.opened() == []
    assert world.link.failures == 0
    assert not world.asks_for_metadata()


@cell(LinkState.BACKING_OFF, LinkEvent.ATTEMPT)
def _(world):
    failed = world.net.now
    assert world.again() == BACKOFF_S
    world.until_done(world.request)
    assert world.request.error is None
    assert world.net.now - failed == pytest.approx(BACKOFF_S)


@cell(LinkState.BACKING_OFF, LinkEvent.CLOSE)
def _(world):
    while not world.client.idle_s:
        world.client.poll(0)
    world.client.rest()
    assert world.net.live() == []
    assert world.link.state is LinkState.BACKING_OFF
    late = world.client.send(1, LIST_OFFSETS, LIST)
    world.client.poll(0)
    assert world.opened() == ["broker-1"]  # it still waits
    world.client.close()
    assert isinstance(late.error, ClientClosed)


@cell(LinkState.RESOLVING, LinkEvent.RESOLVED)
def _(world):
    world.net.fates["broker-1"] = "unreachable"
    world.names.held[0].run()
    world.client.poll(0)
    assert world.link.state is LinkState.CONNECTING
    assert world.opened() == ["broker-1"]


@cell(LinkState.RESOLVING, LinkEvent.ATTEMPT_FAILED)
def _(world):
    world.net.hosts["broker-1"] = []
    world.names.held[0].run()
    world.client.poll(0)
    world.net.resolve_blocks, world.net.hosts = False, {}
    assert world.gave_up(None, ConnectFailed, "cannot resolve the name: Name or service not known", failures=1)


@cell(LinkState.RESOLVING, LinkEvent.RESOLVER_BROKE)
def _(world):
    world.names.held[0]._resolve = lambda host, port: int("no number")
    world.names.held[0].run()
    with pytest.raises(ValueError, match="no number"):
        world.client.poll(0)
    assert world.link.state is LinkState.IDLE
    assert len(world.names.held) == 1
    world.net.resolve_blocks = False
    world.until_done(world.request)
    assert world.request.error is None


@cell(LinkState.RESOLVING, LinkEvent.CLOSE)
def _(world):
    world.client.close()
    assert world.link.state is LinkState.IDLE
    assert isinstance(world.request.error, ClientClosed)
    assert world.link.resolution is None
    assert world.link.failures == 0
    assert not world.asks_for_metadata()


# Until the socket is connected.


def goes_on(state, asked):
    """What was waited for comes; then the link asks this."""

    def happens(world):
        world.script = ["hold"]
        world.transport.fate = "works"
        world.let_go()
        world.client.poll(0)
        assert world.link.state is state
        assert world.asked() == [asked]
        assert not world.request.done
        assert state is not LinkState.READY or world.stays_ready()

    return happens


cell(LinkState.CONNECTING, LinkEvent.CONNECTED)(
    goes_on(LinkState.NEGOTIATING, (API_VERSIONS.key, API_VERSIONS.versions[1]))
)
cell(LinkState.CONNECTING, LinkEvent.CONNECTED_TO_PROBE, arrive=World.closed)(
    goes_on(LinkState.PROBING, (DESCRIBE_GROUPS.key, 0))
)
cell(LinkState.CONNECTING, LinkEvent.CONNECTED_TO_KNOWN, arrive=World.closed, broker_version_fallback="0.8.2")(
    goes_on(LinkState.READY, (LIST_OFFSETS.key, 0))
)


@cell(LinkState.CONNECTING, LinkEvent.ADDRESS_FAILED, before=two_addresses)
def _(world):
    first = world.transport
    first.fate = "refused"
    world.client.poll(0)
    assert world.link.state is LinkState.CONNECTING
    assert first.closed
    assert world.opened() == [ONE, TWO]
    assert not world.request.done


@cell(LinkState.CONNECTING, LinkEvent.ATTEMPT_FAILED)
def _(world):
    only, start = world.transport, world.net.now
    world.until_done(world.request)
    assert world.net.now - start == pytest.approx(SETUP_S)
    assert world.gave_up(only, ConnectFailed, "no connection in time", failures=1)


def closed_by_the_client(world):
    """Its request fails, and the next one is free to connect."""
    transport = world.transport
    world.client.disconnect(1, "a test")
    assert world.link.state is LinkState.IDLE
    assert transport.closed
    assert isinstance(world.request.error, ConnectionLost)
    assert world.client.connect_failures(1) == 0
    assert not world.asks_for_metadata()
    assert world.again() == 0


cell(LinkState.CONNECTING, LinkEvent.CLOSE)(closed_by_the_client)
cell(LinkState.PROBING, LinkEvent.CLOSE)(closed_by_the_client)
cell(LinkState.NEGOTIATING, LinkEvent.CLOSE)(closed_by_the_client)


# Until the versions are known.


cell(LinkState.PROBING, LinkEvent.IDENTIFIED)(goes_on(LinkState.NEGOTIATING, (API_VERSIONS.key, 0)))


@cell(LinkState.PROBING, LinkEvent.NUDGE_DUE)
def _(world):
    start, transport, world.script = world.net.now, world.transport, ["hold"]
    while not world.seen:
        world.client.poll(NEVER)
    assert world.net.now - start == pytest.approx(NUDGE_S)
    world.client.poll(0)
    assert world.link.state is LinkState.PROBING
    assert world.transport is transport
    assert world.asked() == [(DESCRIBE_GROUPS.key, 0)]  # nothing was sent behind it
    assert not world.request.done


def asks_again(asked):
    """The broker closes, and is asked this on the next connection."""

    def happens(world):
        first, state, world.script = world.transport, world.link.state, ["hold"]
        first.ended = True
        world.client.poll(0)
        assert world.link.state is LinkState.CONNECTING
        assert first.closed
        assert not world.request.done
        world.until(state)
        assert world.asked()[-1] == asked

    return happens


cell(LinkState.PROBING, LinkEvent.UNANSWERED)(asks_again((OFFSET_FETCH.key, 1)))
cell(LinkState.NEGOTIATING, LinkEvent.UNANSWERED)(asks_again((API_VERSIONS.key, 3)))


def garbage_comes_and_the_next_address_is_tried(world):
    first = world.transport
    first.incoming += GARBAGE
    world.client.poll(0)
    assert world.link.state is LinkState.CONNECTING
    assert first.closed
    assert world.opened()[-2:] == [ONE, TWO]
    assert not world.request.done


def garbage_comes_and_there_is_no_other_address(world):
    only = world.transport
    only.incoming += GARBAGE
    world.client.poll(0)
    assert world.gave_up(only, ConnectFailed, failures=1)


cell(LinkState.PROBING, LinkEvent.ADDRESS_FAILED, before=two_addresses)(garbage_comes_and_the_next_address_is_tried)
cell(LinkState.PROBING, LinkEvent.ATTEMPT_FAILED)(garbage_comes_and_there_is_no_other_address)
cell(LinkState.NEGOTIATING, LinkEvent.ADDRESS_FAILED, before=two_addresses)(garbage_comes_and_the_next_address_is_tried)


cell(LinkState.NEGOTIATING, LinkEvent.VERSIONS_KNOWN)(goes_on(LinkState.READY, OF_REQUEST))  # the request that waited


@cell(LinkState.NEGOTIATING, LinkEvent.NUDGE_DUE)
def _(world):
    start, world.script = world.net.now, ["hold"]
    while not world.seen:
        world.client.poll(NEVER)
    assert world.net.now - start == pytest.approx(NUDGE_S)
    assert world.link.state is LinkState.NEGOTIATING
    assert world.asked() == [(API_VERSIONS.key, API_VERSIONS.versions[1]), (DESCRIBE_GROUPS.key, 0)]


@cell(LinkState.NEGOTIATING, LinkEvent.ATTEMPT_FAILED)
def _(world):
    only, start, world.script = world.transport, world.net.now, ["hold"]
    world.until_done(world.request)
    assert world.net.now - start == pytest.approx(SETUP_S)
    assert world.gave_up(only, ConnectFailed, "no answer to ApiVersions in time", failures=1)


def a_second_answer_comes_that_nobody_asked_for(world):
    """To the token, where the listener wants SASL."""
    only = world.transport
    if world.asked()[0] == HANDSHAKE:
        world.script = ["hold"]
        world.let_go()
        world.client.poll(0)
        assert world.asked() == [TOKEN]
    world.let_go(times=2)
    world.client.poll(0)
    assert world.gave_up(only, ConnectionLost, failures=0)


def the_broker_closes(world):
    only = world.transport
    only.ended = True
    world.client.poll(0)
    assert world.gave_up(only, ConnectionLost, failures=0)


cell(LinkState.NEGOTIATING, LinkEvent.LOST)(a_second_answer_comes_that_nobody_asked_for)


# Where the listener wants SASL.


def wants_sasl(password="secret"):
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    return {"security": SecurityConfig.of({**options, "sasl.password": password})}


cell(LinkState.NEGOTIATING, LinkEvent.VERSIONS_KNOWN_TO_LOG_IN, **wants_sasl())(
    goes_on(LinkState.AUTHENTICATING, HANDSHAKE)
)


@cell(LinkState.AUTHENTICATING, LinkEvent.LOGGED_IN, **wants_sasl())
def _(world):
    world.script = ["answer", "hold"]
    world.let_go()
    world.until(LinkState.READY)
    assert world.asked() == [OF_REQUEST]  # the request that waited


@cell(LinkState.AUTHENTICATING, LinkEvent.ATTEMPT_FAILED, **wants_sasl())
def _(world):
    only = world.transport
    world.net.kafka.mechanisms = ["SCRAM-SHA-512"]
    world.let_go()
    world.until(LinkState.BACKING_OFF)
    assert world.gave_up(only, AuthenticationFailed, "SCRAM-SHA-512", failures=1)


cell(LinkState.AUTHENTICATING, LinkEvent.LOST, **wants_sasl())(a_second_answer_comes_that_nobody_asked_for)
cell(LinkState.AUTHENTICATING, LinkEvent.ADDRESS_FAILED, before=two_addresses, **wants_sasl())(
    garbage_comes_and_the_next_address_is_tried
)
cell(LinkState.AUTHENTICATING, LinkEvent.CLOSE, **wants_sasl())(closed_by_the_client)


def test_nothing_but_apiversions_and_sasl_is_sent_before_the_client_is_known(monkeypatch):
    """No probe for old brokers either: whatever comes before SASL is over, the broker closes the connection."""
    world = World(monkeypatch, **wants_sasl())
    world.script = ["hold"]
    start = world.net.now
    world.until_done(world.request)
    assert world.net.now - start == pytest.approx(SETUP_S)
    assert {key for key, _ in world.asked()} == {API_VERSIONS.key}
    assert set(world.opened()) == {"broker-1"}


def test_a_password_that_cannot_be_read_here_is_said_and_leaves_no_socket_open(monkeypatch):
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    net = FakeNet(FakeKafka())
    client = net.client(**wants_sasl("${env:KAFKA_PASSWORD}"))
    asked = client.send(-1, METADATA, ASK)
    while not asked.done:
        client.poll(NEVER)
    assert isinstance(asked.error, OptionError)
    assert "${env:KAFKA_PASSWORD}" in str(asked.error)
    assert net.live() == []


# In use.


@cell(LinkState.READY, LinkEvent.LOST)
def _(world):
    world.script = ["hold"]
    world.request = world.client.send(1, LIST_OFFSETS, LIST)
    the_broker_closes(world)


@cell(LinkState.READY, LinkEvent.BROKER_CLOSED)
def _(world):
    only = world.transport
    only.ended = True
    world.client.poll(0)
    assert world.link.state is LinkState.IDLE
    assert only.closed
    assert world.client.connect_failures(1) == 0
    assert not world.asks_for_metadata()
    assert world.again() == 0


@cell(LinkState.READY, LinkEvent.IDLE_EXPIRED)
def _(world):
    only, start = world.transport, world.net.now
    while not only.closed:
        world.client.poll(NEVER)
    assert world.net.now - start == pytest.approx(IDLE_S)
    assert world.link.state is LinkState.IDLE
    assert not world.asks_for_metadata()
    assert world.again() == 0


@cell(LinkState.READY, LinkEvent.CLOSE)
def _(world):
    world.script = ["hold"]
    world.request = world.client.send(1, LIST_OFFSETS, LIST)
    closed_by_the_client(world)


# The session that nears its end (KIP-368).


@cell(LinkState.READY, LinkEvent.SESSION_ENDING, arrive=lambda world: world.session_of(SESSION_S), **wants_sasl())
def _(world):
    only, world.script = world.transport, ["hold"]
    first = world.client.send(1, LIST_OFFSETS, LIST)
    world.pass_time(SESSION_S)
    world.client.send(1, METADATA, ASK)
    assert world.link.state is LinkState.DRAINING
    world.client.poll(0)
    assert world.asked() == [OF_REQUEST]  # nothing was sent behind it
    assert not first.done
    assert world.transport is only


@cell(LinkState.DRAINING, LinkEvent.DRAINED, **wants_sasl())
def _(world):
    only, world.script = world.transport, ["hold"]
    world.let_go()
    world.client.poll(0)
    assert world.request.error is None
    assert world.link.state is LinkState.REAUTHENTICATING
    assert world.asked() == [HANDSHAKE]
    assert world.transport is only
    assert not world.waiting.done


cell(LinkState.DRAINING, LinkEvent.LOST, **wants_sasl())(the_broker_closes)
cell(LinkState.DRAINING, LinkEvent.CLOSE, **wants_sasl())(closed_by_the_client)
cell(LinkState.REAUTHENTICATING, LinkEvent.CLOSE, **wants_sasl())(closed_by_the_client)


@cell(LinkState.REAUTHENTICATING, LinkEvent.LOGGED_IN, **wants_sasl())
def _(world):
    only, world.script = world.transport, ["hold"]
    world.let_go()
    world.client.poll(0)
    assert world.asked() == [TOKEN]
    world.script = ["hold"]
    world.let_go()
    world.client.poll(0)
    assert world.link.state is LinkState.READY
    assert world.asked() == [OF_REQUEST]  # the request that waited
    assert world.transport is only
    assert world.client.connect_failures(1) == 0
    world.let_go()
    world.pass_time(SETUP_S + 1)
    assert world.link.state is LinkState.READY  # no deadline of SASL is left
    assert world.request.error is None


@cell(LinkState.REAUTHENTICATING, LinkEvent.REFUSED, **wants_sasl())
def _(world):
    only, world.net.kafka.password = world.transport, "another"
    world.let_go()
    world.until(LinkState.BACKING_OFF)
    assert only.closed
    assert isinstance(world.request.error, AuthenticationFailed)
    assert "Invalid username or password" in str(world.request.error)
    assert world.client.connect_failures(1) == 1


@cell(LinkState.REAUTHENTICATING, LinkEvent.RENEWAL_LOST, **wants_sasl())
def _(world):
    only = world.transport
    only.ended = True
    world.until_done(world.request)
    assert world.request.error is None  # the next connection has sent it
    assert only.closed
    assert world.opened() == ["broker-1", "broker-1"]
    assert not world.asks_for_metadata()


cell(LinkState.REAUTHENTICATING, LinkEvent.LOST, **wants_sasl())(a_second_answer_comes_that_nobody_asked_for)


def test_requests_that_come_meanwhile_keep_their_order_behind_the_renewal(monkeypatch):
    world = World(monkeypatch, **wants_sasl())
    world.draining()
    done = []
    for pending in (world.request, world.waiting, *(world.client.send(1, LIST_OFFSETS, LIST) for _ in range(3))):
        pending.add_callback(done.append)
        last = pending
    world.net.kafka.requests.clear()
    world.let_go()
    world.until_done(last)
    assert [pending.api for pending in done] == [LIST_OFFSETS, METADATA, LIST_OFFSETS, LIST_OFFSETS, LIST_OFFSETS]
    asked = [request.api for request in world.net.kafka.requests if request.node_id == 1]
    assert asked == [LIST_OFFSETS, SASL_HANDSHAKE, SASL_AUTHENTICATE, METADATA, *[LIST_OFFSETS] * 3]
    assert world.opened() == ["broker-1"]


def test_a_renewal_that_is_not_answered_in_time_goes_on_with_another_connection(monkeypatch):
    world = World(monkeypatch, **wants_sasl())
    world.reauthenticating()
    start, only = world.net.now, world.transport
    world.until_done(world.request)
    assert world.net.now - start == pytest.approx(SETUP_S)
    assert world.request.error is None
    assert only.closed


def test_another_user_gets_another_connection(monkeypatch, tmp_path):
    """Brokers refuse a connection that changes its user (KIP-368), though they would take the user."""
    (tmp_path / "user").write_text("alice")
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.password": "secret"}
    security = SecurityConfig.of({**options, "sasl.username": f"${{dir:{tmp_path}:user}}"})
    world = World(monkeypatch, security=security)
    world.session_of(SESSION_S)
    world.pass_time(SESSION_S)
    (tmp_path / "user").write_text("bob")
    world.net.kafka.user = "bob"
    world.request = world.client.send(1, LIST_OFFSETS, LIST)
    world.until_done(world.request)
    assert world.request.error is None
    assert (LinkState.REAUTHENTICATING, LinkEvent.RENEWAL_LOST) in world.seen
    assert world.opened() == ["broker-1", "broker-1"]


def test_what_nobody_sends_renews_no_session(monkeypatch):
    """An idle connection costs its broker nothing; SASL is taken after the session's end, too."""
    world = World(monkeypatch, **wants_sasl())
    world.session_of(SESSION_S)
    world.net.kafka.requests.clear()
    world.pass_time(SESSION_S * 2)
    assert world.net.kafka.asked(SASL_HANDSHAKE) == []
    world.until_done(world.client.send(1, LIST_OFFSETS, LIST))
    assert len(world.net.kafka.asked(SASL_HANDSHAKE)) == 1
    assert world.opened() == ["broker-1"]


# What the table made exact.


def test_a_name_that_is_not_answered_leaves_no_address_of_an_earlier_attempt_to_try(monkeypatch):
    """It may be another machine's by now."""
    world = World(monkeypatch)
    world.net.hosts["broker-1"] = [ONE, TWO]
    world.being_ready()
    world.client.disconnect(1, "a test")
    world.net.resolve_blocks = True
    asked = world.client.send(1, LIST_OFFSETS, LIST)
    world.until_done(asked)
    assert "cannot resolve the name: no answer in time" in str(asked.error)
    assert world.opened() == [ONE]
