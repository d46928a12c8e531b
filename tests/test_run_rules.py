"""The rules of a run hold: proven on small runs of pytest beside this one."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import run_rules
from allowed_skips import ALLOWED, fail_on_skips, is_allowed
from long_files import SECONDS

TESTS = Path(__file__).parent
PYTEST = [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
PYTEST += ["-p", "no:kafkasource", "--continue-on-collection-errors"]


@pytest.fixture
def run(tmp_path):
    """`run(text, *arguments, **environment)`: pytest over a file of that text, under the rules of this folder."""

    def run(text, *arguments, skips=False, **environment):
        (tmp_path / "conftest.py").write_text(
            f"import sys; sys.path.insert(0, {str(TESTS)!r})\nfrom run_rules import *\ngive_signals_back()\n"
        )
        (tmp_path / "test_it.py").write_text("import os, signal, threading, time, pytest\n" + text)
        (tmp_path / "test_module.py").write_text("import pytest\npytest.importorskip('no_such_module')\n" * skips)
        (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n slow: s\n extended: e\n")
        known = {key: value for key, value in os.environ.items() if key not in ("CI", "KAFKASOURCE_SKIPS")}
        return subprocess.run(
            [*PYTEST, *arguments],
            cwd=tmp_path,
            env={key: value for key, value in known.items() if not key.startswith("PYTEST_")} | environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


SKIPS = """
@pytest.mark.skipif(True, reason="needs a JDK: this Java cannot run a source file")
def test_marked(): pass

def test_called():
    pytest.skip("needs a JDK: this Java cannot run a source file")

@pytest.fixture
def java(): pytest.skip("needs Java and the jars of Kafka 4.3.1: gone")

def test_fixture(java): pass

def test_there_is_no_such_case():
    pytest.skip("an older cluster")
"""


@pytest.mark.slow
def test_a_skip_that_no_row_allows_fails_where_it_should(run):
    done = run(SKIPS, skips=True, KAFKASOURCE_SKIPS="fail")
    assert "1 failed, 1 skipped, 3 errors" in done.stdout, done.stdout
    assert "tests/allowed_skips.py" in done.stdout
    assert re.search(r"ERROR test_module.py .*no_such_module", done.stdout)
    assert "5 skipped" in run(SKIPS, skips=True).stdout


@pytest.mark.parametrize(("word", "ci", "fails"), [("", "true", True), ("", "", False), ("allow", "true", False)])
def test_under_ci_a_skip_fails_unless_the_run_says_otherwise(monkeypatch, word, ci, fails):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("KAFKASOURCE_SKIPS", word)
    assert fail_on_skips() is fails


def test_every_row_of_the_table_is_of_a_skip_that_there_is():
    texts = "".join(path.read_text() for path in TESTS.rglob("*.py") if path != Path(__file__))
    reasons = re.findall(r'(?:pytest\.skip\(|reason=)"([^"]+)"', texts)
    assert [pattern for pattern in ALLOWED if not any(re.fullmatch(pattern, reason) for reason in reasons)] == []


def test_every_long_file_is_a_file_of_tests():
    assert [file for file in SECONDS if not (TESTS / file).is_file()] == []


@pytest.mark.parametrize("reason", ["", "needs a JDK", "an older cluster, and more", "xgroups came with 0.9"])
def test_a_reason_is_allowed_as_a_whole_only(reason):
    assert not is_allowed(reason)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [pytest.param((), marks=pytest.mark.extended), ("-n", "1")])
def test_a_test_that_hangs_ends_with_all_stacks_and_the_next_one_runs(run, arguments):
    text = """
def wait_in_a_thread(): time.sleep(60)

@pytest.mark.timeout(2)
def test_hangs():
    threading.Thread(target=wait_in_a_thread, daemon=True).start()
    threading.Event().wait()

def test_next(): pass
"""
    done = run(text, *arguments)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "Timeout" in done.stdout
    assert "in wait_in_a_thread" in done.stdout + done.stderr
    assert "threading.Event().wait()" in done.stdout


@pytest.mark.slow
def test_every_test_has_a_limit(run):
    text = """
def test_plain(request): assert request.node.get_closest_marker("timeout").args == (300,)

@pytest.mark.slow
@pytest.mark.extended
def test_extended(request): assert request.node.get_closest_marker("timeout").args == (3600,)

@pytest.mark.timeout(7)
def test_own(request): assert request.node.get_closest_marker("timeout").args == (7,)
"""
    assert "3 passed" in run(text).stdout


@pytest.mark.slow
def test_a_child_can_be_interrupted_where_the_run_ignores_it():
    """As a script's background job does: `nohup sh -c 'make unit &'`."""
    command = [sys.executable, "-m", "pytest", "-q", str(TESTS / "metrics" / "test_metrics_command.py")]
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command, "-k", "test_it_serves_until_it_is_ended"],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout[-3000:]


@pytest.mark.slow
def test_a_long_run_says_what_it_ran_and_how_long(run):
    done = run("def test_a(): time.sleep(0.1)\ndef test_b(): pass\n", KAFKASOURCE_TIMES="1")
    assert re.search(r"\d+ s  test_it.py: 2 passed\n +\d+ s of tests in \d+ s\n", done.stdout), done.stdout


def test_the_empty_folders_of_runs_that_were_killed_are_removed_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    for name in (f"x-{ended.pid}-empty", f"x-{ended.pid}-full/in", f"x-{os.getpid()}-runs", "x-mine-empty", "y-1-2"):
        (tmp_path / name).mkdir(parents=True)
    with run_rules.folder_of_this_run("x") as folder:
        names = {each.name for each in tmp_path.iterdir()}
        assert Path(folder).name in names
        assert names - {Path(folder).name} == {f"x-{ended.pid}-full", f"x-{os.getpid()}-runs", "x-mine-empty", "y-1-2"}
    assert not Path(folder).exists()
