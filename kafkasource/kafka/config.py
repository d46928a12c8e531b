"""The settings with which a client reaches a cluster: plain values, pickled into tasks and used as a cache key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from kafkasource.errors import OptionError
from kafkasource.kafka.security.config import SecurityConfig

SERVERS_FORM = "host:port[,host:port...] with IPv6 addresses in brackets"
"""The text that `server_pairs` reads, for errors."""


@dataclass(frozen=True)
class ClientConfig:
    """Settings of one `Cluster`. Field by field the Java client's names (`kafka.request.timeout.ms`), in snake case."""

    bootstrap_servers: tuple[tuple[str, int], ...]  # (host, port), asked in random order
    client_id: str = "kafkasource"
    security: SecurityConfig = field(default_factory=SecurityConfig)
    request_timeout_ms: int = 30_000  # one request: from `send` to the response's last byte
    default_api_timeout_ms: int = 60_000  # one call of `Cluster` with its retries; the bootstrap's deadline too
    socket_connection_setup_timeout_ms: int = 10_000  # one address; doubles with each failure of the broker
    socket_connection_setup_timeout_max_ms: int = 30_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    connections_max_idle_ms: int = 540_000  # -1: never closed
    group_protocol: str = "classic"  # of the members of groups; or "consumer" (KIP-848)
    group_remote_assignor: str | None = None
    broker_version_fallback: str = "auto"  # what a broker is that answers ApiVersions with a close
    receive_message_max_bytes: int = 100 * 1024 * 1024
    receive_buffer_bytes: int = -1  # SO_RCVBUF; -1: the system's
    send_buffer_bytes: int = -1

    def __post_init__(self) -> None:
        if not self.bootstrap_servers:
            raise OptionError("option 'kafka.bootstrap.servers' is empty: give host:port,host:port")

    @classmethod
    def of(cls, bootstrap_servers: str, **settings: Any) -> ClientConfig:
        """Make a configuration without Spark's options: `ClientConfig.of("host:port,host:port", client_id="me")`."""
        try:
            servers = server_pairs(bootstrap_servers)
        except ValueError:
            raise OptionError(
                f"option 'kafka.bootstrap.servers': expected {SERVERS_FORM}, got {bootstrap_servers!r}"
            ) from None
        return cls(bootstrap_servers=servers, **settings)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> ClientConfig:
        """Take the client's part of parsed options (typed values by canonical name, as `options.parse` gives them)."""
        names = {field.name: "kafka." + field.name.replace("_", ".") for field in fields(cls)}
        plain = {field: options[name] for field, name in names.items() if name in options}
        return cls(security=SecurityConfig.from_options(options), **plain)


def server_pairs(text: str) -> tuple[tuple[str, int], ...]:
    """`host:port,[v6]:port` to pairs; the port is required, as Kafka requires it. Raises ValueError with the wrong
    item."""
    servers = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"(?:\w+://)?(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\[\]:/\s]+)):(\d{1,5})", item)
        if match is None or not 1 <= int(match[3]) <= 65535:
            raise ValueError(item)
        servers.append((match[1] or match[2], int(match[3])))
    if not servers:
        raise ValueError(text)
    return tuple(servers)


def backoff_ms(attempt: int, first_ms: int, most_ms: int, random: float) -> float:
    """How long to wait after failure number `attempt` (0 is the first): doubling, capped, spread by ±20 % (KIP-580).

    `random` is uniform in [0, 1). The cap holds before the spread, as in Java.
    """
    return min(first_ms * 2.0 ** min(attempt, 62), most_ms) * (0.8 + 0.4 * random)
