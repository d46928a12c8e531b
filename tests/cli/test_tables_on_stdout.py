from kafkasource.cli.tables import show


def test_columns_line_up_and_numbers_are_flush_right(capsys):
    show(("topic", "offsets"), [("a", 5), ("long-name", 1200), ("c", None)])
    assert capsys.readouterr().out == "TOPIC      OFFSETS\na                5\nlong-name     1200\nc                -\n"


def test_what_a_broker_says_cannot_write_to_the_terminal(capsys):
    show(("group",), [("evil\x1b[2J\r\u202e\n",)])
    assert capsys.readouterr().out.splitlines()[1] == r"evil\x1b[2J\x0d\u202e\x0a"


def test_a_table_of_no_rows_has_its_titles(capsys):
    show(("a", "b"), [])
    assert capsys.readouterr().out == "A  B\n"
