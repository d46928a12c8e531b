"""When the progress of a command is shown, and when it would write over something else."""

import io
import os

import pytest

from kafkasource.tools.cli.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def on_a_terminal(monkeypatch):
    """To be called in the test itself, because pytest replaces stderr when the test begins."""

    def stderr():
        terminal = Terminal()
        monkeypatch.setattr("sys.stderr", terminal)
        return terminal

    return stderr


def test_output_into_a_pipe_has_no_bar_as_its_reader_may_write_to_the_same_terminal(on_a_terminal):
    stderr = on_a_terminal()
    reads, writes = os.pipe()
    with os.fdopen(writes, "w") as output, progress("records", 10, shares_with=output) as bar:
        bar.advance(5)
    os.close(reads)
    assert stderr.getvalue() == ""


def test_output_into_a_file_and_input_from_a_pipe_have_a_bar(on_a_terminal, tmp_path):
    stderr = on_a_terminal()
    with open(tmp_path / "output", "w") as output, progress("records", 10, shares_with=output) as bar:
        bar.advance(5)
    assert "records" in stderr.getvalue()
    shown = len(stderr.getvalue())
    reads, writes = os.pipe()
    with os.fdopen(reads) as given, progress("records", 10, shares_with=given) as bar:
        bar.advance(5)
    os.close(writes)
    assert "records" in stderr.getvalue()[shown:]
