"""Names to addresses, in threads of the process.

A name server that does not answer keeps `getaddrinfo` for half a minute, and the thread that asks serves all brokers.
So names are looked up in threads of their own. There is one set of threads for the process. Callers that ask for the
same name wait for the same answer, so attempts to connect to a broker whose name is not answered hold one thread,
however many there are.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from kafkasource.kafka.network.sockets import Address
from kafkasource.kafka.process import PerProcess

Resolve: TypeAlias = Callable[[str, int], list[Address]]
_Key: TypeAlias = tuple[Resolve, str, int]

_MOST_THREADS = 8


class Resolution:
    """A name that is looked up. `done` turns true in another thread; after that nothing changes."""

    def __init__(self, resolve: Resolve, host: str, port: int) -> None:
        self._resolve, self._host, self._port = resolve, host, port
        self.done = False
        self.addresses: list[Address] = []
        self.error: Exception | None = None
        self.waiting: list[Callable[[], None]] = []  # whom to tell, once; under the resolver's lock

    def run(self) -> None:
        try:
            self.addresses = self._resolve(self._host, self._port)
        except Exception as error:
            self.error = error
        self.done = True


class Resolver:
    """Any thread."""

    def __init__(self, most_threads: int = _MOST_THREADS) -> None:
        self._most_threads = most_threads
        self._lock = threading.Lock()
        self._threads = 0
        self._waiting: deque[tuple[_Key, Resolution]] = deque()
        self._known: dict[_Key, Resolution] = {}  # waiting or under way

    def ask(self, resolve: Resolve, host: str, port: int, told: Callable[[], None]) -> Resolution:
        """`told` is called when it is done, in a thread of the resolver's; it must not block. What is asked the same
        way for the same name is asked once."""
        key = resolve, host, port
        with self._lock:
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = Resolution(resolve, host, port)
                self._waiting.append((key, known))
                if self._threads < self._most_threads:
                    self._threads += 1
                    threading.Thread(target=self._run, name="kafkasource-resolver", daemon=True).start()
            known.waiting.append(told)
            return known

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                key, resolution = self._waiting.popleft()
            resolution.run()
            with self._lock:
                del self._known[key]
            for told in resolution.waiting:
                told()


def is_address(host: str) -> bool:
    """An IP address, which nobody needs to be asked about."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return True
    return False


_resolver = PerProcess(Resolver)


def process_resolver() -> Resolver:
    return _resolver.get()
