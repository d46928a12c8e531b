"""The Java programs among the tests: they ask Kafka's own classes, which are the oracle for our bytes and tables.

Each program takes one command a line and answers each with one line.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import pytest

from kafkasource.broker import JarsNotResolved, kafka_jars
from kafkasource.broker.java import JavaNotFound, find_java

NEWEST = "4.3.1"


@cache
def jars(release: str) -> Path:
    """The folder of a Kafka's jars. Skips the test where there is no Java, or no network to fetch the jars with."""
    try:
        return kafka_jars(release)
    except (JavaNotFound, JarsNotResolved) as error:
        pytest.skip(f"needs Java and the jars of Kafka {release}: {error}")


def ask_java(program: Path, commands: Iterable[Sequence[object]] = (), release: str = NEWEST) -> list[str]:
    """The lines that the program prints. Each call starts Java anew, which takes a second.

    `program`: a source file. `commands`: the words of each. Skips the test where there is no JDK.
    """
    run = subprocess.run(
        [find_java(), "-Xmx256m", "-cp", jars(release) / "*", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", program],
        input="".join(" ".join(map(str, command)) + "\n" for command in commands),
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    if "jdk.compiler" in run.stderr:
        pytest.skip("needs a JDK: this Java cannot run a source file")
    assert run.returncode == 0, run.stderr
    return run.stdout.split("\n")[:-1]
