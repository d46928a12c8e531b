"""Shows the progress of long work on stderr, as a line that is written over, if that is a terminal."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from kafkasource.tools.cli.terminal import beneath


class ProgressLine:
    """Prints `    1,200 of 5,000 records`, at most ten times a second, or nothing if not `visible`."""

    def __init__(self, unit: str, total: int | None, visible: bool) -> None:
        self._unit, self._total, self._visible = unit, total, visible
        self._done, self._shown_s = 0, 0.0

    def advance(self, count: int) -> None:
        """Add `count` to the work that is done."""
        self._done += count
        if time.monotonic() - self._shown_s >= 0.1:
            self._shown_s = time.monotonic()
            self.show()

    def show(self, end: str = "") -> None:
        if self._visible:
            total = "" if self._total is None else f" of {self._total:,}"
            print(f"\r    {self._done:,}{total} {self._unit}", end=end, file=beneath(sys.stderr), flush=True)


def _feeds_a_pipe(stream: TextIO) -> bool:
    try:
        return stream.writable() and stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # of a test, without a file
        return False


def say_starting(server: str) -> None:
    """A JVM takes ten seconds to start, and longer on a busy machine."""
    print(f"pykafka: starting {server} ...", file=sys.stderr, flush=True)


@contextmanager
def progress(unit: str, total: int | None, *, shares_with: TextIO | None = None) -> Iterator[ProgressLine]:
    """Shows how much work is done. `total` None: unknown. Silent if `shares_with` is a terminal, too: it must not
    write over output or input there. Silent also if it is output into a pipe, whose reader may write to the terminal
    (`pykafka read events | grep error`).
    """
    shared = shares_with is not None and (shares_with.isatty() or _feeds_a_pipe(shares_with))
    line = ProgressLine(unit, total, sys.stderr.isatty() and not shared)
    try:
        yield line
    finally:
        line.show(end="\n")
