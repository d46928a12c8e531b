"""A program while it is written, and the place in the schema that each of its words is about."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from kafkasource.errors import SchemaError
from kafkasource.typed.encoding import kernel

MOST_WORDS = 1_000_000


class Program:
    """What the kernel runs for each row."""

    def __init__(self) -> None:
        self.code = array("i")
        self.depth = 0  # of lists within lists
        self._constants = bytearray()
        self._known: dict[bytes, int] = {}  # constants and where they are
        self._places: list[tuple[int, str]] = []  # from which pc on, the place in the schema

    @property
    def pc(self) -> int:
        """Of the next instruction."""
        return len(self.code)

    def emit(self, *words: int) -> int:
        """Append an instruction; its pc."""
        if len(self.code) + len(words) > MOST_WORDS:
            raise SchemaError(f"{self.place_of(self.pc)}: the schema is too large to compile")
        pc = self.pc
        self.code.extend(words)
        return pc

    def constant(self, data: bytes) -> int:
        """Where in the constants these bytes are."""
        if data not in self._known:
            self._known[data] = len(self._constants)
            self._constants += data
        return self._known[data]

    def at(self, place: str) -> None:
        """The next instructions are about this place."""
        self._places.append((self.pc, place))

    def place_of(self, pc: int) -> str:
        index = bisect_right(self._places, pc, key=lambda place: place[0]) - 1
        return self._places[index][1] if index >= 0 else "$"

    def encoding(self, columns: int) -> kernel.Encoding:
        words = memoryview(bytes(self.code)).cast("i")
        return kernel.Encoding(words, memoryview(bytes(self._constants) or b"\0"), self.depth, columns)
