"""Cutting ranges for `minPartitions` and `maxRecordsPerPartition`: a pure function, with the numbers of the JVM
connector (KafkaOffsetRangeCalculator), so that a job that moves here gets the same tasks.

Unlike there a batch read's `earliest` to `latest` counts as what it held when planned: the JVM connector takes it as
one offset, and `maxRecordsPerPartition` alone does nothing to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kafkasource.types import OffsetRange


def split(
    ranges: Sequence[OffsetRange], *, at_least: int | None = None, max_size: int | None = None
) -> list[OffsetRange]:
    """Pieces of the ranges, in their order, without empty ones: none above `max_size` offsets, about `at_least` in all.

    Pieces of one range differ by one offset at most, the larger ones last. Rounding decides how many there are: a few
    more or less than `at_least`.
    """
    pieces = [one for one in ranges if one.size > 0]
    if max_size is not None:
        pieces = [piece for one in pieces for piece in one.split(math.ceil(one.size / max_size))]
    if at_least is None or len(pieces) >= at_least:
        return pieces
    return _share_out(pieces, at_least)


def _share_out(ranges: Sequence[OffsetRange], pieces: int) -> list[OffsetRange]:
    """Cut the large ranges by their sizes. What is too small to be cut counts as one and is left out of the shares."""
    total = sum(one.size for one in ranges)
    whole = [one for one in ranges if _share(one.size, total, pieces) == 1]
    stay_whole = {one.topic_partition for one in whole}
    left = max(pieces - len(whole), 1)
    total -= sum(one.size for one in whole)
    return [
        piece
        for one in ranges
        for piece in one.split(1 if one.topic_partition in stay_whole else _share(one.size, total, left))
    ]


def _share(size: int, total: int, pieces: int) -> int:
    return max(math.floor(size / total * pieces + 0.5), 1)  # rounded as Java does: halves up
