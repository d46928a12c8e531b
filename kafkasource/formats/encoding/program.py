"""A program that encodes, while a format's compiler writes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kafkasource.errors import SchemaError
from kafkasource.formats.encoding import kernel
from kafkasource.formats.encoding import opcodes as op
from kafkasource.formats.words import Words, int32


class Program(Words):
    """The words that the kernel runs for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0  # of lists within lists

    def names(self, numbers: Sequence[tuple[str, int]]) -> list[int]:
        """The words of an ENUM or NAME: of each text where it is, its size and its number; by size, then by bytes."""
        by_size = sorted((len(text.encode()), text.encode(), number) for text, number in numbers)
        return [word for size, text, number in by_size for word in (self.constant(text), size, number)]

    def encoding(self, columns: int) -> kernel.Encoding:
        return kernel.Encoding(int32(self.code), self.constants, self.depth, columns)


class Compiler:
    """Writes the program of one column; each format has a subclass."""

    def __init__(self, prefix: bytes) -> None:
        """`prefix`: in front of each record."""
        self.program = Program()
        self.may_fail: list[str] = []  # as of `ColumnEncoder`
        self._depth = 0
        if prefix:
            self._bytes(prefix)

    def _bytes(self, data: bytes) -> None:
        self.program.emit(op.CONST, self.program.constant(data), len(data))

    def _required(self, may_be_null: bool, column: int, place: str) -> None:
        """Make a null an error of its row. A null row has no record."""
        if column:
            self.program.emit(op.REQUIRED, column)
        if may_be_null:
            self.may_fail.append(place)

    def _jump(self, *words: int) -> int:
        """Emit an instruction whose last word is a pc that `_land` fills in; return where that word is."""
        return self.program.emit(*words, 0) + len(words)

    def _land(self, *jumps: int) -> None:
        for word in jumps:
            self.program.code[word] = self.program.pc

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        self.program.depth = max(self.program.depth, self._depth)
        yield
        self._depth -= 1

    @contextmanager
    def _items(self, column: int, place: str, begin: int = op.PARTS, following: int = op.NEXT_PART) -> Iterator[None]:
        """Run the instructions that this block emits for each item of a list."""
        end = self._jump(begin, column)
        first = self.program.pc
        with self._deeper():
            yield
        self.program.at(place)
        self.program.emit(following, first)
        self._land(end)


def matched(names: Sequence[str], known: Sequence[str], owner: str, place: str) -> dict[str, int]:
    """Find which of the column's `names` each known field is: the same, else the same in any case, as in Spark.
    SchemaError for another name. `owner`: what has the known fields, for errors."""
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
