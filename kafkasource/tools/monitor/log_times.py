"""From offsets to time: when did a log end at the offset that a query has read to? Interpolated between known ends.

This works as in kafka-lag-exporter, so both show the same number. Before the oldest known end, the log is assumed to
have grown at the same rate as after it. Where the log has not grown since, only a lower bound of the time is known:
the unread record was already in the log when its end was first seen. A record's timestamp that the reader has fetched
counts as one more known end.
"""

from __future__ import annotations

from itertools import pairwise

_MOST_POINTS = 240


class LogTimes:
    """The ends of one partition's log that were seen from time to time. Seconds of any clock."""

    def __init__(self) -> None:
        self._points: list[tuple[float, int]] = []  # time, end of the log (exclusive); both only grow

    def seen(self, now_s: float, end_offset: int) -> None:
        """The log ended there. An end below the last one belongs to another log, so start again."""
        points = self._points
        if points and end_offset < points[-1][1]:
            points.clear()
        if points and now_s <= points[-1][0]:
            points[-1] = points[-1][0], end_offset
            return
        if len(points) > 1 and points[-1][1] == points[-2][1] == end_offset:
            points.pop()  # for a log that does not grow, keep only the first and the last time
        points.append((now_s, end_offset))
        if len(points) > _MOST_POINTS:  # drop every second point of the older half
            del points[1 : _MOST_POINTS // 2 : 2]

    def written(self, time_s: float, offset: int) -> None:
        """The record at `offset` was written at this time, by its timestamp. A timestamp that contradicts the known
        ends is ignored: producers write timestamps by their own clocks."""
        points = self._points
        place = sum(end <= offset for _, end in points)
        if place == len(points) or time_s > points[place][0] or (place and time_s < points[place - 1][0]):
            return
        points.insert(place, (time_s, offset))

    def at_least_behind(self, next_offset: int, now_s: float) -> float:
        """A lower bound of `seconds_behind`: for how long the log is known to hold the record at `next_offset`."""
        seen_s = next((time_s for time_s, end in self._points if end > next_offset), now_s)
        return max(0.0, now_s - seen_s)

    def seconds_behind(self, next_offset: int, now_s: float) -> float | None:
        """How long ago the record at `next_offset` came. 0: there is none yet. None: not known."""
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
