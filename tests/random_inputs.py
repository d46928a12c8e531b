"""How many random inputs a test gets: a quarter of them in `make test`, all in `make extended`."""

from __future__ import annotations

import os

SHARE = 1.0 if os.environ.get("KAFKASOURCE_EXAMPLES") == "all" else 0.25
LEAST = 5


def examples(count: int) -> int:
    """`count` in `make extended`, a quarter of it else: each run draws others, so many runs see many."""
    return max(min(count, LEAST), int(count * SHARE))
