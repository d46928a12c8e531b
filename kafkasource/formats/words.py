"""The words of a kernel's programs, while they are written: int32, with constants, and places in the schema."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence

from kafkasource.errors import SchemaError

MOST_WORDS = 1_000_000


class Words:
    def __init__(self, code: Sequence[int] = ()) -> None:
        self.code = array("i", code)
        self._constants = bytearray()
        self._known: dict[bytes, int] = {}  # constants and where they are
        self._places: list[tuple[int, str]] = []  # from which pc on, the place in the schema

    @property
    def pc(self) -> int:
        """The place of the next word."""
        return len(self.code)

    @property
    def constants(self) -> memoryview:
        return memoryview(bytes(self._constants) or b"\0")

    def emit(self, *words: int) -> int:
        """Append words and return where they are."""
        pc = self.pc
        if pc + len(words) > MOST_WORDS:
            raise SchemaError(f"{self.place_of(pc)}: the schema is too large to compile")
        self.code.extend(words)
        return pc

    def constant(self, data: bytes) -> int:
        """Add bytes to the constants and return where they are."""
        if data not in self._known:
            self._known[data] = len(self._constants)
            self._constants += data
        return self._known[data]

    def at(self, place: str) -> None:
        """Note that the next words are about this place."""
        self._places.append((self.pc, place))

    def place_of(self, pc: int) -> str:
        """The place in the schema that a word is about."""
        index = bisect_right(self._places, pc, key=lambda place: place[0]) - 1
        return self._places[index][1] if index >= 0 else "$"


def int32(words: Sequence[int]) -> memoryview:
    """Return words as a kernel takes them."""
    return memoryview(array("i", words))
