"""What holds for every run of the tests: no unseen skip or warning, no test that hangs, Ctrl-C works, long files first,
a long run says its times, and which tests coverage counts.

Hooks of pytest, taken in by conftest.py.

A hanging test ends after its limit with the stacks of all threads (pytest-timeout), and the run goes on. Limits are for
hangs, not for speed: ten times what a test takes on two cores, and more.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import jvm_connector
import pytest
from allowed_skips import ENVIRONMENT, fail_on_skips, is_allowed
from hypothesis import HealthCheck, settings
from long_files import SECONDS
from random_inputs import examples

# A machine that has much else to do fails no test: how long one example takes says nothing here.
settings.register_profile(
    "kafkasource", max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("kafkasource")

LIMITS_S = {"extended": 3600, "slow": 900, "": 300}  # by the first mark that a test has; its fixtures' time is in it
TIMES = "KAFKASOURCE_TIMES"  # 1: what ran and how long, by file, when the run ends


def give_signals_back() -> None:
    """A script's background jobs ignore SIGINT, and so would every process that a test starts and interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def folder_of_this_run(prefix: str) -> Iterator[str]:
    """A folder for temporary files, with a short path. Removes the empty folders of runs that were killed, too."""
    for old in Path(tempfile.gettempdir()).glob(f"{prefix}-*-*"):
        pid = old.name.removeprefix(f"{prefix}-").partition("-")[0]
        if pid.isdecimal() and not _runs(int(pid)):
            with contextlib.suppress(OSError):
                old.rmdir()
    name = f"{prefix}-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=name, ignore_cleanup_errors=True) as folder:
        yield folder


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


# Beside Spark and real brokers, warnings come from pyspark, py4j, pandas and other clients, in whatever version is
# installed, and from their sockets, which are collected anywhere. They are shown. A warning in a line of ours is an
# error there, too.
WITH_OTHERS = pytest.mark.filterwarnings("default", "error:::kafkasource")


# Loops over bytes: counting lines would take nearly twice their time, and what they run is mostly run by others, too.
NOT_COUNTED = ("fuzz", "protocol", "records")
TESTS = Path(__file__).parent

# Brokers that take much to start: the files that name one of them run in one process of a run, one after the other.
SHARED_BROKERS = ("three_brokers", "secured_broker")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    _leave_out_what_this_spark_lacks(config, items)
    _skip_without_the_jvm_connector(items)
    folders = tuple(f"{TESTS / folder}{os.sep}" for folder in NOT_COUNTED)
    for item in items:
        if str(item.path).startswith(folders):
            item.add_marker("no_cover")
        if item.get_closest_marker("spark") or item.get_closest_marker("broker"):
            item.add_marker(WITH_OTHERS)
        if item.get_closest_marker("timeout") is None:
            limit_s = next(LIMITS_S[mark] for mark in LIMITS_S if not mark or item.get_closest_marker(mark))
            item.add_marker(pytest.mark.timeout(limit_s))
    items.sort(key=_seconds_of_its_file, reverse=True)  # stable: tests of a file stay in their order


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """`--dist loadfile` with the files that share brokers taken for one."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class WholeFiles(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return _shared_by(super()._split_scope(nodeid), config.rootpath)

    return WholeFiles(config, log)


@functools.cache
def _shared_by(file, root):
    """The brokers that the file shares with others; else the file."""
    text = (root / file).read_text(encoding="utf-8") if (root / file).is_file() else ""
    return next((brokers for brokers in SHARED_BROKERS if brokers in text), file)


def _leave_out_what_this_spark_lacks(config, items):
    needs = {item: [mark.args[0] for mark in item.iter_markers("needs_spark")] for item in items}
    if any(needs.values()):
        from spark_releases import runs_here  # imports pyspark

        left_out = [item for item, rows in needs.items() if not all(map(runs_here, rows))]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in left_out]


def _skip_without_the_jvm_connector(items):
    needing = [item for item in items if item.get_closest_marker("jvm_connector")]
    if needing and jvm_connector.release() is None:
        for item in needing:
            item.add_marker(pytest.mark.skip(reason=jvm_connector.NO_RELEASE))


def _seconds_of_its_file(item):
    return SECONDS.get(item.path.relative_to(TESTS).as_posix(), 0) if item.path.is_relative_to(TESTS) else 0


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    _fail_if_skipped(outcome.get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    outcome = yield
    _fail_if_skipped(outcome.get_result())  # a module that importorskip has left out


def _fail_if_skipped(report):
    if report.skipped and not hasattr(report, "wasxfail") and fail_on_skips():
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not is_allowed(reason):
            report.outcome = "failed"
            report.longrepr = (
                f"{reason}\nA skip is a failure here ({ENVIRONMENT}=fail, or CI): install what is missing, or say in"
                " tests/allowed_skips.py why nothing is lost."
            )


_began_s = time.monotonic()


def pytest_terminal_summary(terminalreporter):
    if os.environ.get(TIMES) != "1":
        return
    seconds, outcomes = defaultdict(float), defaultdict(lambda: defaultdict(int))
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                file = report.location[0]
                seconds[file] += report.duration
                if outcome:
                    outcomes[file][outcome] += 1
    terminalreporter.section("what ran, and how long")
    for file in sorted(seconds, key=lambda one: -seconds[one]):
        counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes[file].items()))
        terminalreporter.write_line(f"{seconds[file]:7.0f} s  {Path(file)}: {counts}")
    wall_s = time.monotonic() - _began_s
    terminalreporter.write_line(f"{sum(seconds.values()):7.0f} s of tests in {wall_s:.0f} s")
