"""Passes the counts of the client on to a receiver, which `kafkasource.metrics` installs. It keeps no numbers.

One call a batch or request, none a record. Any thread may call. Without a receiver, a call does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias, TypeVar

Polled: TypeAlias = Iterable[tuple[str, tuple[str, ...], float]]
"""Gauges: name, values of the labels, value."""
Owner = TypeVar("Owner")


class Receiver(Protocol):
    """Takes the counts: the module `kafkasource.metrics` has these functions."""

    def count(self, name: str, amount: float = 1, *labels: str) -> None: ...
    def observe(self, name: str, seconds: float, *labels: str) -> None: ...
    def poll(self, owner: Owner, function: Callable[[Owner], Polled]) -> None: ...


_receiver: Receiver | None = None
always_polled: set[Callable[[], Polled]] = set()
"""Functions that give gauges of this process."""
kept: list[tuple[str, Callable[[], int]]] = []
"""What this process keeps for its next tasks, and a function that counts it."""


def install(receiver: Receiver) -> None:
    """Send all further counts to the receiver."""
    global _receiver
    _receiver = receiver


def count(name: str, amount: float = 1, *labels: str) -> None:
    """Add to a counter."""
    if _receiver is not None:
        _receiver.count(name, amount, *labels)


def observe(name: str, seconds: float, *labels: str) -> None:
    """Add to a histogram."""
    if _receiver is not None:
        _receiver.observe(name, seconds, *labels)


def poll(owner: Owner, function: Callable[[Owner], Polled]) -> None:
    """Offer gauges: the receiver asks `function(owner)` for them, while the owner lives."""
    if _receiver is not None:
        _receiver.poll(owner, function)


def poll_always(function: Callable[[], Polled]) -> None:
    """Offer gauges of the process itself. A second call with the same function changes nothing."""
    always_polled.add(function)


def keeps(what: str, number: Callable[[], int]) -> None:
    """Offer how many things of this kind the process keeps: each must reach a level and stay there. Several with the
    same name add up. Any thread may call `number`, in this process and in its forks."""
    kept.append((what, number))
