"""A history with what several rules look up, built once: memory linear in the number of records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lab.campaign.checker.history import Copy, History, Record, Written


class Index:
    def __init__(self, history: History) -> None:
        self.history = history
        self.written: dict[bytes, Written] = {each.value: each for each in history.written}
        self.copies: dict[str, Copy] = {each.name: each for each in history.copies}
        self.written_logs = {each.log for each in history.written}
        self._first: dict[str, dict[bytes, Record]] = {}
        self._by_partition: dict[str, dict[int, list[Record]]] = {}

    def log(self, name: str) -> Sequence[Record]:
        return self.history.logs.get(name, ())

    def first(self, name: str) -> dict[bytes, Record]:
        """A log's records by value: where each came first."""
        if name not in self._first:
            found: dict[bytes, Record] = {}
            for record in self.log(name):
                found.setdefault(record.value, record)
            self._first[name] = found
        return self._first[name]

    def by_partition(self, name: str) -> dict[int, list[Record]]:
        """A log's partitions, each in the order of offsets."""
        if name not in self._by_partition:
            found = defaultdict(list)
            for record in self.log(name):
                found[record.partition].append(record)
            for records in found.values():
                records.sort(key=lambda record: record.offset)
            self._by_partition[name] = dict(found)
        return self._by_partition[name]
