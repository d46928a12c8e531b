"""How many things this process keeps for its next tasks, as gauges: each must reach a level and stay there.

Whoever keeps something says so once, when its module is imported: `keeps("producers", count)`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from kafkasource.metrics.registry import Polled, poll_always

_counts: list[tuple[str, Callable[[], int]]] = [("python_blocks", sys.getallocatedblocks)]


def keeps(what: str, count: Callable[[], int]) -> None:
    """`count` may be called from any thread, in this process and in its forks. Several with the same name add up."""
    _counts.append((what, count))


def _gauges() -> Polled:
    for what, count in _counts:
        yield "kafkasource_kept", (what,), count()


poll_always(_gauges)
