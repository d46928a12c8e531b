"""Kafka's own record classes, for the suites that compare with them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

RELEASE = "4.3.1"
PROGRAM = Path(__file__).with_name("KafkaRecords.java")


@pytest.fixture(scope="session")
def kafka():
    """Asks the Java program a list of commands; each call starts it anew, which takes a second."""
    from kafkasource.broker import JarsNotResolved, kafka_jars
    from kafkasource.broker.java import JavaNotFound, find_java

    try:
        java, folder = find_java(), kafka_jars(RELEASE)
    except (JavaNotFound, JarsNotResolved) as error:
        pytest.skip(f"needs Java and the jars of Kafka {RELEASE}: {error}")

    def ask(commands):
        run = subprocess.run(
            [java, "-Xmx256m", "-cp", f"{folder}/*", PROGRAM],
            input="".join(" ".join(map(str, command)) + "\n" for command in commands),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if "jdk.compiler" in run.stderr:
            pytest.skip("needs a JDK: this Java cannot run a source file")
        assert run.returncode == 0, run.stderr
        return run.stdout.split("\n")[:-1]

    return ask
