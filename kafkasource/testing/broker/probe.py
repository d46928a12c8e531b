"""Checks that a broker is ready, with a Metadata request built by hand: tests of the client must not depend on the
client.

Metadata v0: every broker since 0.8 answers it (integers big-endian; a string is its int16 length and its bytes). The
response has all topics, which we ignore; a broker here has few.

    request   int32 size | int16 api_key=3 | int16 version=0 | int32 correlation_id | string client_id | int32 topics=0
    response  int32 size | int32 correlation_id | int32 count
              | count × (int32 node_id, string host, int32 port) | topics
"""

from __future__ import annotations

import socket
import struct

from kafkasource.types import Node

CORRELATION_ID = 0x6B61
MAX_RESPONSE_BYTES = 64 << 20
_CLIENT_ID = b"kafkasource-probe"


def _request(api_key: int, body: bytes) -> bytes:
    request = struct.pack(">hhih", api_key, 0, CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID + body
    return struct.pack(">i", len(request)) + request


REQUEST = _request(3, struct.pack(">i", 0))
COORDINATOR_REQUEST = _request(10, struct.pack(">h", len(_CLIENT_ID)) + _CLIENT_ID)  # for a group without members


def probe(host: str, port: int, timeout_s: float) -> list[Node]:
    """The brokers that this broker knows to be alive. Raises OSError if it does not answer, ValueError if the answer is
    not Kafka's."""
    return decode_brokers(_ask(host, port, REQUEST, timeout_s))


def ask_for_coordinator(host: str, port: int, timeout_s: float) -> None:
    """Have the broker make the topic of groups' offsets if it is not there; raises as `probe` does.

    A broker of 0.8 in a cluster without topics names no brokers, not even itself: its controller announces brokers only
    together with partitions.
    """
    _ask(host, port, COORDINATOR_REQUEST, timeout_s)


def _ask(host: str, port: int, request: bytes, timeout_s: float) -> bytes:
    with socket.create_connection((host, port), timeout_s) as connection:
        connection.settimeout(timeout_s)
        connection.sendall(request)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        if not 8 <= size <= MAX_RESPONSE_BYTES:
            raise ValueError(f"{host}:{port} does not speak Kafka's protocol (a response of {size} bytes)")
        return _receive(connection, size)


def decode_brokers(response: bytes) -> list[Node]:
    """The brokers in a Metadata v0 response without its size; ValueError on any other bytes."""
    try:
        correlation_id, count = struct.unpack_from(">ii", response)
        if correlation_id != CORRELATION_ID or not 0 <= count <= len(response):
            raise ValueError("not the answer to a Metadata request")
        brokers, pos = [], 8
        for _ in range(count):
            (node_id,) = struct.unpack_from(">i", response, pos)
            host, pos = _string(response, pos + 4)
            (port,) = struct.unpack_from(">i", response, pos)
            pos += 4
            brokers.append(Node(node_id, host, port))
    except struct.error as short:
        raise ValueError("a Metadata response cut short") from short
    return brokers


def _string(data: bytes, pos: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, pos)
    end = pos + 2 + length
    if length < 0 or end > len(data):
        raise ValueError("a Metadata response cut short")
    return data[pos + 2 : end].decode(), end


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("the broker closed the connection")
        data += piece
    return data
