"""A proxy that makes a real Kafka answer as a hosted service does. Each service has a profile: what other clients'
trackers, the services' documents and their answers to ApiVersions say of it.

The broker must advertise the proxy's address. No producer with acks=0 may come through here: it gets no answer.
"""

from __future__ import annotations

import itertools
import struct
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from proxy import Harm, Proxy
from proxy_frames import whole_frames

from kafkasource.kafka.protocol.apis import (
    API_VERSIONS,
    APIS,
    DESCRIBE_CLUSTER,
    DESCRIBE_LOG_DIRS,
    FETCH,
    FIND_COORDINATOR,
    METADATA,
    PRODUCE,
    Api,
)
from kafkasource.kafka.protocol.frames import decode_response, encode_response
from kafkasource.kafka.protocol.schema import Body

UNKNOWN_VERSION = 99
CLIENTS = (b"kafkasource", b"rdkafka")  # their ids
AGENTS = range(1001, 1004)


@dataclass(frozen=True)
class Profile:
    """`versions`: by API key, those that ApiVersions names; the connection ends at any other. None: as the broker."""

    versions: Mapping[int, tuple[int, int]] | None = None
    newest_api_versions: int = API_VERSIONS.versions[1]
    resets: bool = False  # at a newer ApiVersions; else it answers UNSUPPORTED_VERSION
    hidden: frozenset[int] = frozenset()  # API keys
    agents: bool = False  # each Metadata answer names another node as the leader of everything
    refused: Mapping[Api, int] = field(default_factory=dict)  # the error code of the whole answer
    delay_s: Mapping[Api, float] = field(default_factory=dict)
    throttle_ms: Mapping[Api, int] = field(default_factory=dict)


# aiokafka #945, kafka-python #2602, franz-go #1025, sarama #2470
EVENT_HUBS = Profile(
    versions={
        **{0: (3, 7), 1: (4, 6), 2: (0, 7), 3: (0, 5), 8: (0, 8), 9: (0, 8), 10: (0, 4), 11: (0, 7), 12: (0, 4)},
        **{13: (0, 4), 14: (0, 5), 15: (0, 5), 16: (0, 4), 17: (0, 1), 18: (0, 3), 19: (0, 6), 20: (0, 2)},
        **{22: (0, 1), 23: (0, 0), 32: (0, 2), 36: (0, 1), 37: (0, 1), 42: (0, 1)},
    },
    newest_api_versions=3,
    resets=True,
    throttle_ms={PRODUCE: 200},
)
# akhq #1113
MSK_SERVERLESS = Profile(
    versions={
        **{0: (7, 9), 1: (10, 12), 2: (5, 6), 3: (7, 11), 8: (6, 8), 9: (5, 7), 10: (2, 3), 11: (4, 7), 12: (2, 4)},
        **{13: (2, 4), 14: (2, 5), 15: (2, 5), 16: (2, 4), 17: (1, 1), 18: (2, 3), 19: (3, 7), 20: (3, 6)},
        **{22: (1, 4), 23: (2, 4), 24: (1, 3), 25: (1, 3), 26: (1, 3), 28: (2, 3), 32: (2, 4), 36: (1, 2)},
        **{37: (1, 3), 42: (1, 2), 44: (0, 1), 47: (0, 0), 60: (0, 0)},
    },
    newest_api_versions=3,
)
CLOUD = Profile(refused={DESCRIBE_LOG_DIRS: 31}, throttle_ms={PRODUCE: 300, FETCH: 200})
# platformatic/kafka #51, redpanda PR 26968
REDPANDA = Profile(
    versions={
        **{0: (0, 7), 1: (4, 11), 2: (0, 4), 3: (0, 7), 8: (1, 7), 9: (1, 7), 10: (0, 3), 11: (0, 6), 12: (0, 4)},
        **{13: (0, 4), 14: (0, 4), 15: (0, 5), 16: (0, 4), 17: (0, 1), 18: (0, 3), 19: (0, 6), 20: (0, 5)},
        **{21: (0, 2), 22: (0, 4), 23: (0, 3), 24: (0, 3), 25: (0, 3), 26: (0, 3), 28: (0, 3), 32: (0, 4)},
        **{35: (0, 2), 36: (0, 2), 37: (0, 3), 42: (0, 2), 44: (0, 1), 47: (0, 0), 60: (0, 0), 61: (0, 0)},
        **{65: (0, 0), 66: (0, 0)},
    },
    newest_api_versions=3,
)
# Its page "Protocol and Feature Support"
WARPSTREAM = Profile(hidden=frozenset({21, 23, 35, 44, 61, 68, 69}), agents=True, delay_s={PRODUCE: 0.4, FETCH: 0.15})


class HostedKafka(Proxy):
    def __init__(self, profile: Profile) -> None:
        super().__init__()
        self.profile = profile
        self.leaders = itertools.cycle(AGENTS)

    def _harms(self) -> tuple[Harm, Harm]:
        conversation = _Conversation(self)
        return conversation.to_broker, conversation.to_client

    def serves(self, key: int, version: int) -> bool:
        least, most = (self.profile.versions or {}).get(key, (0, -1))
        return self.profile.versions is None or least <= version <= most

    def edit(self, api: Api, body: Body) -> None:
        """Change the body of an answer to what the service would say."""
        profile = self.profile
        if api is API_VERSIONS and not body["error_code"]:
            body["api_keys"] = [row for row in map(self._limited, body["api_keys"]) if row is not None]
        if api in profile.refused and "error_code" in body:
            body |= {"error_code": profile.refused[api], "results": []}
        if api in profile.throttle_ms:
            body["throttle_time_ms"] = profile.throttle_ms[api]
        if profile.agents:
            self._name_agents(api, body)

    def _limited(self, row: Body) -> Body | None:
        """A row of ApiVersions, in the versions that the service and the broker serve."""
        key, least, most = row["api_key"], row["min_version"], row["max_version"]
        if self.profile.versions is not None:
            lowest, highest = self.profile.versions.get(key, (0, -1))
            least, most = max(least, lowest), min(most, highest)
        if key in self.profile.hidden or least > most:
            return None
        return row | {"min_version": least, "max_version": most}

    def _name_agents(self, api: Api, body: Body) -> None:
        host, port = self.address
        leader = next(self.leaders)
        if api in (METADATA, DESCRIBE_CLUSTER):
            name = "node_id" if api is METADATA else "broker_id"
            (node,) = body["brokers"]
            body |= {"brokers": [node | {name: agent} for agent in AGENTS], "controller_id": leader}
            for partition in itertools.chain(*(topic["partitions"] for topic in body.get("topics", ()))):
                partition |= {"leader_id": leader, "replica_nodes": [leader], "isr_nodes": [leader]}
        elif api is FIND_COORDINATOR:
            for row in body.get("coordinators") or [body]:
                row |= {"node_id": leader, "host": host, "port": port}


class _Conversation:
    """One connection; each direction has a thread of its own."""

    def __init__(self, proxy: HostedKafka) -> None:
        self._proxy = proxy
        self._asked: deque[tuple[int, int]] = deque()  # API key and version
        self._requests, self._answers = bytearray(), bytearray()

    def to_broker(self, data: bytes) -> tuple[bytes, bool]:
        profile, passed = self._proxy.profile, b""
        for frame in whole_frames(self._requests, data):
            key, version = struct.unpack_from(">4xhh", frame)
            if not frame.startswith(CLIENTS, 14):  # the broker itself: the answer passes as it is
                version = UNKNOWN_VERSION
            elif key == API_VERSIONS.key and version > profile.newest_api_versions:
                if profile.resets:
                    return passed, True
                version = UNKNOWN_VERSION  # the broker refuses it, as the service does
                frame = frame[:6] + struct.pack(">h", version) + frame[8:]
            elif not self._proxy.serves(key, version):
                return passed, True
            self._asked.append((key, version))
            passed += frame
        return passed, False

    def to_client(self, data: bytes) -> tuple[bytes, bool]:
        passed = b""
        for frame in whole_frames(self._answers, data):
            key, version = self._asked.popleft()
            api = APIS.get(key)
            if api is not None and api.versions[0] <= version <= api.versions[1]:
                time.sleep(self._proxy.profile.delay_s.get(api, 0))
                body = decode_response(api, version, frame[4:])
                self._proxy.edit(api, body)
                frame = encode_response(api, version, int.from_bytes(frame[4:8], "big"), body)
            passed += frame
        return passed, False
