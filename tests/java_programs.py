"""The Java programs among the tests: they ask Kafka's own classes, which are the oracle for our bytes and tables.

Each program takes one command a line and answers each with one line.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import pytest

from kafkasource.testing.broker import JarsNotResolved, kafka_jars
from kafkasource.testing.broker.jvm.home import JavaNotFound, find_java

NEWEST = "4.3.1"
SPARK = "spark"  # in place of a release of Kafka: the jars in pyspark, with Avro's classes among them

# For a JVM of seconds or minutes: its second compiler costs more than it earns back, a third of the CPU of these tests.
SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


@cache
def jars(release: str) -> Path:
    """The folder of a Kafka's jars. Skips the test where there is no Java, or no network to fetch the jars with."""
    if release == SPARK:
        return Path(pytest.importorskip("pyspark").__file__).parent / "jars"
    try:
        return kafka_jars(release)
    except (JavaNotFound, JarsNotResolved) as error:
        pytest.skip(f"needs Java and the jars of Kafka {release}: {error}")


@cache
def compiled(program: Path, release: str) -> Path:
    """The folder of the program's classes, in this environment: compiled by the first run of the tests that needs them.

    Skips the test where there is no JDK.
    """
    source = program.read_bytes()
    folder = Path(sys.prefix) / "java-classes" / f"{release}-{hashlib.sha256(source).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    javac = find_java().resolve().with_name("javac")
    if not javac.exists():
        pytest.skip("needs a JDK: this Java has no javac")
    folder.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as partial:
        made = Path(partial) / "classes"
        command = [javac, "-J-XX:TieredStopAtLevel=1", "-d", made, "-cp", jars(release) / "*", program]
        run = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300, check=False)
        assert run.returncode == 0, run.stderr
        with contextlib.suppress(OSError):  # another process of these tests was first
            made.rename(folder)
    return folder


def ask_java(program: Path, commands: Iterable[Sequence[object]] = (), release: str = NEWEST) -> list[str]:
    """The lines that the program prints. Each call starts Java anew.

    `program`: a source file. `commands`: the words of each. Skips the test where there is no JDK.
    """
    class_path = f"{compiled(program, release)}{os.pathsep}{jars(release) / '*'}"
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    run = subprocess.run(
        [
            find_java(),
            "-Xmx256m",
            *SHORT_LIVED_JVM.split(),
            "-cp",
            class_path,
            quiet,
            program.stem,
        ],
        input="".join(" ".join(map(str, command)) + "\n" for command in commands),
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.split("\n")[:-1]
