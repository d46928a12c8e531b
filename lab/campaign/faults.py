"""The table of faults, and the schedule that a seed draws from it. Pure: what carries a fault out is in `harms`.

Lanes run side by side, each with a schedule of its own: see `LANES`. The same seed
gives the same faults in the same order with the same pauses; the moments also depend on how long each one takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from lab.campaign import crash_points

NODES = (1, 2, 3)
LANES = ("brokers", "network", "application", "members")


@dataclass(frozen=True)
class Kind:
    """A row of the table."""

    name: str
    lane: str
    weight: int
    lasts_s: tuple[float, float] = (0.0, 0.0)  # for how long the fault stays, from and to
    variants: tuple[str, ...] = ("",)


ANSWERS = ("PRODUCE", "FETCH", "END_TXN", "INIT_PRODUCER_ID", "TXN_OFFSET_COMMIT", "OFFSET_COMMIT", "LIST_OFFSETS")
HARMS = ("cut", "stall", "truncate")

TABLE = (
    Kind("kill a broker", "brokers", 3, (0.5, 6)),
    Kind("hang a broker", "brokers", 3, (1, 12)),
    Kind("stop a broker", "brokers", 2, (0.5, 4)),
    Kind("move leaders", "brokers", 4),
    Kind("add a partition", "brokers", 1),
    Kind("upgrade a broker", "brokers", 1),
    Kind("reset connections", "network", 4),
    Kind("delay bytes", "network", 2, (1, 6)),
    Kind("swallow bytes", "network", 2, (0.5, 7)),
    Kind("thin line", "network", 2, (1, 6)),
    Kind("refuse connections", "network", 2, (0.5, 5)),
    Kind("lose an answer", "network", 8, variants=tuple(f"{api} {harm}" for api in ANSWERS for harm in HARMS)),
    Kind("kill a Python process", "application", 4),
    Kind("crash at a point", "application", 5, variants=crash_points.POINTS),
    Kind("kill the driver", "application", 2),
    Kind("hang a Python process", "application", 2, (1, 14)),
    Kind("kill an executor", "application", 2),
    Kind("hang an executor", "application", 1, (1, 14)),
    Kind("hang the driver", "application", 1, (1, 14)),
    Kind("stop the driver", "application", 1),
    Kind("kill a member", "members", 3, (0, 6)),
    Kind("hang a member", "members", 2, (1, 14)),
    Kind("a member leaves", "members", 2, (0, 6)),
)

BY_NAME = {kind.name: kind for kind in TABLE}


@dataclass(frozen=True)
class Fault:
    number: int  # in its lane, from 0
    lane: str
    kind: str
    variant: str
    node: int
    pause_s: float  # before it
    lasts_s: float
    draw: float  # in [0, 1): for what else is to be chosen, when it is known among what


def schedule(
    seed: int, lane: str, pauses_s: tuple[float, float] = (0.5, 3.0), *, table: Sequence[Kind] = TABLE
) -> Iterator[Fault]:
    """Without end."""
    random = Random(f"{seed} {lane}")
    kinds = [kind for kind in table if kind.lane == lane]
    number = 0
    while True:
        (kind,) = random.choices(kinds, [each.weight for each in kinds])
        yield Fault(
            number,
            lane,
            kind.name,
            random.choice(kind.variants),
            random.choice(NODES),
            round(random.uniform(*pauses_s), 3),
            round(random.uniform(*kind.lasts_s), 3),
            random.random(),
        )
        number += 1
