"""Parts that the tables share: options of many cases, and short ways to write JSON and expectations."""

from __future__ import annotations

import json

from parity import T0, Expect, fails

EARLIEST = {"startingOffsets": "earliest"}
MINE = {"subscribe": "$mine", **EARLIEST}  # a topic of the case's own, from its start
GO_ON = {**MINE, "failOnDataLoss": "false"}

LOST = "Some data may have been lost"
ALL = [{"numbers": {"0": 101, "1": 11, "2": 1}}]  # where `$numbers` ends


def each(*values: int, topic: str = "$numbers") -> str:
    """The JSON that gives each partition of a topic a value: `{"topic":{"0":v0,"1":v1}}`."""
    return json.dumps({topic: {str(partition): value for partition, value in enumerate(values)}})


def at(*seconds: float) -> str:
    """The JSON of `each` with times: seconds after T0."""
    return each(*(T0 + round(1000 * second) for second in seconds))


def after(seconds: float) -> str:
    """A time as the options take it."""
    return str(T0 + round(1000 * seconds))


def from_each(*starts: int, to: tuple[int, ...] = (101, 11, 1), topic: str = "numbers") -> dict[str, range]:
    """The offsets of each partition from a start to an end, as `Expect.offsets` wants them."""
    spans = zip(range(len(starts)), starts, to, strict=True)
    return {f"{topic}-{partition}": range(start, end) for partition, start, end in spans if start < end}


def refused(theirs: str, ours: str) -> dict[str, Expect]:
    """Both refuse, each in words of its own."""
    return {"theirs": fails(theirs), "ours": fails(ours)}
