"""Ends a streaming query between two micro-batches when a file appears (`stopFile`).

`StreamingQuery.stop()` cancels the micro-batch that runs; the next run writes its rows again, so at least once means
twice. No call of Spark waits for the micro-batch. But Spark asks the reader for the next micro-batch's end only after
it committed the last one. So the reader can hold a query: once the file exists, it answers that there is nothing new,
and removes the file.
When the file is gone, a call of `stop()` cancels nothing.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


class StopFile:
    """The file of one query. Reader process, one thread."""

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(path)
        self._held = False

    def held(self) -> bool:
        """Must the query plan no further micro-batch? A held query stays held until it is started again."""
        if not self._held and self._path is not None and self._path.exists():
            self._held = True
            with suppress(OSError):
                self._path.unlink()
        return self._held
