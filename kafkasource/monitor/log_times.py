"""From offsets to time: when did a log end where a query stands now? Interpolated between the ends that were seen.

As kafka-lag-exporter does it, so that both show the same number. Before the oldest end that was seen, the log is
assumed to have grown as fast as since. Where it has not grown since, the time is not known, only a lower bound: the
unread record was in the log already when its end was first seen. A record's timestamp, where the reader has fetched it,
counts as one more sight of the log.
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
            points[-1] = points[-1][0], end_offset
            return
        if len(points) > 1 and points[-1][1] == points[-2][1] == end_offset:
            points.pop()  # of a log that stands still its first and last sight are enough
        points.append((now_s, end_offset))
        if len(points) > _MOST_POINTS:  # every second one of the older half
            del points[1 : _MOST_POINTS // 2 : 2]

    def written(self, time_s: float, offset: int) -> None:
        """The record at `offset` was written then, by its timestamp. One that contradicts what was seen is ignored:
        producers write timestamps by their own clocks."""
        points = self._points
        place = sum(end <= offset for _, end in points)
        if place == len(points) or time_s > points[place][0] or (place and time_s < points[place - 1][0]):
            return
        points.insert(place, (time_s, offset))

    def at_least_behind(self, next_offset: int, now_s: float) -> float:
        """A lower bound of `seconds_behind`: since when the log is known to hold the record at `next_offset`."""
        seen_s = next((time_s for time_s, end in self._points if end > next_offset), now_s)
        return max(0.0, now_s - seen_s)

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
