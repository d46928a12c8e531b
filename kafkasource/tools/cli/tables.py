"""Tables on stdout: with rich on a terminal, if it is installed; else aligned columns, for people and `awk`.

On a terminal numbers have thousands separators, and sizes a unit (`1.2 MiB`); in a pipe or file they are plain. `-`
stands for unknown values.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kafkasource.escaping import escaped
from kafkasource.options.spelling import size
from kafkasource.tools.cli.terminal import beneath

Cell = str | int | None


class Bytes(int):
    """A size, which a terminal shows with a unit."""


def show(titles: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a table with a line of titles. A column whose cells are all numbers (or unknown) is flush right."""
    terminal = sys.stdout.isatty()
    numeric = [
        bool(rows) and all(isinstance(row[place], int) or row[place] is None for row in rows)
        for place in range(len(titles))
    ]
    texts = [[_text(cell, terminal) for cell in row] for row in rows]
    if not (terminal and _with_rich(titles, texts, numeric)):
        _plain(titles, texts, numeric)


def _text(cell: Cell, terminal: bool) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, Bytes) and terminal:
        return size(cell)
    if isinstance(cell, int):
        return f"{cell:,}" if terminal else str(cell)
    return escaped(cell, keep="")  # names come from the network


def _with_rich(titles: Sequence[str], texts: Sequence[Sequence[str]], numeric: Sequence[bool]) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title, right in zip(titles, numeric, strict=True):
        table.add_column(title, justify="right" if right else "left", overflow="fold")
    for row in texts:
        table.add_row(*map(Text, row))  # Text: otherwise a bracket in a name would be markup
    Console(file=beneath(sys.stdout)).print(table)
    return True


def _plain(titles: Sequence[str], texts: Sequence[Sequence[str]], numeric: Sequence[bool]) -> None:
    lines = [[title.upper() for title in titles], *texts]
    widths = [max(len(line[place]) for line in lines) for place in range(len(titles))]
    for line in lines:
        cells: list[str] = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        print("  ".join(cells).rstrip())
