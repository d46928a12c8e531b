"""The line: the tests' proxy with a rate and a round trip, and stalls in place of lost packets, as a process.

A lost packet costs TCP a round trip until it is sent again (fast retransmit), and meanwhile the bytes behind it wait in
the receiver. So each 1,460 bytes, one of 1,000 by chance, stop their connection's direction for a round trip. What TCP
would do besides, halve its window, is left out: with today's congestion control that costs less than the stall.

The proxy accepts bytes as fast as the kernel gives them, so the sizes of socket buffers play no part here.
"""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

PACKET_BYTES = 1460


@dataclass(frozen=True)
class Case:
    """A line. `round_trip_ms` counts both ways; `mbit_per_s` is for each direction; `loss` of packets."""

    round_trip_ms: float
    mbit_per_s: float
    loss: float = 0.0

    @property
    def bytes_per_s(self) -> float:
        return self.mbit_per_s * 1e6 / 8

    def __str__(self) -> str:
        lossy = f", {self.loss:.1%} lost" if self.loss else ""
        return f"{self.round_trip_ms:g} ms, {self.mbit_per_s:g} Mbit/s{lossy}"


NEAR = None  # no delay, no limit


class FarLine:
    """A `with` block: the proxy's process, and its address. `become` ends all connections."""

    def __enter__(self) -> FarLine:
        spawn = multiprocessing.get_context("spawn")
        self._told, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self.port = int(self._told.recv())
        return self

    def __exit__(self, *_: object) -> None:
        self._told.close()
        self._process.terminate()
        self._process.join()

    def lead_to(self, port: int) -> None:
        self._ask(("upstream", port))

    def become(self, case: Case | None) -> None:
        self._ask(("case", case))

    def _ask(self, what: tuple[str, object]) -> None:
        self._told.send(what)
        self._told.recv()


def _serve(told: Connection) -> None:
    from proxy import Proxy

    class Line(Proxy):
        case: Case | None = None
        random = random.Random(7)

        def _throttle(self, size: int, to_broker: bool) -> None:
            super()._throttle(size, to_broker)
            if self.case is not None and self.case.loss:
                packets = max(1, size // PACKET_BYTES)
                lost = sum(self.random.random() < self.case.loss for _ in range(packets))
                time.sleep(lost * self.case.round_trip_ms / 1000)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Line() as line:
        told.send(line.address[1])
        while True:
            try:
                what, value = told.recv()
            except EOFError:
                return
            _change(line, what, value)
            told.send(None)


def _change(line: Any, what: str, value: Any) -> None:
    if what == "upstream":
        line.upstream = ("127.0.0.1", value)
    else:
        line.case = value
        line.delay_s = 0.0 if value is None else value.round_trip_ms / 2000
        line.bytes_per_s = line.from_broker_bytes_per_s = None if value is None else value.bytes_per_s
    line.reset_all()
