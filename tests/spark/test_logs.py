"""KAFKASOURCE_LOG makes a process speak that nobody has set up; a process that is set up keeps its own handlers."""

import os
import subprocess
import sys

import pytest

SAY = """
import logging
{before}
import kafkasource
for level in ("debug", "info", "warning"):
    getattr(logging.getLogger("kafkasource.sink"), level)(level)
logging.getLogger("somebody.else").info("not ours")
"""


def said(level, before=""):
    environment = {name: value for name, value in os.environ.items() if name != "KAFKASOURCE_LOG"}
    if level is not None:
        environment["KAFKASOURCE_LOG"] = level
    command = [sys.executable, "-c", SAY.format(before=before)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr.splitlines()


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (None, ["warning"]),  # Python's own
        ("DEBUG", ["debug", "info", "warning"]),
        ("info", ["info", "warning"]),
        ("ERROR", []),
    ],
)
def test_our_lines_from_that_level_on_are_on_stderr(level, expected):
    assert [line.rpartition(" ")[2] for line in said(level)] == expected


@pytest.mark.parametrize("before", ["", "logging.basicConfig()"])
@pytest.mark.parametrize("level", [None, "WARNING"])
def test_what_others_have_named_does_not_drive_the_terminal_that_shows_the_log(before, level):
    before += "\nname = 'a\\x1b]0;owned\\x07\\u202eb'"
    say = "import kafkasource\nlogging.getLogger('kafkasource.client').warning('broker %s, %d', name, 7)"
    lines = said(level, before=f"{before}\n{say}")
    assert [line for line in lines if line.endswith(r"broker a\x1b]0;owned\x07\u202eb, 7")]
    assert all(line.isprintable() for line in lines)


def test_a_line_tells_when_which_process_and_who():
    (line,) = said("WARNING")
    assert line.split()[2].isdigit()
    assert line.endswith(" WARNING kafkasource.sink: warning")


def test_a_process_with_handlers_of_its_own_says_it_once():
    lines = said("INFO", before="logging.basicConfig(format='mine: %(message)s')")
    assert lines == ["mine: info", "mine: warning"]


def test_what_is_no_level_is_warned_of_and_changes_nothing():
    first, *rest = said("loud")
    assert "KAFKASOURCE_LOG=loud is not a level" in first
    assert rest == ["warning"]
