"""On what it ran: the machine and the versions of everything that took part."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

PACKAGES = ("pyspark", "pyarrow", "confluent-kafka", "kafka-python", "aiokafka", "google-crc32c", "cramjam")


def machine() -> dict[str, str]:
    return {
        "cpu": _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "load before": " ".join(f"{each:.1f}" for each in os.getloadavg()),
    }


def versions(kafka: str) -> dict[str, str]:
    from kafkasource.kafka.records import COMPILED

    found = {
        "kafkasource": _commit(),
        "kernel": "compiled" if COMPILED else "interpreted",
        "kafka": kafka,
        "python": platform.python_version(),
        "java": _java(),
        "jvm connector": "4.2.0",
    }
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _commit() -> str:
    """The commit, with a + where the tree differs from it; the version where there is no git."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"], cwd=here, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"


def _java() -> str:
    from kafkasource.testing.broker.jvm.home import find_java

    done = subprocess.run([str(find_java()), "-version"], capture_output=True, text=True, timeout=30)
    return (done.stderr.splitlines() or ["unknown"])[0].strip()


def _field(file: str, name: str) -> str:
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
