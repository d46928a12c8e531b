"""THE table of parts, and how a budget is divided among the parts in use. Pure.

A part that no task uses lends its share to the parts in use, in equal shares. The parts that publish hold data that
waits to be written. Together they never take more than `PUBLISH_LIMIT` of the budget, whatever is lent to them: a
process that writes needs the rest for the rows that come in, and for encoding them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

MIB = 1 << 20
LEAST_BUDGET_BYTES = 4 * MIB
"""With less, reading would take more requests than records are worth, and no batch of ordinary size would fit."""

PUBLISH_LIMIT = Fraction(1, 2)


@dataclass(frozen=True)
class Share:
    """One part of the budget."""

    name: str
    ratio: Fraction
    publishes: bool
    holds: str
    bound_by: str


RECEIVE, DECODED, ACCUMULATOR = "receive", "decoded", "accumulator"

PARTS = (
    Share(
        RECEIVE,
        Fraction(1, 3),
        False,
        "what brokers have sent and is not decoded yet",
        "a fetch asks for at most a third, and so do all fetches in flight together",
    ),
    Share(
        DECODED,
        Fraction(1, 3),
        False,
        "rows as Arrow batches on their way to Spark, and scratch memory of decompression",
        "answers are decoded in pieces of at most a sixteenth",
    ),
    Share(
        ACCUMULATOR,
        Fraction(1, 3),
        True,
        "record batches that brokers have not acknowledged, of several clusters in equal shares",
        "the buffer pool of each cluster: a task that finds it full waits, and so does its reading",
    ),
)
BY_NAME = {share.name: share for share in PARTS}


def divide(total: int, leases: Mapping[str, int]) -> dict[str, int]:
    """Bytes for each part in use: its own share, and its part of what the others lend. At most `total` together.

    `leases`: how many leases each part has. A part with none is left out.
    """
    used = [share for share in PARTS if leases.get(share.name)]
    if not used:
        return {}
    lent = sum((share.ratio for share in PARTS if share not in used), Fraction(0)) / len(used)
    ratios = {share.name: share.ratio + lent for share in used}
    publishing = [share.name for share in used if share.publishes]
    excess = sum((ratios[name] for name in publishing), Fraction(0)) - PUBLISH_LIMIT
    if excess > 0:
        for name in publishing:
            ratios[name] -= excess / len(publishing)
    return {name: int(total * ratio) for name, ratio in ratios.items()}
