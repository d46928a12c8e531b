"""Shows the progress of long work on stderr, as a bar if that is a terminal.

With rich if it is installed; else as one line that is written over a few times a second.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from kafkasource.tools.cli.terminal import beneath, safe_output

if TYPE_CHECKING:
    from rich import progress as rich_progress


class Progress(Protocol):
    def advance(self, count: int) -> None:
        """Add `count` to the work that is done."""


class _Silent:
    def advance(self, count: int) -> None:
        pass


class _Line:
    """`    1,200 of 5,000 records`, at most ten times a second."""

    def __init__(self, what: str, total: int | None) -> None:
        self._what, self._total = what, total
        self._done, self._shown_s = 0, 0.0

    def advance(self, count: int) -> None:
        self._done += count
        if time.monotonic() - self._shown_s >= 0.1:
            self._shown_s = time.monotonic()
            self.show()

    def show(self, end: str = "") -> None:
        total = "" if self._total is None else f" of {self._total:,}"
        print(f"\r    {self._done:,}{total} {self._what}", end=end, file=beneath(sys.stderr), flush=True)


class _Rich:
    def __init__(self, bar: rich_progress.Progress, task: rich_progress.TaskID) -> None:
        self._bar, self._task = bar, task

    def advance(self, count: int) -> None:
        self._bar.advance(self._task, count)


def _feeds_a_pipe(stream: TextIO) -> bool:
    try:
        return stream.writable() and stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # of a test, without a file
        return False


def say_starting(what: str) -> None:
    """A JVM takes ten seconds to start, and longer on a busy machine."""
    print(f"pykafka: starting {what} ...", file=sys.stderr, flush=True)


@contextmanager
def progress(what: str, total: int | None, *, shares_with: TextIO | None = None) -> Iterator[Progress]:
    """Shows how far some work is. `total` None: not known. Silent if `shares_with` is a terminal, too: it must not
    write over output or input there. Silent also if it is output into a pipe, whose reader may write to the terminal
    (`pykafka read events | grep error`).
    """
    if not sys.stderr.isatty() or (shares_with is not None and (shares_with.isatty() or _feeds_a_pipe(shares_with))):
        yield _Silent()
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
    except ImportError:
        line = _Line(what, total)
        try:
            yield line
        finally:
            line.show(end="\n")
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(what), TimeRemainingColumn())
    with Bar(*columns, console=Console(file=beneath(sys.stderr)), transient=True) as bar, safe_output():
        yield _Rich(bar, bar.add_task(what, total=total))
