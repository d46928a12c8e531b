"""Processes that pyspark's own scripts start, and Python environments for them: this one's packages, with and without
kafkasource."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
START_LIMIT_S = 120  # for a hang; they start in seconds
_OURS = ("kafkasource", "pyspark_pykafka", "__editable__", "_editable")
_OF_THE_TESTS_PYTHON = {"PYTHONPATH", "VIRTUAL_ENV", "PYSPARK_DRIVER_PYTHON", "SPARK_REMOTE"}


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def linked_spark_home(home: Path) -> Path:
    """A new folder with links to Spark's: executors of local-cluster make their folders in SPARK_HOME/work."""
    home.mkdir()
    for each in spark_home().iterdir():
        if each.name != "work":
            (home / each.name).symlink_to(each)
    return home


class SparkProcess:
    """It leads a process group: executors of a worker are in the worker's, and their Python workers end with them."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path, name: str) -> None:
        """`command`: one of Spark's scripts with its arguments. FOLDER/NAME.log gets what it prints."""
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(spark_home() / "bin" / command[0]), *command[1:]],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError):
                if condition():
                    return
            time.sleep(0.1)
        pytest.fail(f"it did not start: {self.log.read_text()}")

    def kill(self) -> None:
        """kill -9 to it and to its executors, as a lost machine looks from outside."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> SparkProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def environment_with(python: str) -> dict[str, str]:
    """Environment variables: driver and workers use this Python, and find no kafkasource by the test's own path."""
    kept = {name: value for name, value in os.environ.items() if name not in _OF_THE_TESTS_PYTHON}
    return {**kept, "SPARK_HOME": str(spark_home()), "PYSPARK_PYTHON": python}


def python_environment(folder: Path, *, with_kafkasource: bool) -> Path:
    """A virtual environment with links to the packages of this one; its folder."""
    venv.create(folder, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    # More than one where the environment is another release of pyspark on top of the rest: the first one counts.
    behind_each_other = [Path(folder) for folder in sys.path if Path(folder).name == "site-packages"]
    found = {each.name: each for folder in reversed(behind_each_other) for each in folder.iterdir()}
    for name, each in found.items():
        if not name.startswith((*_OURS, "a1_coverage", "base.pth")):
            (packages / name).symlink_to(each)
    if with_kafkasource:
        for package in ("kafkasource", "pyspark_pykafka"):
            (packages / package).symlink_to(ROOT / package)
    return folder


def python_of(environment: Path) -> str:
    return str(environment / "bin" / Path(sys.executable).name)
