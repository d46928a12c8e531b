"""Prints tables on stdout: aligned columns, for people and `awk`.

On a terminal numbers have thousands separators, and sizes a unit (`1.2 MiB`); in a pipe or file they are plain. `-`
stands for unknown values.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kafkasource.errors import escaped
from kafkasource.options.spelling import size

Cell = str | int | None


class Bytes(int):
    """A size, which a terminal shows with a unit."""


def show(titles: Sequence[str], rows: Sequence[Sequence[Cell]], optional: str = "") -> None:
    """Print a table with a line of titles. A column whose cells are all numbers (or unknown) is flush right. The column
    `optional` is left out where every cell of it is unknown."""
    if optional and all(row[titles.index(optional)] is None for row in rows):
        place = titles.index(optional)
        titles = [*titles[:place], *titles[place + 1 :]]
        rows = [[*row[:place], *row[place + 1 :]] for row in rows]
    terminal = sys.stdout.isatty()
    numeric = [
        bool(rows) and all(isinstance(row[column], int) or row[column] is None for row in rows)
        for column in range(len(titles))
    ]
    texts = [[_text(cell, terminal) for cell in row] for row in rows]
    lines = [[title.upper() for title in titles], *texts]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    for line in lines:
        cells = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        print("  ".join(cells).rstrip())


def _text(cell: Cell, terminal: bool) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, Bytes) and terminal:
        return size(cell)
    if isinstance(cell, int):
        return f"{cell:,}" if terminal else str(cell)
    return escaped(cell, keep="")  # names come from the network
