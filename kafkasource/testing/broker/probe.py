"""Checks that a broker is ready: one request on a connection of its own, in the version that every broker has served
since 0.8. No client's retries, caches and timeouts are between the broker and the answer."""

from __future__ import annotations

import socket

from kafkasource.errors import ProtocolError
from kafkasource.kafka.protocol.apis import FIND_COORDINATOR, METADATA, Api
from kafkasource.kafka.protocol.frames import decode_response, encode_request
from kafkasource.kafka.protocol.schema import Body
from kafkasource.types import Node

_NAME = "kafkasource-probe"
_MOST_BYTES = 64 << 20  # of a response, which has all topics


def probe(host: str, port: int, timeout_s: float) -> list[Node]:
    """The brokers that this broker knows to be alive. Raises OSError if it does not answer, ProtocolError if the answer
    is not Kafka's."""
    response = _ask(host, port, METADATA, {"topics": []}, timeout_s)
    return [Node(broker["node_id"], broker["host"], broker["port"]) for broker in response["brokers"]]


def ask_for_coordinator(host: str, port: int, timeout_s: float) -> None:
    """Have the broker make the topic of groups' offsets if it is not there; raises as `probe` does.

    A broker of 0.8 in a cluster without topics names no brokers, not even itself: its controller announces brokers only
    together with partitions.
    """
    _ask(host, port, FIND_COORDINATOR, {"key": _NAME}, timeout_s)


def _ask(host: str, port: int, api: Api, body: Body, timeout_s: float) -> Body:
    with socket.create_connection((host, port), timeout_s) as connection, connection.makefile("rb") as incoming:
        connection.settimeout(timeout_s)
        connection.sendall(encode_request(api, 0, 0, _NAME, body))
        size = int.from_bytes(incoming.read(4), "big")
        if size > _MOST_BYTES:
            raise ProtocolError(f"{host}:{port} does not speak Kafka's protocol (a response of {size} bytes)")
        return decode_response(api, 0, incoming.read(size))
