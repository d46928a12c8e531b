"""A socket that is full, or empty, for the moment is no error."""

import socket

from kafkasource.kafka.network.sockets import PlaintextTransport


def test_a_full_socket_takes_nothing_and_an_empty_one_gives_nothing():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        transport = PlaintextTransport(ours)
        assert transport.receive_into(memoryview(bytearray(1))) is None
        while transport.send([memoryview(bytes(1 << 16))]):
            pass
