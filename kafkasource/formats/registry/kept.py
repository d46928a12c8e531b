"""Keeps a registry's answers in a process: found ones for ever, missing ones for a short time, both bounded.

However many threads ask for a key, one of them asks the registry, and the others wait for its answer. Found answers
never change (a registry never gives an id to another schema), so the only reason to forget one is room.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from kafkasource.errors import RegistryError, SchemaNotFound
from kafkasource.kafka.process import Recent

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MOST_BYTES = 64 << 20
MOST_MISSING = 10_000


class KeptAnswers(Generic[K, V]):
    """Thread-safe. The lock is never held while the registry is asked."""

    def __init__(
        self,
        size_of: Callable[[V], int],
        missing_s: float,
        most_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`size_of`: bytes of an answer; `missing_s`: for how long the registry's "there is none" is believed."""
        self._missing_s = missing_s
        self._clock = clock
        self._lock = threading.Lock()
        self._found: Recent[K, V] = Recent(most_bytes, size_of=size_of)
        self._missing: Recent[K, tuple[float, SchemaNotFound]] = Recent(MOST_MISSING)
        self._asked: dict[K, _Question[V]] = {}

    def get(self, key: K, ask: Callable[[], V]) -> V:
        """The key's answer. `ask` may wait and raise RegistryError: then all who wait for the key get that error.

        `ask` may call this method for other keys only where they never wait for this one.
        """
        while True:
            with self._lock:
                answer = self._found.use(key)
                if answer is not None:
                    return answer
                self._check_missing(key)
                question = self._asked.get(key)
                asks = question is None
                if question is None:
                    question = self._asked[key] = _Question()
            if asks:
                return self._ask(key, question, ask)
            question.ended.wait()
            if question.error is not None:
                raise type(question.error)(*question.error.args)  # its own, as a traceback belongs to one thread
            if question.answers:
                return question.answers[0]
            # The thread that asked was interrupted: the next one asks.

    def known(self, key: K) -> V | None:
        """The key's answer, if it is kept."""
        return self._found.get(key)

    def put(self, key: K, answer: V) -> None:
        """An answer that came with another question."""
        self._found.put(key, answer)

    def _ask(self, key: K, question: _Question[V], ask: Callable[[], V]) -> V:
        try:
            answer = ask()
        except RegistryError as error:
            with self._lock:
                question.error = error
                if isinstance(error, SchemaNotFound) and self._missing_s > 0:
                    kept = type(error)(*error.args)  # without the traceback, which holds what the thread had
                    self._missing.put(key, (self._clock() + self._missing_s, kept))
            raise
        else:
            with self._lock:
                question.answers.append(answer)
                self._found.put(key, answer)
            return answer
        finally:
            with self._lock:
                del self._asked[key]
            question.ended.set()

    def _check_missing(self, key: K) -> None:
        found = self._missing.get(key)
        if found is not None and self._clock() < found[0]:
            raise type(found[1])(*found[1].args)


class _Question(Generic[V]):
    """One that a thread asks, and others wait for. Neither answer nor error when it has ended: it was interrupted."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.answers: list[V] = []  # at most one
        self.error: RegistryError | None = None
