"""Changes of keys and renegotiations, by OpenSSL's own server: Python's cannot do them."""

from __future__ import annotations

import os
import re
import select
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificate_maker import authority
from tls_peers import stream

from kafkasource.kafka.security.tls.stream import TlsStream

TIMEOUT_S = 20.0


class Program:
    """`openssl s_server`, and our stream connected to it. Lines to it are sent as they are, or are commands."""

    def __init__(self, folder: Path, version: str) -> None:
        tool = shutil.which("openssl")
        if tool is None:
            pytest.skip("needs the program openssl")
        root = authority()
        broker = root.issue("b", ("broker.test",))
        (folder / "broker.pem").write_text(broker.chain_pem + broker.key_pem())
        # A server without tickets sends nothing between the handshake and the test's bytes.
        quiet = ("-naccept", "1", "-num_tickets", "0")
        self.process = subprocess.Popen(
            [tool, "s_server", "-accept", "127.0.0.1:0", *quiet, "-cert", folder / "broker.pem", version],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        port = int(self.until(rb"ACCEPT .*:(\d+)\n")[1])
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self.client = stream({"ssl.ca.pem": root.pem})
        while not self.client.handshake():
            self.turn()
        flush(self.client, self.socket)

    def until(self, pattern: bytes) -> re.Match[bytes]:
        """Wait for output of the program that matches."""
        assert self.process.stdout is not None
        seen = b""
        while not (match := re.search(pattern, seen)):
            assert select.select([self.process.stdout], [], [], TIMEOUT_S)[0], seen
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            assert data, seen
            seen += data
        return match

    def tell(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def turn(self) -> None:
        flush(self.client, self.socket)
        self.client.feed(self.socket.recv(1 << 16))

    def read_line(self) -> bytes:
        target, line = bytearray(1000), b""
        while not line.endswith(b"\n"):
            got = self.client.read_into(memoryview(target))
            assert got != 0
            line += target[: got or 0]
            if got is None:
                self.turn()
        return line

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        if hasattr(self, "socket"):
            self.socket.close()


def flush(client: TlsStream, sock: socket.socket) -> None:
    while out := client.outgoing():
        client.sent(sock.send(out))


@pytest.fixture
def start(tmp_path) -> Iterator:
    begun = []

    def begin(version: str) -> Program:
        program = Program.__new__(Program)
        begun.append(program)
        program.__init__(tmp_path, version)
        return program

    yield begin
    for program in begun:
        if hasattr(program, "process"):
            program.close()


@pytest.mark.parametrize("command", [b"k", b"K"], ids=["the server's keys", "both sides' keys"])
def test_keys_that_change_in_the_middle_lose_nothing_in_either_direction(start, command):
    program = start("-tls1_3")
    for number in range(3):
        program.tell(command)
        program.turn()  # the program drops what it reads together with a command
        assert program.client.read_into(memoryview(bytearray(100))) is None
        program.tell(b"from the server %d" % number)
        assert program.read_line() == b"from the server %d\n" % number
        sent = b"from the client %d\n" % number
        assert program.client.write([sent]) == len(sent)
        flush(program.client, program.socket)
        program.until(sent)


def test_a_renegotiation_is_refused_by_bytes_that_a_read_leaves(start):
    program = start("-tls1_2")
    program.tell(b"first")
    assert program.read_line() == b"first\n"
    assert not program.client.outgoing()
    program.tell(b"R")
    program.client.feed(program.socket.recv(1 << 16))
    assert program.client.read_into(memoryview(bytearray(100))) is None
    assert len(program.client.outgoing()) > 0  # the alert no_renegotiation
