"""Kafka brokers in this process, told which fault comes next, with a network and a clock that need no time.

`FakeKafka` is what the brokers know and how they answer; `FakeNet` carries bytes between them and a client that was
given its connector, selector and clock; `serve` puts one of them on a real socket instead.

    kafka = FakeKafka(nodes=2, topics={"t": 2})
    kafka.fault(LIST_OFFSETS, Error(6))          # the next ListOffsets answer has this code in every partition
    net = FakeNet(kafka)
    cluster = net.cluster()

Requests and answers go through our own message schemas, which tests/kafka/protocol holds against Kafka's classes.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import selectors
import socket
import struct
import threading
import uuid
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from fake_transactions import FakeTransactions

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.network_client import NetworkClient
from kafkasource.kafka.network.old_releases import RELEASES
from kafkasource.kafka.network.sockets import Address
from kafkasource.kafka.protocol.apis import API_VERSIONS, APIS, Api
from kafkasource.kafka.protocol.frames import encode_response
from kafkasource.kafka.protocol.primitives import ByteReader
from kafkasource.kafka.security.refusals import process_refusals

LOG_START, LOG_END = 0, 100

# What a broker can do wrong with the next request of an API.


@dataclass(frozen=True)
class Error:
    """Answer with this code wherever the answer has one."""

    code: int


@dataclass(frozen=True)
class Answer:
    """Answer with this body."""

    body: dict


@dataclass(frozen=True)
class Throttle:
    """Answer as usual, with this throttle_time_ms."""

    ms: int


@dataclass(frozen=True)
class Raw:
    """Send these bytes instead of an answer."""

    data: bytes


@dataclass(frozen=True)
class Cut:
    """Send this many bytes of the answer, then close."""

    size: int


@dataclass(frozen=True)
class Flip:
    """Answer with one bit of this byte of the frame flipped (4: the first byte after the length)."""

    pos: int


CLOSE, RESET, SILENCE = "close", "reset", "silence"
WRONG_CORRELATION_ID, TWICE = "wrong correlation id", "twice"


class Request(NamedTuple):
    node_id: int
    api: Api
    version: int
    body: dict
    client_id: str | None


@dataclass
class FakeTopic:
    leaders: list[int]
    topic_id: uuid.UUID = field(default_factory=uuid.uuid4)
    epochs: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    epoch_ends: dict[tuple[int, int], int] = field(default_factory=dict)  # (partition, epoch); otherwise the log's end
    internal: bool = False

    def refusal(self, node_id: int, partition: int, current_leader_epoch: int) -> int:
        """The code for a client that asks this node, with the epoch that it knows (KIP-320); 0: none."""
        if self.leaders[partition] != node_id:
            return 6
        now = self.epochs[partition]
        return 0 if current_leader_epoch in (-1, now) else 74 if current_leader_epoch < now else 75


class FakeKafka(FakeTransactions):
    """Brokers 1..nodes at broker-1:9092 ...; bootstrap:9092 leads to broker 1."""

    def __init__(self, nodes: int = 1, topics: dict[str, int] | None = None, cluster_id: str = "fake-cluster") -> None:
        super().__init__()
        self.cluster_id = cluster_id
        self.node_ids = list(range(1, nodes + 1))
        self.addresses = {node: (f"broker-{node}", 9092) for node in self.node_ids}  # as advertised
        self.topics = {
            name: FakeTopic([self.node_ids[i % nodes] for i in range(count)]) for name, count in (topics or {}).items()
        }
        self.versions = {api.key: api.stable_versions for api in APIS.values()}
        self.mechanisms = ["PLAIN"]
        self.user, self.password = "alice", "secret"
        self.session_lifetime_ms = 0  # what SASL's last answer says; no end of a session is enforced
        self.requests: list[Request] = []
        self.old_news: dict[int, Any] = {}  # node: what it makes of a topic's row, not having heard of news
        self.silent = False  # about APIs that it does not know
        self.too_new: str | None = None  # what an unknown form of ApiVersions gets; None: its error (KIP-511)
        self.forms: list[int] = []  # the versions that ApiVersions was asked in
        self.refused: list[tuple[int, int, int]] = []  # node, API key and version of what it does not serve
        self._faults: dict[int, deque[Any]] = defaultdict(deque)

    def fault(self, api: Api, *faults: Any) -> None:
        """The next requests of this API meet these, one each."""
        self._faults[api.key].extend(faults)

    def asked(self, api: Api) -> list[Request]:
        return [request for request in self.requests if request.api is api]

    def become(self, release: str) -> None:
        """Be brokers of this release, from before ApiVersions: 0.8 closes the connection on it, 0.9 says nothing."""
        self.versions = dict(RELEASES[release].versions)
        self.silent = release == "0.9.0"

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        self.topics[topic].leaders[partition] = node_id
        self.topics[topic].epochs[partition] += 1

    # One request in, bytes out; None: and then close.

    def handle(self, node_id: int, frame: bytes) -> list[Any]:
        reader = ByteReader(frame)
        key, version, correlation_id = reader.int16(), reader.int16(), reader.int32()
        if key == API_VERSIONS.key:
            self.forms.append(version)
        client_id = reader.nullable_string()
        api = APIS.get(key)
        low, high = self.versions.get(key, (1, 0))
        if api is None or not low <= version <= high:
            if api is not API_VERSIONS or key not in self.versions:
                self.refused.append((node_id, key, version))
                return [] if self.silent else [None]
            if self.too_new is not None:
                return {CLOSE: [None], RESET: [RESET], SILENCE: []}[self.too_new]
            ranges = {"error_code": 35, "api_keys": self._api_keys(lambda key: key == API_VERSIONS.key)}
            return [encode_response(api, 0, correlation_id, ranges)]
        if api.request.is_flexible(version):
            reader.skip_tagged_fields()
        request = Request(node_id, api, version, api.request.read(version, reader), client_id)
        self.requests.append(request)
        faults = self._faults[key]
        fault = faults.popleft() if faults else None
        return self._with_fault(request, correlation_id, fault)

    def _with_fault(self, request: Request, correlation_id: int, fault: Any) -> list[bytes | None]:
        api, version = request.api, request.version
        if fault == CLOSE:
            return [None]
        if fault == SILENCE:
            return []
        if isinstance(fault, Raw):
            return [fault.data]
        before = copy.deepcopy(self.transactions) if isinstance(fault, Error) else None
        body = fault.body if isinstance(fault, Answer) else self.answer(request)
        if body is None:
            return []
        if isinstance(fault, Error):
            _set_codes(body, fault.code)
            self.transactions = before  # nothing happened
        if isinstance(fault, Throttle):
            body["throttle_time_ms"] = fault.ms
        shift = 1000 if fault == WRONG_CORRELATION_ID else 0
        frame = encode_response(api, version, correlation_id + shift, body)
        if isinstance(fault, Cut):
            return [frame[: fault.size], None]
        if isinstance(fault, Flip):
            frame = frame[: fault.pos] + bytes([frame[fault.pos] ^ 1]) + frame[fault.pos + 1 :]
        return [frame, frame] if fault == TWICE else [frame]

    # What the answers are.

    def answer(self, request: Request) -> dict | None:
        return getattr(self, "_" + _snake(request.api.name))(request)

    def _api_keys(self, wanted: Any = lambda key: True) -> list[dict]:
        return [
            {"api_key": key, "min_version": low, "max_version": high}
            for key, (low, high) in self.versions.items()
            if wanted(key)
        ]

    def _api_versions(self, request: Request) -> dict:
        level = self.transaction_version
        feature = {"name": "transaction.version", "max_version_level": level, "min_version_level": level}
        return {"error_code": 0, "api_keys": self._api_keys(), "finalized_features": [feature]}

    def _sasl_handshake(self, request: Request) -> dict:
        known = request.body["mechanism"] in self.mechanisms
        return {"error_code": 0 if known else 33, "mechanisms": self.mechanisms}

    def _sasl_authenticate(self, request: Request) -> dict:
        """PLAIN, of one user."""
        known = bytes(request.body["auth_bytes"]) == f"\0{self.user}\0{self.password}".encode()
        said = None if known else "Authentication failed: Invalid username or password"
        lifetime_ms = self.session_lifetime_ms if known else 0
        answer = {"error_message": said, "auth_bytes": b"", "session_lifetime_ms": lifetime_ms}
        return {"error_code": 0 if known else 58, **answer}

    def _metadata(self, request: Request) -> dict:
        asked = request.body["topics"]
        everything = asked is None or (not asked and request.version == 0)
        names = list(self.topics) if everything else [topic["name"] for topic in asked]
        return {
            "brokers": [
                {"node_id": node, "host": self.addresses[node][0], "port": self.addresses[node][1]}
                for node in self.node_ids
            ],
            "cluster_id": self.cluster_id,
            "controller_id": self.node_ids[0],
            "topics": [self.old_news.get(request.node_id, dict)(self._topic_row(name)) for name in names],
        }

    def _topic_row(self, name: str) -> dict:
        topic = self.topics.get(name)
        if topic is None:
            return {"error_code": 3, "name": name, "partitions": []}
        partitions = [
            {
                "error_code": 0 if leader >= 0 else 5,
                "partition_index": partition,
                "leader_id": leader,
                "leader_epoch": topic.epochs[partition],
                "replica_nodes": self.node_ids,
                "isr_nodes": self.node_ids,
            }
            for partition, leader in enumerate(topic.leaders)
        ]
        row = {"error_code": 0, "name": name, "topic_id": topic.topic_id, "is_internal": topic.internal}
        return {**row, "partitions": partitions}

    def _list_offsets(self, request: Request) -> dict:
        def row(name: str, asked: dict) -> dict:
            topic, partition = self.topics.get(name), asked["partition_index"]
            if topic is None or partition >= len(topic.leaders):
                code = 3
            else:
                code = topic.refusal(request.node_id, partition, asked.get("current_leader_epoch", -1))
            offset = {-1: LOG_END, -2: LOG_START}.get(asked["timestamp"], -1)
            row = {"partition_index": partition, "error_code": code, "timestamp": -1}
            if request.version == 0:
                return {**row, "old_style_offsets": [] if code else [offset]}
            return {
                **row,
                "offset": offset if code == 0 else -1,
                "leader_epoch": topic.epochs[partition] if topic else -1,
            }

        return {"topics": _rows(request.body["topics"], row)}

    def _offset_for_leader_epoch(self, request: Request) -> dict:
        def row(name: str, asked: dict) -> dict:
            topic, partition, epoch = self.topics.get(name), asked["partition"], asked["leader_epoch"]
            if topic is None:
                return {"partition": partition, "error_code": 3, "leader_epoch": -1, "end_offset": -1}
            code = topic.refusal(request.node_id, partition, asked.get("current_leader_epoch", -1))
            end = topic.epoch_ends.get((partition, epoch), LOG_END)
            row = {"partition": partition, "error_code": code, "leader_epoch": -1 if end < 0 else epoch}
            return {**row, "end_offset": -1 if code else end}

        return {
            "topics": [
                {"topic": one["topic"], "partitions": [row(one["topic"], asked) for asked in one["partitions"]]}
                for one in request.body["topics"]
            ]
        }

    def _describe_groups(self, request: Request) -> dict:
        return {
            "groups": [{"group_id": group, "error_code": 0, "group_state": "Dead"} for group in request.body["groups"]]
        }

    def _consumer_group_describe(self, request: Request) -> dict:
        return {"groups": [{"group_id": group, "error_code": 69} for group in request.body["group_ids"]]}

    def _describe_log_dirs(self, request: Request) -> dict:
        """Each leader has an empty log, in one folder."""

        def empty(asked: dict) -> dict:
            leaders = self.topics[asked["topic"]].leaders
            mine = [number for number in asked["partitions"] if leaders[number] == request.node_id]
            return {
                "name": asked["topic"],
                "partitions": [
                    {"partition_index": number, "partition_size": 0, "offset_lag": 0, "is_future_key": False}
                    for number in mine
                ],
            }

        topics = [empty(asked) for asked in request.body["topics"] if asked["topic"] in self.topics]
        return {"error_code": 0, "results": [{"error_code": 0, "log_dir": "/logs", "topics": topics}]}

    def _find_coordinator(self, request: Request) -> dict:
        def found(key: str) -> dict:
            node_id = self.coordinator_of(key)
            host, port = self.addresses[node_id]
            return {"error_code": 0, "node_id": node_id, "host": host, "port": port}

        if request.version >= 4:
            return {"coordinators": [{"key": key, **found(key)} for key in request.body["coordinator_keys"]]}
        return found(request.body["key"])

    def _offset_commit(self, request: Request) -> dict:
        moved = 0 if request.node_id == self.coordinator_of(request.body["group_id"]) else 16

        def row(name: str, asked: dict) -> dict:
            code = moved or (0 if name in self.topics else 3)
            if not code:
                key = (request.body["group_id"], name, asked["partition_index"])
                self.committed[key] = asked["committed_offset"]
                self.committed_metadata[key] = asked["committed_metadata"] or ""
            return {"partition_index": asked["partition_index"], "error_code": code}

        return {"topics": _rows(request.body["topics"], row)}

    def _offset_fetch(self, request: Request) -> dict:
        def row(group: str, topic: str, index: int) -> dict:
            key = (group, topic, index)
            unstable = request.body["require_stable"] and not self.is_stable(key)
            return {
                "partition_index": index,
                "committed_offset": -1 if unstable else self.committed.get(key, -1),
                "metadata": "" if unstable else self.committed_metadata.get(key, ""),
                "error_code": 88 if unstable else 0,
            }

        def all_of(group: str) -> list[dict]:
            found = sorted({key[1:] for key in self.committed if key[0] == group})  # none that is only pending
            return [
                {"name": name, "partition_indexes": [index for topic, index in found if topic == name]}
                for name in dict.fromkeys(topic for topic, _ in found)
            ]

        def group_row(group: dict) -> dict:
            name = group["group_id"]
            everything = group["topics"] is None or (request.version == 1 and not group["topics"])
            asked = all_of(name) if everything else group["topics"]
            topics = [
                {"name": topic["name"], "partitions": [row(name, topic["name"], i) for i in topic["partition_indexes"]]}
                for topic in asked
            ]
            return {"group_id": name, "topics": topics, "error_code": 0}

        if request.version >= 8:
            return {"groups": [group_row(group) for group in request.body["groups"]]}
        return {"topics": group_row(request.body)["topics"], "error_code": 0}

    def _create_topics(self, request: Request) -> dict:
        rows = []
        for asked in request.body["topics"]:
            code = 36 if asked["name"] in self.topics else 0
            if not code:
                count = len(self.node_ids)
                leaders = [self.node_ids[i % count] for i in range(asked["num_partitions"])]
                self.topics[asked["name"]] = FakeTopic(leaders)
            rows.append({"name": asked["name"], "error_code": code, "error_message": None})
        return {"topics": rows}

    def _delete_topics(self, request: Request) -> dict:
        by_row = [topic["name"] for topic in request.body["topics"]]
        names = by_row or request.body["topic_names"]
        return {"responses": [{"name": n, "error_code": 0 if self.topics.pop(n, None) else 3} for n in names]}

    def _produce(self, request: Request) -> dict | None:
        if request.body["acks"] == 0:
            return None
        ids = {topic.topic_id: name for name, topic in self.topics.items()}
        rows = []
        for topic in request.body["topic_data"]:
            name = topic.get("name") or ids.get(topic.get("topic_id"), "")
            partitions = [
                {
                    "index": data["index"],
                    "error_code": self._produce_code(request, name, data),
                    "base_offset": LOG_END,
                }
                for data in topic["partition_data"]
            ]
            rows.append({"name": topic["name"], "topic_id": topic["topic_id"], "partition_responses": partitions})
        return {"responses": rows}

    def _produce_code(self, request: Request, topic: str, data: dict) -> int:
        if self.topics[topic].leaders[data["index"]] != request.node_id:
            return 6
        if request.body["transactional_id"] is None:
            return 0
        return self.transactional_code(request, topic, data["index"], data["records"])


def _rows(topics: list[dict], row: Any) -> list[dict]:
    return [
        {"name": topic["name"], "partitions": [row(topic["name"], asked) for asked in topic["partitions"]]}
        for topic in topics
    ]


def _set_codes(body: Any, code: int) -> None:
    for item in body if isinstance(body, list) else [body]:
        if isinstance(item, dict):
            for name in ("error_code", "partition_error_code"):
                if name in item:
                    item[name] = code
            for value in item.values():
                if isinstance(value, (list, dict)):
                    _set_codes(value, code)


def _snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


class _Frames:
    """Cuts requests out of a stream."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> list[bytes]:
        self._data += data
        frames = []
        while len(self._data) >= 4 and len(self._data) >= 4 + (size := int.from_bytes(self._data[:4], "big")):
            frames.append(self._data[4 : 4 + size])
            self._data = self._data[4 + size :]
        return frames


# A network without time.


class FakeTransport:
    def __init__(self, net: FakeNet, address: Address, node_id: int | None, fate: str) -> None:
        self.net, self.address, self.node_id, self.fate = net, address, node_id, fate
        self.incoming = bytearray()
        self.ended = self.closed = self.reset = False
        self._frames = _Frames()

    def fileno(self) -> int:
        raise AssertionError("a fake transport has no descriptor")

    def finish_connect(self) -> bool:
        if self.fate == "refused":
            raise OSError(errno.ECONNREFUSED, "Connection refused")
        return True

    def receive_into(self, target: memoryview) -> int | None:
        if self.reset:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        if not self.incoming:
            return 0 if self.ended else None
        size = min(len(target), len(self.incoming), self.net.most_bytes_at_once)
        target[:size] = self.incoming[:size]
        del self.incoming[:size]
        return size

    def send(self, pieces: list[memoryview]) -> int:
        if self.ended or self.reset:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        data = b"".join(pieces)[: self.net.most_bytes_at_once]
        if self.fate != "blackhole":
            for frame in self._frames.feed(data):
                if self.ended:
                    break
                for answer in self.net.kafka_of(self.address).handle(self.node_id, frame):
                    if answer is None:
                        self.ended = True
                    elif answer == RESET:
                        self.reset = True
                    else:
                        self.incoming += answer
        return len(data)

    def flush(self) -> bool:
        return True

    unread = False
    own_certificate = None

    def close(self) -> None:
        self.closed = True

    def ready(self, events: int) -> int:
        if self.fate == "unreachable":
            return 0
        readable = selectors.EVENT_READ if self.incoming or self.ended or self.reset else 0
        return events & (readable | selectors.EVENT_WRITE)


ClientOrCluster = TypeVar("ClientOrCluster", NetworkClient, Cluster)
_open_clients: list[NetworkClient | Cluster] = []  # of any FakeNet


def close_clients() -> None:
    """Close the clients and clusters that a FakeNet has made: each has a pair of real sockets for its wake-ups."""
    while _open_clients:
        _open_clients.pop().close()
    process_refusals.reset()  # another test's alice may have another password


class AtOnce:
    """In place of a thread of `background`: the clock here does not wait for one."""

    def __init__(self, target: Any, **about: Any) -> None:
        self.start = target


class FakeNet:
    """Connector, selector and clock in one. `select` moves the clock when nothing is ready, so no test waits."""

    def __init__(self, kafka: FakeKafka, seed: float = 0.5) -> None:
        self.kafka = kafka
        self.now = 1000.0  # seconds
        self.seed = seed
        self.hosts: dict[str, list[str]] = {}  # name -> addresses; otherwise the name is its own
        self.fates: dict[str, str] = {}  # address -> refused | unreachable | blackhole; otherwise it works
        self.others: dict[str, FakeKafka] = {}  # address -> another cluster that lives there
        self.most_bytes_at_once = 1 << 30
        self.opened: list[tuple[float, str]] = []  # when, where to
        self.transports: list[FakeTransport] = []
        self.at: list[tuple[float, Any]] = []  # (time, what to do)
        self._registered: dict[Any, selectors.SelectorKey] = {}

    def client(self, bootstrap: str = "bootstrap:9092", **settings: Any) -> NetworkClient:
        return self._made(NetworkClient(ClientConfig.of(bootstrap, **settings), **self.parts()))

    def cluster(self, bootstrap: str = "bootstrap:9092", **settings: Any) -> Cluster:
        return self._made(Cluster(ClientConfig.of(bootstrap, **settings), **self.parts()))

    @staticmethod
    def _made(client: ClientOrCluster) -> ClientOrCluster:
        _open_clients.append(client)
        return client

    def parts(self) -> dict[str, Any]:
        return {"clock": lambda: self.now, "connector": self, "selector": self, "random": lambda: self.seed}

    def later(self, seconds: float, action: Any) -> None:
        self.at.append((self.now + seconds, action))

    def live(self) -> list[FakeTransport]:
        return [transport for transport in self.transports if not transport.closed]

    def kafka_of(self, address: Address) -> FakeKafka:
        return self.others.get(address.sockaddr[0], self.kafka)

    # Connector.

    resolve_blocks = False

    def resolve(self, host: str, port: int) -> list[Address]:
        found = self.hosts.get(host, [host])
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [Address(socket.AF_INET6 if ":" in ip else socket.AF_INET, (ip, port)) for ip in found]

    def open(self, address: Address) -> FakeTransport:
        ip, port = address.sockaddr[:2]
        self.opened.append((self.now, ip))
        nodes = {name: node for node, name in self.kafka_of(address).addresses.items()}
        transport = FakeTransport(self, address, nodes.get((ip, port), 1), self.fates.get(ip, "works"))
        self.transports.append(transport)
        return transport

    # Selector.

    def register(self, fileobj: Any, events: int, data: Any = None) -> None:
        assert fileobj not in self._registered
        self._registered[fileobj] = selectors.SelectorKey(fileobj, -1, events, data)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> None:
        assert fileobj in self._registered
        self._registered[fileobj] = selectors.SelectorKey(fileobj, -1, events, data)

    def unregister(self, fileobj: Any) -> None:
        del self._registered[fileobj]

    def select(self, timeout: float | None = None) -> list[tuple[Any, int]]:
        ready = self._ready()
        if not ready:
            assert timeout is not None
            until = self.now + timeout
            due = min((at for at, _ in self.at), default=until + 1)
            if due <= until:
                self.now = max(self.now, due)
                for event in [event for event in self.at if event[0] <= self.now]:
                    self.at.remove(event)
                    event[1]()
                ready = self._ready()
            else:
                self.now = until
        return ready

    def _ready(self) -> list[tuple[Any, int]]:
        found = []
        for key in list(self._registered.values()):
            if isinstance(key.fileobj, FakeTransport):
                events = key.fileobj.ready(key.events)
                if events:
                    found.append((key, events))
        return found

    def close(self) -> None:
        self._registered.clear()


@contextlib.contextmanager
def serve(kafka: FakeKafka, node_id: int = 1, advertise: bool = True) -> Any:
    """The broker on a real socket of this machine; gives (host, port), which it also advertises."""
    server = socket.create_server(("127.0.0.1", 0))
    address = server.getsockname()[:2]
    if advertise:
        kafka.addresses[node_id] = address
    conversations: list[socket.socket] = []

    def converse(connection: socket.socket) -> None:
        frames = _Frames()
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(65536):
                for frame in frames.feed(data):
                    for answer in kafka.handle(node_id, frame):
                        if answer == RESET:  # closed with no time to linger
                            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        if answer in (None, RESET):
                            return
                        connection.sendall(answer)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as brokers do: 40 ms an answer
                conversations.append(connection)
                threading.Thread(target=converse, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield address
    finally:
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        for connection in conversations:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        thread.join()


@contextlib.contextmanager
def serving(kafka: FakeKafka) -> Any:
    """The same for what takes bootstrap servers, such as a command: gives the broker, which has `bootstrap_servers`."""
    served: Any = kafka
    with serve(kafka) as (host, port):
        served.bootstrap_servers = f"{host}:{port}"
        yield served
