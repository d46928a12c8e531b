"""From offsets to time: when did a log end where a query stands now? Interpolated between the ends that were seen.

As kafka-lag-exporter does it, so that both show the same number: no record is fetched for it. Before the oldest end
that was seen the log is taken to have grown as fast as since; where it has not grown since, nothing can be said.
"""

from __future__ import annotations

from itertools import pairwise

_MOST_POINTS = 240


class LogTimes:
    """Ends of one partition's log, as seen from time to time; seconds of any clock."""

    def __init__(self) -> None:
        self._points: list[tuple[float, int]] = []  # time, end of the log (exclusive); both only grow

    def seen(self, now_s: float, end_offset: int) -> None:
        """The log ended there. An end below the last one is another log: begin anew."""
        points = self._points
        if points and end_offset < points[-1][1]:
            points.clear()
        if points and now_s <= points[-1][0]:
            return
        if len(points) > 1 and points[-1][1] == points[-2][1] == end_offset:
            points.pop()  # of a log that stands still its first and last sight are enough
        points.append((now_s, end_offset))
        if len(points) > _MOST_POINTS:  # every second one of the older half
            del points[1 : _MOST_POINTS // 2 : 2]

    def seconds_behind(self, next_offset: int, now_s: float) -> float | None:
        """How long ago the record at `next_offset` came, 0 where there is none yet; None: not known."""
        points = self._points
        if not points:
            return None
        (first_s, first), (last_s, last) = points[0], points[-1]
        if next_offset >= last:
            return 0.0
        if next_offset < first:
            if last == first:
                return None
            came_s = first_s - (first - next_offset) * (last_s - first_s) / (last - first)
        else:
            came_s = next(
                a_s + (next_offset - a) * (b_s - a_s) / (b - a)
                for (a_s, a), (b_s, b) in pairwise(points)
                if a <= next_offset < b
            )
        return max(0.0, now_s - came_s)
