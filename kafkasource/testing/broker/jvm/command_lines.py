"""The command lines that run Kafka's classes of one release for one cluster."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Jvm:
    java: Path
    jars: Path  # the folder
    folder: Path  # the cluster's folder: temporary files of the JVM go there
    heap_mb: int
    flags: tuple[str, ...]  # for every JVM of the cluster: logging, and its security's settings

    def command(self, *main_class: str, heap_mb: int | None = None) -> list[str]:
        # Killed, a JVM leaves its codecs' libraries in java.io.tmpdir and its counters in /tmp: both go with the rest.
        files = (f"-Djava.io.tmpdir={self.folder}", "-XX:-UsePerfData")
        most = heap_mb or self.heap_mb
        heap = (f"-Xms{min(256, most)}m", f"-Xmx{most}m")
        return [str(self.java), *heap, *files, *self.flags, "-cp", f"{self.jars}/*", *main_class]

    def run(self, *main_class: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's tools to its end, with its output as text.

        A tool's arguments may hold a password, which `ps` would show. So a file has them that only its owner can read.
        """
        java, *arguments = self.command(*main_class)
        with tempfile.NamedTemporaryFile("w", dir=self.folder, prefix="arguments-", encoding="utf-8") as file:
            file.write("\n".join(map(_quoted, arguments)))
            file.flush()
            return subprocess.run(
                [java, f"@{file.name}"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout_s
            )


def _quoted(argument: str) -> str:
    """The argument in a file of arguments, as the `java` command reads it."""
    return '"' + argument.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") + '"'


def performance_flags() -> tuple[str, ...]:
    """Flags for each JVM of a cluster, from `KAFKA_JVM_PERFORMANCE_OPTS`, as in Kafka's own scripts.

    A cluster that lives for seconds takes a third less processor time with `-XX:TieredStopAtLevel=1 -XX:+UseSerialGC`.
    """
    return tuple(shlex.split(os.environ.get("KAFKA_JVM_PERFORMANCE_OPTS", "")))


def logging_flags(folder: Path) -> tuple[str, ...]:
    """Warnings and errors only. Before 1.1 Kafka logs by log4j, which reads a file of the cluster's folder.

    Later releases come without log4j. Their ZooKeeper fails without it, except with this property.
    """
    simple = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true")
    return (f"-Dlog4j.configuration=file:{folder}/log4j.properties", "-Dzookeeper.jmx.log4j.disable=true", *simple)
