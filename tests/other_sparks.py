"""Spark of another release than the one that runs the tests: its Python, and jobs that run in it.

The Makefile makes the environments, each in its folder. Elsewhere a test that needs one of them skips.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = {"4.0": ".venv-4.0", "4.1": ".venv-4.1", "4.2": ".venv", "4.3": ".venv-newest"}


def python_of(release: str) -> Path:
    """The interpreter that has this release of pyspark (`4.0`). Skips the test where there is none."""
    python = ROOT / FOLDERS[release] / "bin" / "python"
    if not python.exists():
        pytest.skip("the environment with this release of Spark is not here")
    return python


def run_on(release: str, app: Path, *arguments: object, **environment: str) -> Any:
    """Run the program `app` with this release, wait for its end, and return its last line, which is JSON."""
    python = str(python_of(release))
    # The archive of Spark's classes that the flags name is that of the release that runs the tests.
    jvm = " ".join(
        flag for flag in os.environ.get("SPARK_SUBMIT_OPTS", "").split() if not flag.startswith("-XX:SharedArchiveFile")
    )
    done = subprocess.run(
        [python, str(app), *map(str, arguments)],
        env={
            **{name: value for name, value in os.environ.items() if name not in ("SPARK_REMOTE", "SPARK_HOME")},
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
            "PYTHONPATH": str(ROOT),
            "SPARK_SUBMIT_OPTS": jvm,
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"on Spark {release}:\n{done.stdout}{done.stderr}"
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["release"].startswith(release + ".")
    return answer
