import pytest

from kafkasource.tools.cli import tables
from kafkasource.tools.cli.tables import Bytes, show


def test_columns_line_up_and_numbers_are_flush_right(capsys):
    show(("topic", "offsets"), [("a", 5), ("long-name", 1200), ("c", None)])
    assert capsys.readouterr().out == "TOPIC      OFFSETS\na                5\nlong-name     1200\nc                -\n"


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"), (955, "955 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_258_291, "1.2 MiB"), (13 << 20, "13 MiB"),
        (5 << 30, "5.0 GiB"), (9000 << 40, "9000 TiB"), (None, "-"),
    ],
)  # fmt: skip
def test_a_terminal_is_shown_sizes_with_a_unit_and_a_pipe_gets_bytes(count, shown):
    cell = None if count is None else Bytes(count)
    assert tables._text(cell, terminal=True) == shown
    assert tables._text(cell, terminal=False) == ("-" if count is None else str(count))


def test_what_a_broker_says_cannot_write_to_the_terminal(capsys):
    show(("group",), [("evil\x1b[2J\r\u202e\n",)])
    assert capsys.readouterr().out.splitlines()[1] == r"evil\x1b[2J\x0d\u202e\x0a"


def test_a_table_of_no_rows_has_its_titles(capsys):
    show(("a", "b"), [])
    assert capsys.readouterr().out == "A  B\n"
