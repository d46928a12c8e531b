"""Clients whose clock stands, unless they wait."""

from __future__ import annotations

from kafkasource.formats.registry import RegistryClient, RegistryOptions


class Clock:
    """Seconds that pass while somebody sleeps, and no others."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


def a_client(url: str, clock: Clock | None = None, **options: str) -> RegistryClient:
    """`options`: with `_` for `.`."""
    clock = clock or Clock()
    named = {name.replace("_", "."): text for name, text in options.items()}
    return RegistryClient(RegistryOptions.of({"url": url, **named}), clock, clock.sleep, lambda: 0.5)
