"""A password changes while a writer and a reader run in sessions of seconds, and connections are cut: all records stay.

Brokers have one password of SCRAM for a user. Whoever logs in after it has changed there and before it has in the
client's file is refused, rightly. So nobody does in this test.
"""

import threading
import time
import uuid
from contextlib import contextmanager, suppress

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from link_events import watch_links
from proxy import Proxy

from kafkasource.kafka.network.connector import SocketConnector
from kafkasource.kafka.network.link import Link
from kafkasource.kafka.network.states import Event, State
from kafkasource.kafka.security.login import Login
from kafkasource.reader import Reader
from kafkasource.writer import Writer

pytestmark = [pytest.mark.broker, pytest.mark.extended]

DEADLINE_S, ROTATIONS = 120, 3
BEGIN = (Event.ATTEMPT, Event.DRAINED)  # a login, the first one of a connection or a later one
END = (Event.LOGGED_IN, Event.REFUSED, Event.RENEWAL_LOST, Event.ATTEMPT_FAILED, Event.LOST, Event.CLOSE)
REFUSED = (Event.REFUSED, Event.ATTEMPT_FAILED)


class Logins:
    """Who logs in right now at this port; in `none` nobody does, and nobody begins to."""

    def __init__(self, monkeypatch, port):
        self.under_way, self.renewed, self.refused, self.lock = set(), 0, 0, threading.RLock()
        credentials, connect = Login.credentials, Link.connect_if_due

        def seen(link, event, error):
            if link.port != port:  # of a client that another test has left
                return
            if event in BEGIN:
                self.under_way.add(link)
            if event in END:
                self.under_way.discard(link)
            self.renewed += event is Event.LOGGED_IN and link.state is State.REAUTHENTICATING
            self.refused += event in REFUSED

        def read(login):
            with self.lock:
                return credentials(login)

        def connect_if_due(link, now):
            with self.lock:  # an attempt reads the password a moment before it begins
                connect(link, now)

        watch_links(monkeypatch, seen)
        monkeypatch.setattr(Link, "connect_if_due", connect_if_due)
        monkeypatch.setattr(Login, "credentials", read)

    @contextmanager
    def none(self):
        deadline = time.monotonic() + DEADLINE_S
        while True:
            with self.lock:
                if not self.under_way:
                    yield
                    return
            assert time.monotonic() < deadline
            time.sleep(0.005)


class Rotor:
    """The operator, with a user of its own."""

    def __init__(self, broker, folder):
        self.secured, self.folder = broker.secured, folder
        self.name = f"rotor-{uuid.uuid4().hex[:8]}"
        self.admin = AdminClient({"bootstrap.servers": broker.secured.bootstrap_servers("PLAINTEXT")})

    def change_password(self, password):
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(self.name, credential, password.encode())
        for done in self.admin.alter_user_scram_credentials([change]).values():
            done.result(60)
        self._await(password)
        fresh = self.folder / "password.new"
        fresh.write_text(password)
        fresh.replace(self.folder / "password")

    def _await(self, password):
        """Brokers hear of it a moment later."""
        theirs = {**self.secured.confluent_properties("REAUTH", "SCRAM-SHA-512", "alice"), "log_level": 0}
        theirs |= {"sasl.username": self.name, "sasl.password": password}
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                AdminClient(theirs).list_topics(timeout=10)
            except KafkaException:
                assert time.monotonic() < deadline
            else:
                return

    def options(self):
        given = self.secured.client_properties("REAUTH", "SCRAM-SHA-512", "alice")
        del given["sasl.jaas.config"]
        given |= {"sasl.username": self.name, "sasl.password": f"${{dir:{self.folder}:password}}"}
        return {f"kafka.{name}": text for name, text in given.items()}


class EndOfNumbers(Exception):
    pass


class Copy:
    """A writer of numbers, and a reader that follows it."""

    def __init__(self, options):
        self.options, self.topic = options, f"t-{uuid.uuid4().hex[:10]}"
        self.give_up = time.monotonic() + 3 * DEADLINE_S
        self.written, self.followed, self.over = [], [], threading.Event()
        self.threads = [threading.Thread(target=each) for each in (self._write, self._follow)]

    def _write(self):
        with Writer({**self.options, "topic": self.topic, "createTopic": "partitions=1"}) as writer:
            while not self.over.is_set():
                numbers = range(len(self.written), len(self.written) + 10)
                writer.write(pa.table({"value": [b"%d" % number for number in numbers]}))
                self.written.extend(numbers)
                time.sleep(0.02)  # else it is a test of speed

    def _rest(self, seconds):
        if not self.threads[0].is_alive() and len(self.followed) >= len(self.written):
            raise EndOfNumbers
        self.goes_on()
        time.sleep(seconds)

    def _follow(self):
        with Reader({**self.options, "subscribe": self.topic, "startingOffsets": "earliest"}) as reader:
            while self.topic not in [found.name for found in reader.cluster.topics.list()]:
                self.goes_on()
            with suppress(EndOfNumbers):
                for batch in reader.follow(poll_s=0.01, sleep=self._rest):
                    self.followed.extend(map(int, batch.column("value").to_pylist()))

    def goes_on(self):
        assert time.monotonic() < self.give_up


def test_a_password_changes_under_a_writer_and_a_reader_and_nothing_is_lost_doubled_or_moved(
    secured_broker, tmp_path, monkeypatch
):
    rotor = Rotor(secured_broker, tmp_path)
    copy = Copy(rotor.options())
    host, _, port = copy.options["kafka.bootstrap.servers"].rpartition(":")
    logins = Logins(monkeypatch, int(port))
    rotor.change_password("first")
    with Proxy((host, int(port))) as proxy:
        resolve = SocketConnector.resolve
        monkeypatch.setattr(SocketConnector, "resolve", staticmethod(lambda host, port: resolve(*proxy.address)))
        for thread in copy.threads:
            thread.start()
        for rotation in range(ROTATIONS):
            for_now = logins.renewed + 4  # the sessions of both go on with the password of the last rotation
            while logins.renewed < for_now:
                copy.goes_on()
                assert all(thread.is_alive() for thread in copy.threads)
                time.sleep(0.05)
            with logins.none():
                rotor.change_password(f"password {rotation}")
            if rotation == 1:
                proxy.reset_all()  # the next connections log in by it, too
        copy.over.set()
        for thread in copy.threads:
            thread.join()
    assert logins.refused == 0
    assert len(copy.written) > 100
    assert copy.followed == copy.written == list(range(len(copy.written)))
