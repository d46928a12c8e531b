"""Escapes what a command prints: others may have written parts of it.

Bytes of records are escaped where a terminal shows them. A pipe or a file gets them as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from kafkasource.errors import escaped


def escaped_bytes(data: bytes) -> bytes:
    r"""Bytes of a record; those that are no UTF-8 as `\x9b`."""
    return escaped(data.decode(errors="surrogateescape")).encode()


@contextmanager
def safe_output() -> Iterator[None]:
    """In this block whatever is printed to stdout and stderr is escaped first."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, _Safe(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def beneath(stream: TextIO) -> TextIO:
    """The stream as it is, for control sequences of our own."""
    return stream.stream if isinstance(stream, _Safe) else stream


def print_document(text: str, end: str = "\n") -> None:
    """Print what programs read: into a pipe or a file as it is."""
    print(text, end=end, file=sys.stdout if sys.stdout.isatty() else beneath(sys.stdout))


class _Safe:
    """A text stream."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.write(escaped(text))

    def writelines(self, lines: Iterable[str]) -> None:
        self.stream.writelines(map(escaped, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
