"""A program while it is written, and the place in the schema that each of its words is about."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence

from kafkasource.errors import SchemaError
from kafkasource.formats.encoding import kernel

MOST_WORDS = 1_000_000


class Program:
    """The words that the kernel runs for each row."""

    def __init__(self) -> None:
        self.code = array("i")
        self.depth = 0  # of lists within lists
        self._constants = bytearray()
        self._known: dict[bytes, int] = {}  # constants and where they are
        self._places: list[tuple[int, str]] = []  # from which pc on, the place in the schema

    @property
    def pc(self) -> int:
        """The place of the next instruction."""
        return len(self.code)

    def emit(self, *words: int) -> int:
        """Append an instruction; its pc."""
        if len(self.code) + len(words) > MOST_WORDS:
            raise SchemaError(f"{self.place_of(self.pc)}: the schema is too large to compile")
        pc = self.pc
        self.code.extend(words)
        return pc

    def constant(self, data: bytes) -> int:
        """Add bytes to the constants and return where they are."""
        if data not in self._known:
            self._known[data] = len(self._constants)
            self._constants += data
        return self._known[data]

    def names(self, numbers: Sequence[tuple[str, int]]) -> list[int]:
        """The words of an ENUM or NAME: of each text where it is, its size and its number; by size, then by bytes."""
        by_size = sorted((len(text.encode()), text.encode(), number) for text, number in numbers)
        return [word for size, text, number in by_size for word in (self.constant(text), size, number)]

    def at(self, place: str) -> None:
        """The next instructions are about this place."""
        self._places.append((self.pc, place))

    def place_of(self, pc: int) -> str:
        index = bisect_right(self._places, pc, key=lambda place: place[0]) - 1
        return self._places[index][1] if index >= 0 else "$"

    def encoding(self, columns: int) -> kernel.Encoding:
        words = memoryview(bytes(self.code)).cast("i")
        return kernel.Encoding(words, memoryview(bytes(self._constants) or b"\0"), self.depth, columns)


def matched(names: Sequence[str], known: Sequence[str], owner: str, place: str) -> dict[str, int]:
    """Of each known field that a column has, which of the column's `names` it is: the same, else the same in any case,
    as in Spark. SchemaError for a name that is none. `owner`: what has the known fields, for errors."""
    found: dict[str, int] = {}
    for number, name in enumerate(names):
        alike = [each for each in known if each.lower() == name.lower()]
        same = [each for each in alike if each == name] or alike
        if len(same) != 1 or same[0] in found:
            raise SchemaError(
                f"{place}: the column has a field {name!r}, and {owner} has "
                + ("none of this name" if not same else "several that it may be")
                + f" (it has {', '.join(known[:20])}). Leave the field out, or name it as the schema does"
            )
        found[same[0]] = number
    return found
